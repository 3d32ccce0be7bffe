//! The formats of a report with a verdict, beside its text.

use clap::Args;
use freehold_measure::output::{self, JsonArgs, JsonTarget, OutputError};
use freehold_measure::report::{self, csv, markdown, mmtests};
use freehold_measure::terminal::Style;

use crate::error::Error;

/// Where each format goes.
#[derive(Clone, Debug, Default, Args)]
pub struct Formats {
    #[command(flatten)]
    json: JsonArgs,

    /// Write the measures as CSV to FILE as well; `-` prints CSV instead of text
    #[arg(long, value_name = "FILE|-")]
    csv: Option<JsonTarget>,

    /// Write everything as Markdown to FILE as well; `-` prints Markdown instead of text
    #[arg(long, value_name = "FILE|-")]
    markdown: Option<JsonTarget>,

    /// Write the table that kernel developers paste (mmtests) to FILE as well; `-` prints it instead of text
    #[arg(long, value_name = "FILE|-")]
    mmtests: Option<JsonTarget>,
}

impl Formats {
    /// Whether every file can be written: before the work, because afterwards is late to hear that it cannot be.
    ///
    /// # Errors
    /// When one cannot be, or two formats want stdout.
    pub fn try_all(&self) -> Result<(), Error> {
        let to_stdout = self.targets().filter(|target| **target == JsonTarget::Stdout).count();
        if to_stdout > 1 {
            return Err(Error::Input("two formats cannot both go to stdout; give one of them a file".to_owned()));
        }
        for target in self.targets() {
            if let JsonTarget::File(path) = target {
                output::try_file(path)?;
            }
        }
        Ok(())
    }

    fn targets(&self) -> impl Iterator<Item = &JsonTarget> {
        [&self.json.json, &self.csv, &self.markdown, &self.mmtests].into_iter().flatten()
    }
}

/// Makes the bytes of a report.
type Render = fn(&report::Report) -> Vec<u8>;

/// Sends a report where the user wants it, files first.
///
/// # Errors
/// When stdout or a file cannot be written.
pub fn emit(
    document: &impl output::Report,
    reports: &[report::Report],
    formats: &Formats,
    style: Style,
) -> Result<(), Error> {
    let renderings: [(&Option<JsonTarget>, Render); 3] = [
        (&formats.csv, |report| csv::text(report).expect("memory takes what is written to it")),
        (&formats.markdown, |report| markdown::text(report).into_bytes()),
        (&formats.mmtests, |report| mmtests::text(report, "A", "B").into_bytes()),
    ];
    for (target, render) in &renderings {
        if let Some(JsonTarget::File(path)) = target {
            output::write_atomically(path, &joined(reports, *render))?;
        }
    }
    for (target, render) in &renderings {
        if let Some(JsonTarget::Stdout) = target {
            return Ok(output::print(&joined(reports, *render))?);
        }
    }
    output::emit(document, &formats.json, style).map_err(|error: OutputError| error.into())
}

fn joined(reports: &[report::Report], render: Render) -> Vec<u8> {
    reports.iter().map(render).collect::<Vec<_>>().join(&b"\n"[..])
}
