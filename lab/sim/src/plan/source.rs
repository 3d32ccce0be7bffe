//! A plan's text, and where in it everything stands: the ground on which every complaint about a plan is made.
//!
//! A [`Source`] keeps the parsed table with the place of each key and value. Values that the command line gives are put
//! into that table as if they stood in the file; their places lie behind the end of the text, and that is how a
//! complaint knows to name the option, as it was typed, instead of a line. Whatever reads a part of the table hands its
//! error back here, to be turned into one sentence that names the file, the line and the key.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::error::{Complaint, PlanError, Trouble};

/// A value in a plan, with its place.
pub type Value<'t> = Spanned<DeValue<'t>>;

/// The text of a plan, parsed.
#[derive(Clone, Debug)]
pub struct Source<'t> {
    /// What the plan is called in complaints: its path, or its built-in name.
    name: &'t str,
    text: &'t str,
    table: DeTable<'t>,
    /// The options of the command line that gave values, as they were typed.
    options: Vec<String>,
}

impl<'t> Source<'t> {
    /// Parses `text`.
    ///
    /// # Errors
    /// When it is not TOML.
    pub fn parse(name: &'t str, text: &'t str) -> Result<Source<'t>, PlanError> {
        let empty = Source { name, text, table: DeTable::new(), options: Vec::new() };
        let table = DeTable::parse(text).map_err(|error| empty.not_toml(&error))?;
        Ok(Source { table: table.into_inner(), ..empty })
    }

    /// The table as it was read, with what [`Source::set`] changed.
    pub fn table(&self) -> &DeTable<'t> {
        &self.table
    }

    /// Gives the key at `path`, such as `workload.pages`, another value, or one where it had none. A value that is not
    /// TOML is a string. `option` is what was typed for that, and what complaints name.
    ///
    /// # Errors
    /// When the path leads through something that is no table, or the value is a list.
    pub fn set(&mut self, option: String, path: &str, value: &'t str) -> Result<(), PlanError> {
        let start = self.text.len() + 1 + self.options.len();
        self.options.push(option);
        let place = start..start + 1;
        let parsed = DeValue::parse(value).map_or_else(|_| DeValue::String(value.into()), Spanned::into_inner);
        if parsed.is_array() || parsed.is_table() {
            let sentence = "takes one number or word here; write lists and tables into a plan of your own";
            return Err(self.complaint(Some(place), path, Trouble::Unfit(sentence.to_owned())));
        }
        *self = self.with(path, place.clone(), &Spanned::new(place, parsed))?;
        Ok(())
    }

    /// Takes the key at `path` out of its table, if it is there.
    pub fn remove(&mut self, path: &str) {
        let Some((table, key)) = path.split_once('.') else { return };
        if let Some(table) = self.table.get_mut(table).map(Spanned::get_mut).and_then(as_table_mut) {
            table.remove(key);
        }
    }

    /// Whether the command line gave the value at `path`.
    pub fn is_given(&self, path: &str) -> bool {
        let at = path.split_once('.').and_then(|(table, key)| self.table.get(table)?.get_ref().as_table()?.get(key));
        at.is_some_and(|value| value.span().start > self.text.len())
    }

    /// Takes the sweep out, if it is over this key: a value that is given is not swept.
    pub fn end_sweep(&mut self, key: &str) {
        let sweep = self.table.get("sweep").and_then(|sweep| sweep.get_ref().as_table());
        let swept = sweep.and_then(|sweep| sweep.get("key")).and_then(|swept| swept.get_ref().as_str());
        if swept == Some(key) {
            self.table.remove("sweep");
        }
    }

    /// This plan with another value at `path`, a path that is written at `place`. Tables on the way that the file does
    /// not write out are there, and empty, but for the first.
    ///
    /// # Errors
    /// When the path leads through something that is no table, or begins with none.
    pub fn with(&self, path: &str, place: Range<usize>, value: &Value<'t>) -> Result<Source<'t>, PlanError> {
        let mut changed = self.clone();
        let (tables, key) = path.rsplit_once('.').map_or((None, path), |(tables, key)| (Some(tables), key));
        let mut table = &mut changed.table;
        for (depth, name) in tables.into_iter().flat_map(|tables| tables.split('.')).enumerate() {
            if depth > 0 && !table.contains_key(name) {
                let empty = Spanned::new(place.clone(), DeValue::Table(DeTable::new()));
                table.insert(Spanned::new(place.clone(), name.to_owned().into()), empty);
            }
            let names = table.iter().filter(|(_, value)| value.get_ref().is_table());
            let names: Vec<_> = names.map(|(key, _)| key.get_ref().to_string()).collect();
            let inner = table.get_mut(name).map(Spanned::get_mut).and_then(as_table_mut);
            table = inner.ok_or_else(|| {
                let hint = freehold_policies::hint(name, names.iter().map(String::as_str));
                self.complaint(Some(place.clone()), path, Trouble::NoTable { name: name.to_owned(), hint })
            })?;
        }
        // A key that is new stands where its path does, so that a complaint about it names the one who gave it.
        table.remove(key);
        table.insert(Spanned::new(place, key.to_owned().into()), value.clone());
        Ok(changed)
    }

    /// Reads a part of the plan. `path` is where it stands, empty for the top.
    ///
    /// # Errors
    /// When the part has unknown keys, lacks some, or has values of a wrong kind.
    pub fn read<T: Deserialize<'t>>(&self, path: &str, part: Value<'t>, more: &[&str]) -> Result<T, PlanError> {
        let span = part.span();
        T::deserialize(ValueDeserializer::from(part)).map_err(|error| {
            let span = error.span().unwrap_or(span);
            let found = self.path_at(&span).unwrap_or_else(|| path.to_owned());
            let trouble = Trouble::from_reader_message(error.message(), more);
            self.complaint(Some(span), &found, trouble)
        })
    }

    /// A complaint about the value at `path`, in a sentence of the caller's that follows the key.
    pub fn unfit(&self, path: &str, sentence: impl Into<String>) -> PlanError {
        self.complaint(self.span_of(path), path, Trouble::Unfit(sentence.into()))
    }

    /// The same about a key that stands at this place.
    pub fn unfit_at(&self, place: Range<usize>, path: &str, sentence: impl Into<String>) -> PlanError {
        self.complaint(Some(place), path, Trouble::Unfit(sentence.into()))
    }

    fn complaint(&self, span: Option<Range<usize>>, path: &str, trouble: Trouble) -> PlanError {
        let start = span.map(|span| span.start);
        let behind = start.and_then(|start| start.checked_sub(self.text.len() + 1));
        let option = behind.and_then(|number| self.options.get(number)).cloned();
        let line = start.filter(|_| behind.is_none()).map(|start| line_at(self.text, start));
        Complaint { plan: self.name.to_owned(), line, option, key: path.to_owned(), trouble }.into()
    }

    fn not_toml(&self, error: &toml::de::Error) -> PlanError {
        let words = error.message().replace('\n', "; ");
        let start = error.span().map_or(0, |span| span.start);
        let key = key_on_line(self.text, start);
        let line = Some(line_at(self.text, start));
        Complaint { plan: self.name.to_owned(), line, option: None, key, trouble: Trouble::NotToml(words) }.into()
    }

    /// The place of the deepest key on `path` that there is.
    fn span_of(&self, path: &str) -> Option<Range<usize>> {
        let (mut table, mut place) = (&self.table, None);
        for name in path.split('.') {
            let Some((key, value)) = table.get_key_value(name) else { break };
            place = Some(key.span());
            let Some(inner) = value.get_ref().as_table() else { break };
            table = inner;
        }
        place
    }

    /// The path of the deepest key at this place. A value that is swept or drawn stands in two places, of which the one
    /// that it is meant for is named.
    fn path_at(&self, span: &Range<usize>) -> Option<String> {
        path_in(&self.table, &["sweep", "fleet"], span).or_else(|| path_in(&self.table, &[], span))
    }
}

