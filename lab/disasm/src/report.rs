//! Machine code as tables, with sentences that summarize them.

use std::borrow::Cow;
use std::cmp::Ordering;

use freehold_report::formats::Document;
use freehold_report::report::{Column, Report, Table, Value};

use super::listing::{Counts, Line};
use super::{Disassembly, FunctionListing, Likeness, PairListing, SubjectListing};

/// Titles of the counts.
const COUNTED: [&str; 8] = ["instructions", "bytes", "branches", "cmov, set", "jumps", "calls", "loads", "stores"];

impl Document for Disassembly {
    fn reports(&self) -> Cow<'_, [Report]> {
        let mut reports: Vec<Report> = self.subjects.iter().map(SubjectListing::report).collect();
        if let Some(first) = reports.first_mut().filter(|_| !self.optimized) {
            let debug = "This program is a debug build; its counts do not apply to a release build.";
            first.subject.push(debug.to_owned());
        }
        Cow::Owned(reports)
    }
}

impl SubjectListing {
    fn report(&self) -> Report {
        let listings = self.pairs.iter().map(PairListing::listing);
        Report {
            subject: vec![format!("{}: {}", self.name, self.about)],
            verdict: self.pairs.iter().map(PairListing::meaning).collect(),
            tables: std::iter::once(self.counts()).chain(listings).collect(),
            reading: vec![self.further.to_owned()],
            ..Report::default()
        }
    }

    fn counts(&self) -> Table {
        let mut rows = Vec::new();
        for function in self.pairs.iter().flat_map(|pair| [&pair.before, &pair.after]) {
            let counts = numbers(function.counts()).map(|number| Value::count(number as u64));
            rows.push([vec![Value::text(function.function)], counts.to_vec()].concat());
        }
        Table::new("", Column::several(&["function"], &COUNTED), rows)
    }
}

fn numbers(counts: Counts) -> [usize; 8] {
    [
        counts.instructions,
        counts.bytes,
        counts.conditional_branches,
        counts.conditional_moves,
        counts.jumps,
        counts.calls,
        counts.loads,
        counts.stores,
    ]
}

impl PairListing {
    /// Formats the comparison of the two functions in one line.
    pub(super) fn meaning(&self) -> String {
        let (before, after) = (&self.before, &self.after);
        let code = match self.likeness {
            Likeness::Merged => "both names are one function".to_owned(),
            Likeness::Same => "identical instructions".to_owned(),
            Likeness::Different => difference(before, after),
        };
        let branches = match (before.counts().conditional_branches, after.counts().conditional_branches) {
            (0, 0) => "no conditional branches".to_owned(),
            (before, after) => format!("conditional branches: {before} before, {after} after"),
        };
        format!("{}: {code}; {branches}.", self.name)
    }

    /// Returns the table of the instructions. Equal code is shown once.
    fn listing(&self) -> Table {
        let (before, after) = (&self.before, &self.after);
        if self.likeness == Likeness::Different {
            return side_by_side(self.name, before, after);
        }
        let mut names = vec![before.function, after.function];
        names.dedup();
        let columns = vec![Column::numbers("at"), Column::words("bytes"), Column::words("instruction")];
        let lines = before.listing.lines.iter();
        let rows = lines.map(|line| vec![offset(line), Value::Faint(line.bytes.clone()), Value::text(&line.text)]);
        Table::new(format!("{}: {}", self.name, names.join(" and ")), columns, rows)
    }
}

fn side_by_side(title: &str, before: &FunctionListing, after: &FunctionListing) -> Table {
    let columns = [before, after].map(|function| [Column::numbers("at"), Column::words(function.function)]);
    let (before, after) = (&before.listing.lines, &after.listing.lines);
    let rows = 0..before.len().max(after.len());
    Table::new(title, columns.concat(), rows.map(|row| [cells(before.get(row)), cells(after.get(row))].concat()))
}

/// Returns the cells of a line of code; empty cells for the shorter of two functions after its end.
fn cells(line: Option<&Line>) -> [Value; 2] {
    line.map_or([Value::text(""), Value::text("")], |line| [offset(line), Value::text(&line.text)])
}

