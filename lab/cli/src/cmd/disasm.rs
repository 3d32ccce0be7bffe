//! `freehold disasm [NAME...]`: shows the machine code of rival functions in this program.

use std::borrow::Cow;

use clap::Args;
use freehold_disasm::subjects::{SUBJECTS, Subject};
use freehold_report::formats::{Document, Formats};
use freehold_report::report::{Column, Report, Table, Value};
use freehold_report::terminal::Style;
use serde::Serialize;

use crate::error::Error;

/// Arguments of `freehold disasm`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  freehold disasm --list\n  \
                        freehold disasm flags")]
pub struct DisasmArgs {
    /// Subjects to show; without NAME, all subjects (see --list)
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// List the subjects
    #[arg(long)]
    list: bool,

    #[command(flatten)]
    formats: Formats,
}

/// Prints the code, or a list of the available subjects.
pub(crate) fn run(args: &DisasmArgs, style: Style) -> Result<(), Error> {
    args.formats.try_all([])?;
    let subjects = chosen(&args.names)?;
    if args.list {
        return Ok(args.formats.emit(&Contents::new(&subjects), style)?);
    }
    Ok(args.formats.emit(&freehold_disasm::disassemble(&subjects)?, style)?)
}

/// Returns the subjects with these names, or all subjects.
fn chosen(names: &[String]) -> Result<Vec<&'static Subject>, Error> {
    if names.is_empty() { Ok(SUBJECTS.to_vec()) } else { names.iter().map(|name| find_subject(name)).collect() }
}

fn find_subject(name: &str) -> Result<&'static Subject, Error> {
    SUBJECTS.iter().copied().find(|subject| subject.name == name).ok_or_else(|| {
        let hint = freehold_policies::hint(name, SUBJECTS.iter().map(|subject| subject.name));
        Error::Input(format!("there is no subject `{name}`; {hint} (see `freehold disasm --list`)"))
    })
}

/// List of the subjects, as a document.
#[derive(Debug, Serialize)]
struct Contents {
    subjects: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: &'static str,
    about: &'static str,
    functions: Vec<&'static str>,
}

impl Contents {
    fn new(subjects: &[&Subject]) -> Contents {
        Contents { subjects: subjects.iter().map(|subject| Entry::new(subject)).collect() }
    }
}

impl Entry {
    fn new(subject: &Subject) -> Entry {
        let functions = subject.pairs.iter().flat_map(|pair| [pair.before.name, pair.after.name]);
        Entry { name: subject.name, about: subject.about, functions: functions.collect() }
    }

    fn row(&self) -> Vec<Value> {
        [self.name, self.about, &self.functions.join(", ")].map(Value::text).to_vec()
    }
}

impl Document for Contents {
    fn reports(&self) -> Cow<'_, [Report]> {
        let columns = Column::several(&["name", "description", "functions"], &[]);
        let table = Table::new("", columns, self.subjects.iter().map(Entry::row));
        Cow::Owned(vec![Report { tables: vec![table], ..Report::default() }])
    }
}
