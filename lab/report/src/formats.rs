//! Results of commands, and the formats in which they are written.
//!
//! Every result is a [`Document`]. A document has its own JSON, whose names are a contract with scripts, and reports of
//! the shared model. Text, CSV, Markdown, HTML pages and the table of mmtests are rendered from the reports. `--json
//! FILE` writes a file and still prints the text; `--json -` prints the JSON alone. The other formats work likewise.
//! `--format json` is another spelling of `--json -`.

use std::borrow::Cow;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, value_parser};
use serde::Serialize;

use crate::origin::Program;
use crate::output::{OutputError, print, try_file, write_atomically};
use crate::report::{self, Report, csv, markdown, mmtests, terminal};
use crate::terminal::Style;

/// The result of a command: one value with several views.
pub trait Document: Serialize {
    /// Returns the reports, from which all formats for people are rendered.
    fn reports(&self) -> Cow<'_, [Report]>;

    /// Returns the text for a terminal. Every line ends with a newline.
    fn text(&self, style: Style) -> String {
        self.reports().iter().map(|report| terminal::text(report, style)).collect::<Vec<_>>().join("\n")
    }
}

/// Object-safe interface to the views of a document, through which every command returns its result.
pub trait Views: Send + Sync {
    /// Returns the reports, from which all formats for people are rendered.
    fn reports(&self) -> Cow<'_, [Report]>;

    /// Returns the text for a terminal. Every line ends with a newline.
    fn text(&self, style: Style) -> String;

    /// Returns pretty-printed JSON that ends with a newline.
    fn json(&self) -> Vec<u8>;

    /// Returns an HTML page.
    fn page(&self) -> String {
        let program = Program::this();
        report::page::text(&self.reports(), &program.command, &program.version())
    }
}

impl<D: Document + Send + Sync> Views for D {
    fn reports(&self) -> Cow<'_, [Report]> {
        Document::reports(self)
    }

    fn text(&self, style: Style) -> String {
        Document::text(self, style)
    }

    fn json(&self) -> Vec<u8> {
        // Serialization cannot fail, because documents have string keys and plain data.
        let mut text = serde_json::to_vec_pretty(self).expect("a document is plain data with string keys");
        text.push(b'\n');
        text
    }
}

/// A format that stdout can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Csv,
    Markdown,
    Mmtests,
}

/// Returns a parser of the name of one of these formats.
fn format_parser<const N: usize>(formats: [Format; N]) -> impl TypedValueParser<Value = Format> {
    let values = formats.map(|format| format.to_possible_value().expect("no format is hidden"));
    PossibleValuesParser::new(values).map(|name| Format::from_str(&name, false).expect("the name is a possible value"))
}

/// Formats of a document.
#[derive(Clone, Debug, Default, Args)]
pub struct Formats {
    #[command(flatten)]
    targets: Targets,

    /// Format on stdout [default: text]
    #[arg(long, value_name = "FORMAT")]
    #[arg(value_parser = format_parser([Format::Text, Format::Json, Format::Csv, Format::Markdown]))]
    format: Option<Format>,
}

/// Targets of the formats of every document.
#[derive(Clone, Debug, Default, Args)]
struct Targets {
    /// Also write the result as JSON to FILE; `-` prints JSON instead of text
    #[arg(long, value_name = "FILE|-")]
    json: Option<Target>,

    /// Also write the numbers as CSV to FILE; `-` prints CSV instead of text
    #[arg(long, value_name = "FILE|-")]
    csv: Option<Target>,

    /// Also write the full report as Markdown to FILE; `-` prints Markdown instead of text
    #[arg(long, value_name = "FILE|-")]
    markdown: Option<Target>,

    /// Also write one self-contained HTML page to FILE: verdict, tables, plots, and a memory map of each recording; `-`
    /// prints HTML instead of text
    #[arg(long, value_name = "FILE|-")]
    html: Option<Target>,
}

/// Formats of a document that compares A and B.
#[derive(Clone, Debug, Default, Args)]
pub struct VerdictFormats {
    #[command(flatten)]
    targets: Targets,

    /// Also write the table in the format of mmtests, for mails to kernel developers, to FILE; `-` prints the table
    /// instead of text
    #[arg(long, value_name = "FILE|-")]
    mmtests: Option<Target>,

    /// Format on stdout [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = value_parser!(Format))]
    format: Option<Format>,
}

/// Target of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// Stdout, in place of the text.
    Stdout,
    /// A file, in addition to the text on stdout.
    File(PathBuf),
}

impl FromStr for Target {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Target, Infallible> {
        Ok(match text {
            "-" => Target::Stdout,
            path => Target::File(PathBuf::from(path)),
        })
    }
}

/// Function that renders a document in one format.
type Render<'d> = Box<dyn Fn() -> Vec<u8> + 'd>;