fn offset(line: &Line) -> Value {
    Value::Faint(format!("+{:#x}", line.offset))
}

/// Formats the difference between two functions whose code differs.
fn difference(before: &FunctionListing, after: &FunctionListing) -> String {
    let (old, new) = (before.counts(), after.counts());
    if (old.instructions, old.bytes) == (new.instructions, new.bytes) {
        return "equal numbers of instructions and bytes, but another order or other registers".to_owned();
    }
    let instructions = more(old.instructions, new.instructions, "instruction");
    let bytes = more(old.bytes, new.bytes, "byte");
    format!("{} has {instructions} and {bytes} than {}", after.function, before.function)
}

/// Formats the number of additional or missing items in `after`, with the noun.
fn more(before: usize, after: usize, noun: &str) -> String {
    let difference = before.abs_diff(after);
    let nouns = if difference == 1 { noun.to_owned() } else { format!("{noun}s") };
    match after.cmp(&before) {
        Ordering::Equal => format!("no {nouns} more"),
        Ordering::Greater => format!("{difference} {nouns} more"),
        Ordering::Less => format!("{difference} {nouns} fewer"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::image::Code;
    use super::super::listing::Listing;
    use super::*;

    fn function(name: &'static str, address: u64, bytes: &[u8]) -> FunctionListing {
        let listing = Listing::decode(Code { address, bytes }).expect("the bytes are instructions");
        FunctionListing { function: name, address, listing }
    }

    fn pair(before: FunctionListing, after: FunctionListing) -> PairListing {
        let likeness = Likeness::compare(&before, &after);
        PairListing { name: "path", before, after, likeness }
    }

    const RETURN: [u8; 1] = [0xc3];
    /// test %edi, %edi; je over the next; nop; ret
    const BRANCH: [u8; 6] = [0x85, 0xff, 0x74, 0x01, 0x90, 0xc3];

    #[test]
    fn summary_describes_differences_in_size_and_branches() {
        let same = pair(function("old", 0, &RETURN), function("new", 16, &RETURN));
        assert_eq!(same.meaning(), "path: identical instructions; no conditional branches.");
        let merged = pair(function("old", 16, &RETURN), function("new", 16, &RETURN));
        assert!(merged.meaning().contains("both names are one function;"), "{}", merged.meaning());
        let longer = pair(function("old", 0, &RETURN), function("new", 16, &BRANCH));
        assert_eq!(
            longer.meaning(),
            "path: new has 3 instructions more and 5 bytes more than old; conditional branches: 0 before, 1 after."
        );
        let shorter = pair(function("old", 0, &[0x90, 0xc3]), function("new", 16, &RETURN));
        assert!(shorter.meaning().contains("1 instruction fewer and 1 byte fewer"), "{}", shorter.meaning());
        // push %rbx and push %rax: equally long, but different.
        let alike = pair(function("old", 0, &[0x53]), function("new", 16, &[0x50]));
        assert!(alike.meaning().contains("equal numbers of instructions and bytes, but"), "{}", alike.meaning());
    }

    fn show_row(row: &[Value]) -> Vec<String> {
        row.iter().map(Value::shown).collect::<Vec<_>>()
    }

    #[test]
    fn different_code_is_listed_in_pairs_and_equal_code_once() {
        let different = pair(function("old", 0, &RETURN), function("new", 16, &BRANCH)).listing();
        let rows: Vec<_> = different.rows.iter().map(|row| show_row(row)).collect();
        assert!(rows[0].iter().any(|text| text == "ret") && rows[0].iter().any(|text| text == "test %edi, %edi"));
        assert_eq!(rows[1], ["", "", "+0x2", "je +0x5"]);
        let same = pair(function("old", 0, &BRANCH), function("new", 16, &BRANCH)).listing();
        assert_eq!(same.title, "path: old and new");
        assert_eq!(same.rows.iter().filter(|row| show_row(row).iter().any(|text| text == "je +0x5")).count(), 1);
    }
}
