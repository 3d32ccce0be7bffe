//! Text of a plan, with the location of each key and value for error messages.
//!
//! A [`Source`] keeps the parsed table with the location of each key and value. Values from the command line are
//! inserted into that table like values of the file. Their locations are beyond the end of the text, so an error about
//! them names the option as it was typed, instead of a line. Code that reads a part of the table passes its error back
//! to this module, which turns it into one sentence that names the file, the line and the key.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::error::{Complaint, PlanError, Trouble};

/// A value in a plan, with its location.
pub type Value<'t> = Spanned<DeValue<'t>>;

/// The text of a plan, parsed.
#[derive(Clone, Debug)]
pub struct Source<'t> {
    /// Name of the plan in error messages: its path, or its built-in name.
    name: &'t str,
    text: &'t str,
    table: DeTable<'t>,
    /// Command-line options that gave values, as they were typed.
    options: Vec<String>,
}

impl<'t> Source<'t> {
    /// Parses `text`.
    ///
    /// # Errors
    /// Returns an error if the text is not TOML.
    pub fn parse(name: &'t str, text: &'t str) -> Result<Source<'t>, PlanError> {
        let empty = Source { name, text, table: DeTable::new(), options: Vec::new() };
        let table = DeTable::parse(text).map_err(|error| empty.not_toml(&error))?;
        Ok(Source { table: table.into_inner(), ..empty })
    }

    /// Returns the table, including the changes by [`Source::set`].
    pub fn table(&self) -> &DeTable<'t> {
        &self.table
    }

    /// Sets the key at `path`, such as `workload.pages`, whether it had a value or not. A value that is not TOML is
    /// taken as a string. `option` is the typed option, which error messages name.
    ///
    /// # Errors
    /// Returns an error if the path leads through a key that is not a table, or if the value is a list or a table.
    pub fn set(&mut self, option: String, path: &str, value: &'t str) -> Result<(), PlanError> {
        let start = self.text.len() + 1 + self.options.len();
        self.options.push(option);
        let place = start..start + 1;
        let parsed = DeValue::parse(value).map_or_else(|_| DeValue::String(value.into()), Spanned::into_inner);
        if parsed.is_array() || parsed.is_table() {
            let sentence = "takes one number or word; write lists and tables in a plan file";
            return Err(self.complaint(Some(place), path, Trouble::Unfit(sentence.to_owned())));
        }
        *self = self.with(path, place.clone(), &Spanned::new(place, parsed))?;
        Ok(())
    }

    /// Removes the key at `path` from its table, if it is there.
    pub fn remove(&mut self, path: &str) {
        let Some((table, key)) = path.split_once('.') else { return };
        if let Some(table) = self.table.get_mut(table).map(Spanned::get_mut).and_then(as_table_mut) {
            table.remove(key);
        }
    }

    /// Returns whether the command line gave the value at `path`.
    pub fn is_given(&self, path: &str) -> bool {
        let at = path.split_once('.').and_then(|(table, key)| self.table.get(table)?.get_ref().as_table()?.get(key));
        at.is_some_and(|value| value.span().start > self.text.len())
    }

    /// Removes the sweep if it is over this key, since a key with a given value is not swept.
    pub fn end_sweep(&mut self, key: &str) {
        let sweep = self.table.get("sweep").and_then(|sweep| sweep.get_ref().as_table());
        let swept = sweep.and_then(|sweep| sweep.get("key")).and_then(|swept| swept.get_ref().as_str());
        if swept == Some(key) {
            self.table.remove("sweep");
        }
    }

    /// Returns a copy of the plan with another value at `path`, a path that is written at `place`. Tables on the way
    /// that the file does not contain are created, except the first.
    ///
    /// # Errors
    /// Returns an error if the path leads through a key that is not a table, or if its first table is missing.
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
        // A new key gets the location of its path, so that an error about it names the line or option that gave it.
        table.remove(key);
        table.insert(Spanned::new(place, key.to_owned().into()), value.clone());
        Ok(changed)
    }

    /// Reads a part of the plan. `path` is its location, empty for the top. `more` lists valid keys that `T` does not
    /// know.
    ///
    /// # Errors
    /// Returns an error if the part has unknown keys, lacks some, or has values of a wrong type.
    pub fn read<T: Deserialize<'t>>(&self, path: &str, part: Value<'t>, more: &[&str]) -> Result<T, PlanError> {
        let span = part.span();
        T::deserialize(ValueDeserializer::from(part)).map_err(|error| {
            let span = error.span().unwrap_or(span);
            let found = self.path_at(&span).unwrap_or_else(|| path.to_owned());
            let trouble = Trouble::from_reader_message(error.message(), more);
            self.complaint(Some(span), &found, trouble)
        })
    }

    /// Returns an error about the value at `path`, with a sentence that follows the key.
    pub fn unfit(&self, path: &str, sentence: impl Into<String>) -> PlanError {
        self.complaint(self.span_of(path), path, Trouble::Unfit(sentence.into()))
    }

    /// Returns an error about a key at the location `place`, with a sentence that follows the key.
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

    /// Returns the location of the deepest existing key on `path`.
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

    /// Returns the path of the deepest key at this location. A swept or drawn value is in the table twice; the path of
    /// the parameter itself is preferred.
    fn path_at(&self, span: &Range<usize>) -> Option<String> {
        path_in(&self.table, &["sweep", "fleet"], span).or_else(|| path_in(&self.table, &[], span))
    }
}

/// Returns the path of the deepest key in `table` whose location, or whose value's location, contains `span`. Does not
/// search the keys `but`.
fn path_in(table: &DeTable<'_>, but: &[&str], span: &Range<usize>) -> Option<String> {
    table.iter().filter(|(key, _)| !but.contains(&key.get_ref().as_ref())).find_map(|(key, value)| {
        let name = key.get_ref();
        let deeper = value.get_ref().as_table().and_then(|inner| path_in(inner, &[], span));
        deeper.map(|rest| format!("{name}.{rest}")).or_else(|| {
            (contains_span(&key.span(), span) || contains_span(&value.span(), span)).then(|| name.to_string())
        })
    })
}

/// Returns whether a location contains a span.
fn contains_span(place: &Range<usize>, span: &Range<usize>) -> bool {
    place.start <= span.start && span.end <= place.end && span.start < place.end
}

fn as_table_mut<'a, 't>(value: &'a mut DeValue<'t>) -> Option<&'a mut DeTable<'t>> {
    match value {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

/// Returns the line number of a location, counted from 1.
fn line_at(text: &str, start: usize) -> usize {
    text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1
}

/// Returns the key on the line of this location, as well as it can be recognised in a text that is not valid TOML.
fn key_on_line(text: &str, start: usize) -> String {
    let line = text.lines().nth(line_at(text, start) - 1).unwrap_or_default();
    line.split('=').next().unwrap_or_default().trim().to_owned()
}