/// The path of the deepest key in `table` that stands at this place, or whose value does; not below the keys `but`.
fn path_in(table: &DeTable<'_>, but: &[&str], span: &Range<usize>) -> Option<String> {
    table.iter().filter(|(key, _)| !but.contains(&key.get_ref().as_ref())).find_map(|(key, value)| {
        let name = key.get_ref();
        let deeper = value.get_ref().as_table().and_then(|inner| path_in(inner, &[], span));
        deeper.map(|rest| format!("{name}.{rest}")).or_else(|| {
            (contains_span(&key.span(), span) || contains_span(&value.span(), span)).then(|| name.to_string())
        })
    })
}

/// Returns whether a place contains a span.
fn contains_span(place: &Range<usize>, span: &Range<usize>) -> bool {
    place.start <= span.start && span.end <= place.end && span.start < place.end
}

fn as_table_mut<'a, 't>(value: &'a mut DeValue<'t>) -> Option<&'a mut DeTable<'t>> {
    match value {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

/// Line numbers start at 1.
fn line_at(text: &str, start: usize) -> usize {
    text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1
}

/// The key on the line of this place, as far as a text that cannot be parsed tells.
fn key_on_line(text: &str, start: usize) -> String {
    let line = text.lines().nth(line_at(text, start) - 1).unwrap_or_default();
    line.split('=').next().unwrap_or_default().trim().to_owned()
}
