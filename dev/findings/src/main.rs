//! Writes the pages in `docs/findings`: `cargo xtask findings`.
//!
//! Pages are written by hand. The program replaces their tables and pictures ([`regions`]), and writes all tables as CSV
//! files, also those that a page does not show. A test compares the figures in the text with the tables. Three kinds of
//! pages differ in the source of their tables: simulations ([`owned`], [`highatomic`] and [`ages`]), benchmarks
//! ([`bench`](mod@bench)), and data files that `cargo xtask oracle` wrote ([`recorded`]).
//!
//! The program first checks that the pages can be written. Then it measures and writes one page after another;
//! simulations take hours. It is a program of its own because users of `freehold` do not need it.

mod ages;
mod bench;
mod differences;
mod error;
mod folder;
mod highatomic;
mod owned;
mod picture;
mod recorded;
mod regions;

use std::path::PathBuf;
use std::process::ExitCode;

use bench::BenchPage;
use clap::Parser;
use error::Error;
use freehold_report::origin;
use freehold_sim::costs::Costs;

/// Default folder of the pages.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings");

/// Writes pages of findings.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask findings", bin_name = "cargo xtask findings")]
struct Args {
    /// Pages, by their names in docs/findings without `.md`; without any, all of them, which takes hours
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Measure next to nothing, to check that the program runs; needs --out
    #[arg(long, requires = "out")]
    quick: bool,

    /// Write to DIR instead of docs/findings
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Complete page, or a picture or a data file of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Page {
    /// Path from the folder of the pages.
    name: String,
    /// Text of the file.
    text: String,
}

/// Subject of a page.
#[derive(Clone, Copy)]
enum Subject {
    Owned,
    HighAtomic,
    Ages,
    Bench(BenchPage),
    Recorded(&'static str),
}

impl Subject {
    fn list() -> impl Iterator<Item = Subject> {
        [Subject::Owned, Subject::HighAtomic, Subject::Ages]
            .into_iter()
            .chain(bench::PAGES.map(Subject::Bench))
            .chain(recorded::PAGES.map(Subject::Recorded))
    }

    fn name(self) -> &'static str {
        match self {
            Subject::Owned => owned::NAME,
            Subject::HighAtomic => highatomic::NAME,
            Subject::Ages => ages::NAME,
            Subject::Bench(page) => page.name,
            Subject::Recorded(name) => name,
        }
    }
}

fn main() -> ExitCode {
    origin::built_from(option_env!("FREEHOLD_COMMIT"));
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("findings: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures the subjects of the pages, and writes the pages.
fn run(args: &Args) -> Result<(), Error> {
    let subjects = choose(&args.names)?;
    let folder = args.out.clone().unwrap_or_else(|| PathBuf::from(FOLDER));
    let names: Vec<String> = subjects.iter().map(|subject| page_file(subject.name(), args)).collect();
    folder::try_pages(&folder, names.iter().map(String::as_str))?;
    for subject in subjects {
        let costs = Costs::reference();
        match subject {
            Subject::Owned => folder::write_pages(&folder, &owned::pages(&costs, args)?)?,
            Subject::HighAtomic => {
                let document = highatomic::Document::simulate(&costs, args)?;
                folder::write_pages(&folder, document.pages())?;
                document.conclude();
            }
            Subject::Ages => folder::write_pages(&folder, &ages::pages(&costs, args)?)?,
            Subject::Bench(page) => folder::write_pages(&folder, &bench::measure(&page, args)?)?,
            Subject::Recorded(name) => folder::write_pages(&folder, &[recorded::refresh(name, args)?])?,
        }
    }
    Ok(())
}

fn choose(names: &[String]) -> Result<Vec<Subject>, Error> {
    if names.is_empty() { Ok(Subject::list().collect()) } else { names.iter().map(|name| find_subject(name)).collect() }
}

/// Returns the subject of this name.
fn find_subject(name: &str) -> Result<Subject, Error> {
    Subject::list().find(|subject| subject.name() == name).ok_or_else(|| {
        let hint = freehold_policies::hint(name, Subject::list().map(Subject::name));
        Error::Input(format!("there is no page `{name}`; {hint}"))
    })
}

/// Returns the path of a page from the folder of the pages. The page `fidelity` is beside that folder.
fn page_file(name: &str, args: &Args) -> String {
    let parent = if name == recorded::FIDELITY && args.out.is_none() { "../" } else { "" };
    format!("{parent}{name}.md")
}

/// Returns the command that writes a page, as the page shows it.
fn command(name: &str, args: &Args) -> String {
    let quick = if args.quick { " --quick" } else { "" };
    format!("cargo xtask findings {name}{quick}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str) -> String {
        std::fs::read_to_string(PathBuf::from(FOLDER).join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    #[test]
    fn pictures_are_those_of_the_data_files() {
        let pictures =
            [(owned::NAME, owned::PICTURE), (highatomic::NAME, highatomic::PICTURE), (ages::NAME, ages::PICTURE)];
        for (name, picture) in pictures {
            let page = read(&format!("{name}.md"));
            let drawn = picture
                .draw(name, &page, |region| Some(recorded::read_table(&regions::data_file(name, region)).unwrap()));
            assert!(read(&drawn.name) == drawn.text, "{} is not drawn from the data files", drawn.name);
        }
    }

    #[test]
    fn every_page_of_the_repository_has_a_command() {
        let entries = std::fs::read_dir(FOLDER).expect("the folder is there");
        let pages = entries.map(|entry| entry.expect("it can be read").path());
        for page in pages.filter(|page| page.extension().is_some_and(|ending| ending == "md")) {
            let name = page.file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&page).unwrap();
            // These pages have no tables that this program replaces.
            if ["cargo xtask oracle --advice", "freehold bench malloc --table"].iter().any(|by| text.contains(by)) {
                continue;
            }
            assert!(choose(std::slice::from_ref(&name)).is_ok(), "{name}");
            assert!(text.contains(&format!("`cargo xtask findings {name}`")), "{name} does not say how it is made");
        }
    }

    #[test]
    fn an_unknown_page_is_refused_in_one_sentence() {
        let error = choose(&["flgas".to_owned()]).err().unwrap().to_string();
        assert_eq!(error, "there is no page `flgas`; perhaps `flags` is meant");
    }
}
