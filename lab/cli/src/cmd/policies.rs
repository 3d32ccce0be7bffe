//! `freehold policies`: lists the policies by name, and the ways to change one.

use std::borrow::Cow;

use clap::Args;
use freehold_policies::{FIELDS, Field, NUMBERS, Number, ON, RULES, SETS, SWITCHES, Set};
use freehold_report::formats::{Document, Formats};
use freehold_report::report::{Column, Report, Table, Value};
use freehold_report::terminal::Style;
use serde::Serialize;

use crate::error::Error;

/// Arguments of `freehold policies`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  freehold policies\n  \
                        freehold policies --json -")]
pub struct PoliciesArgs {
    #[command(flatten)]
    formats: Formats,
}

/// Prints the registry of policies.
pub(crate) fn run(args: &PoliciesArgs, style: Style) -> Result<(), Error> {
    args.formats.try_all([])?;
    Ok(args.formats.emit(&Catalogue::new(), style)?)
}

/// The registry as a document.
#[derive(Debug, Serialize)]
struct Catalogue {
    grammar: &'static str,
    sets: Vec<SetEntry>,
    fields: Vec<FieldEntry>,
    rules: Vec<FieldEntry>,
    switches: Vec<FieldEntry>,
    numbers: Vec<NumberEntry>,
}

#[derive(Debug, Serialize)]
struct SetEntry {
    name: &'static str,
    about: &'static str,
    /// All choices of the set, as `field=value,...`
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
            grammar: "SET[,on=KERNEL][,field=value...]",
            sets: SETS.iter().map(SetEntry::new).collect(),
            fields: FIELDS.iter().map(FieldEntry::new).collect(),
            rules: RULES.iter().map(FieldEntry::new).collect(),
            switches: SWITCHES.iter().map(FieldEntry::new).collect(),
            numbers: NUMBERS.iter().map(NumberEntry::new).collect(),
        }
    }

    fn sets_table(&self) -> Table {
        let rows = self.sets.iter().map(|set| [set.name, set.about, &set.choices].map(Value::text).to_vec());
        Table::new("Sets", Column::several(&["set", "description", "choices"], &[]), rows)
    }

    fn numbers_table(&self) -> Table {
        let rows = self.numbers.iter().map(|number| {
            let range = format!("{} .. {}", number.min, number.max);
            vec![Value::Text(format!("{}=N", number.name)), Value::Text(range), Value::text(number.about)]
        });
        let title = "Numbers that replace a rule of the kernel (the rule applies if set and policy give no number)";
        Table::new(title, Column::several(&["field=number", "range", "meaning"], &[]), rows)
    }
}

impl Document for Catalogue {
    fn reports(&self) -> Cow<'_, [Report]> {
        let example = "linux-6.12,pcp=merge,pcp.batch=31";
        let switches = "Switches for diagnosis or hardening (every set has the first value)";
        let tables = vec![
            self.sets_table(),
            fields_table("Decisions", &self.fields),
            fields_table("Rules that changed since Linux 6.12 (the first value is the rule of 6.12)", &self.rules),
            fields_table(switches, &self.switches),
            self.numbers_table(),
        ];
        let subject = vec![
            format!("Policy: {}; example: {example}", self.grammar),
            format!("{}=KERNEL: the rules of this kernel, except the rules that SET itself changes from 6.12", ON),
        ];
        Cow::Owned(vec![Report { subject, tables, ..Report::default() }])
    }
}

fn fields_table(title: &str, fields: &[FieldEntry]) -> Table {
    let rows = fields.iter().flat_map(|field| {
        let about = [field.name, field.about].map(|text| Value::Faint(text.to_owned())).to_vec();
        let values = field
            .values
            .iter()
            .map(|value| vec![Value::Text(format!("  {}={}", field.name, value.name)), Value::text(value.about)]);
        std::iter::once(about).chain(values)
    });
    Table::new(title, Column::several(&["field=value", "meaning"], &[]), rows)
}

impl SetEntry {
    fn new(set: &Set) -> SetEntry {
        SetEntry { name: set.name, about: set.about, choices: freehold_policies::choices(&set.policy) }
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