impl Formats {
    /// Checks that every file can be written and that no file is one of the inputs. Commands call this before the work
    /// starts, so that a long run is not lost to a path that cannot be written.
    ///
    /// # Errors
    /// If a file cannot be written, if a file is one of the inputs, or if two formats have the same target.
    pub fn try_all<'p>(&self, inputs: impl IntoIterator<Item = &'p Path>) -> Result<(), OutputError> {
        try_targets(&self.targets.list(), self.format, inputs)
    }

    /// Writes a document to all targets: first the files, then stdout.
    ///
    /// # Errors
    /// If stdout or a file cannot be written.
    pub fn emit(&self, document: &dyn Views, style: Style) -> Result<(), OutputError> {
        send(&self.renderings(document), document, style)
    }

    /// Writes a document as [`Formats::emit`] does, except that the text goes to stderr. Stdout is left to the program
    /// that the command ran, unless a format was directed there.
    ///
    /// # Errors
    /// As for [`Formats::emit`].
    pub fn emit_beside(&self, document: &dyn Views, style: Style) -> Result<(), OutputError> {
        let renderings = self.renderings(document);
        if renderings.iter().any(|(target, _)| **target == Target::Stdout) {
            return send(&renderings, document, style);
        }
        write_files(&renderings)?;
        eprint!("{}", document.text(style));
        Ok(())
    }

    /// Returns whether an HTML page was requested. Data that only a page shows is computed only in this case.
    pub fn wants_page(&self) -> bool {
        self.targets.html.is_some()
    }

    fn renderings<'d>(&'d self, document: &'d dyn Views) -> Vec<(&'d Target, Render<'d>)> {
        self.targets.renderings(document).into_iter().chain(on_stdout(self.format, document)).collect()
    }
}

impl Targets {
    fn list(&self) -> Vec<&Target> {
        [&self.json, &self.csv, &self.markdown, &self.html].into_iter().flatten().collect()
    }

    fn renderings<'d>(&'d self, document: &'d dyn Views) -> Vec<(&'d Target, Render<'d>)> {
        let formats = [(&self.json, Format::Json), (&self.csv, Format::Csv), (&self.markdown, Format::Markdown)];
        let formats =
            formats.into_iter().filter_map(|(target, format)| Some((target.as_ref()?, rendering(format, document)?)));
        let page: Option<(&Target, Render<'d>)> =
            self.html.as_ref().map(|target| (target, Box::new(|| document.page().into_bytes()) as Render<'d>));
        formats.chain(page).collect()
    }
}

impl VerdictFormats {
    /// Returns whether an HTML page was requested, as [`Formats::wants_page`].
    pub fn wants_page(&self) -> bool {
        self.targets.html.is_some()
    }

    /// Checks all targets, as [`Formats::try_all`].
    ///
    /// # Errors
    /// As for [`Formats::try_all`].
    pub fn try_all<'p>(&self, inputs: impl IntoIterator<Item = &'p Path>) -> Result<(), OutputError> {
        let targets: Vec<&Target> = self.targets.list().into_iter().chain(&self.mmtests).collect();
        try_targets(&targets, self.format, inputs)
    }

    /// Writes a document to all targets, as [`Formats::emit`].
    ///
    /// # Errors
    /// As for [`Formats::emit`].
    pub fn emit(&self, document: &dyn Views, style: Style) -> Result<(), OutputError> {
        let mut renderings = self.targets.renderings(document);
        renderings.extend(self.mmtests.as_ref().zip(rendering(Format::Mmtests, document)));
        renderings.extend(on_stdout(self.format, document));
        send(&renderings, document, style)
    }
}

/// Returns the renderer of the format that stdout gets, if it is not the text.
fn on_stdout(format: Option<Format>, document: &dyn Views) -> Option<(&Target, Render<'_>)> {
    Some((&Target::Stdout, rendering(format?, document)?))
}

/// Returns the renderer of a format; `None` for the text, which depends on the terminal.
fn rendering(format: Format, document: &dyn Views) -> Option<Render<'_>> {
    Some(match format {
        Format::Text => return None,
        Format::Json => Box::new(|| document.json()),
        Format::Csv => Box::new(|| csv::text(&document.reports()).expect("a write to memory cannot fail")),
        Format::Markdown => Box::new(|| joined(document, markdown::text)),
        Format::Mmtests => Box::new(|| joined(document, mmtests::text)),
    })
}

fn try_targets<'p>(
    targets: &[&Target],
    format: Option<Format>,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<(), OutputError> {
    if format.is_some() && targets.contains(&&Target::Stdout) {
        return Err(OutputError::StdoutTwice);
    }
    let inputs: Vec<&Path> = inputs.into_iter().collect();
    if (1..targets.len()).any(|at| targets[..at].contains(&targets[at])) {
        return Err(OutputError::SamePlace);
    }
    targets.iter().try_for_each(|target| match target {
        Target::File(path) if inputs.iter().any(|input| is_same(path, input)) => Err(OutputError::Input(path.clone())),
        Target::File(path) => try_file(path),
        Target::Stdout => Ok(()),
    })
}

/// Returns whether both paths exist and refer to the same file.
fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok().zip(other.canonicalize().ok()).is_some_and(|(one, other)| one == other)
}

fn write_files(renderings: &[(&Target, Render<'_>)]) -> Result<(), OutputError> {
    for (target, render) in renderings {
        if let Target::File(path) = target {
            write_atomically(path, &render())?;
        }
    }
    Ok(())
}

fn send(renderings: &[(&Target, Render<'_>)], document: &dyn Views, style: Style) -> Result<(), OutputError> {
    write_files(renderings)?;
    match renderings.iter().find(|(target, _)| **target == Target::Stdout) {
        Some((_, render)) => print(&render()),
        None => print(document.text(style).as_bytes()),
    }
}

fn joined(document: &dyn Views, render: fn(&Report) -> String) -> Vec<u8> {
    document.reports().iter().map(render).collect::<Vec<_>>().join("\n").into_bytes()
}
