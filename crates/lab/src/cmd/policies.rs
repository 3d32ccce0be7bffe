//! `freehold policies`: the policies by name, and how to change one.

use clap::Args;
use freehold_measure::formats::{Document, Formats};
use freehold_measure::terminal::{Column, Style, Tone, table_text};
use freehold_registry::{FIELDS, Field, NUMBERS, Number, SETS, SWITCHES, Set};
use serde::Serialize;

use crate::error::Error;

/// Arguments of `freehold policies`.
#[derive(Debug, Args)]
pub struct PoliciesArgs {
    #[command(flatten)]
    formats: Formats,
}

/// Prints the registry.
pub fn run(args: &PoliciesArgs, style: Style) -> Result<(), Error> {
    args.formats.try_all()?;
    Ok(args.formats.emit(&Catalogue::new(), style)?)
}

/// The registry as a document.
#[derive(Debug, Serialize)]
struct Catalogue {
    grammar: &'static str,
    sets: Vec<SetEntry>,
    fields: Vec<FieldEntry>,
    switches: Vec<FieldEntry>,
    numbers: Vec<NumberEntry>,
}

#[derive(Debug, Serialize)]
struct SetEntry {
    name: &'static str,
    about: &'static str,
    /// The set as changes to nothing: `field=value,...`
    choices: String,
}

#[derive(Debug, Serialize)]
struct FieldEntry {
    name: &'static str,
    about: &'static str,
    values: Vec<ValueEntry>,
}

#[derive(Debug, Serialize)]
struct ValueEntry {
    name: &'static str,
    about: &'static str,
}

#[derive(Debug, Serialize)]
struct NumberEntry {
    name: &'static str,
    about: &'static str,
    unit: &'static str,
    min: u32,
    max: u32,
}

impl Catalogue {
    fn new() -> Catalogue {
        Catalogue {
            grammar: "SET[,field=value...]",
            sets: SETS.iter().map(SetEntry::new).collect(),
            fields: FIELDS.iter().map(FieldEntry::new).collect(),
            switches: SWITCHES.iter().map(FieldEntry::new).collect(),
            numbers: NUMBERS.iter().map(NumberEntry::new).collect(),
        }
    }

    fn sets_text(&self, style: Style) -> String {
        let mut table = style.table(&[Column::Text("set"), Column::Text("is"), Column::Text("made of")]);
        for set in &self.sets {
            table.add_row([set.name, set.about, &set.choices]);
        }
        table_text(&table)
    }

    fn numbers_text(&self, style: Style) -> String {
        let mut table = style.table(&[Column::Text("field=number"), Column::Text("from .. to"), Column::Text("means")]);
        for number in &self.numbers {
            table.add_row([
                format!("{}=N", number.name),
                format!("{} .. {}", number.min, number.max),
                number.about.to_owned(),
            ]);
        }
        table_text(&table)
    }
}

impl Document for Catalogue {
    fn reports(&self) -> std::borrow::Cow<'_, [freehold_measure::report::Report]> {
        std::borrow::Cow::Borrowed(&[])
    }

    fn text(&self, style: Style) -> String {
        let mut text =
            format!("A policy is written {}, for instance linux-6.12,pcp=merge,pcp.batch=31\n\n", self.grammar);
        text += &style.heading("Sets");
        text += &self.sets_text(style);
        text += &format!("\n{}", style.heading("Decisions"));
        text += &fields_text(&self.fields, style);
        text += &format!(
            "\n{}",
            style.heading("Switches, at their first value under every set: to find causes, or to harden")
        );
        text += &fields_text(&self.switches, style);
        text += &format!(
            "\n{}",
            style.heading("Numbers that replace a rule; without it: where neither the set nor you give one")
        );
        text + &self.numbers_text(style)
    }
}

fn fields_text(fields: &[FieldEntry], style: Style) -> String {
    let mut table = style.table(&[Column::Text("field=value"), Column::Text("means")]);
    for field in fields {
        table.add_row(vec![style.cell(field.name, Tone::Faint), style.cell(field.about, Tone::Faint)]);
        for value in &field.values {
            table.add_row([format!("  {}={}", field.name, value.name), value.about.to_owned()]);
        }
    }
    table_text(&table)
}

impl SetEntry {
    fn new(set: &Set) -> SetEntry {
        SetEntry { name: set.name, about: set.about, choices: freehold_registry::choices(&set.policy) }
    }
}

impl FieldEntry {
    fn new(field: &Field) -> FieldEntry {
        let values = field.choices.iter().map(|choice| ValueEntry { name: choice.name, about: choice.about });
        FieldEntry { name: field.name, about: field.about, values: values.collect() }
    }
}

impl NumberEntry {
    fn new(number: &Number) -> NumberEntry {
        NumberEntry { name: number.name, about: number.about, unit: number.unit, min: number.min, max: number.max }
    }
}
