//! Machine code as tables, with a sentence on what they say.

use std::cmp::Ordering;

use freehold_measure::formats::Document;
use freehold_measure::terminal::{Column, Style, Tone, table_text};

use super::listing::{Counts, Line};
use super::{Disassembly, Likeness, Shown, ShownFunction, ShownPair};

impl Document for Disassembly {
    fn reports(&self) -> std::borrow::Cow<'_, [freehold_measure::report::Report]> {
        std::borrow::Cow::Borrowed(&[])
    }

    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        if !self.optimized {
            text += "This program was built for debugging; its counts say nothing about a release build.\n\n";
        }
        text + &self.subjects.iter().map(|subject| subject.text(style)).collect::<Vec<_>>().join("\n")
    }
}

impl Shown {
    fn text(&self, style: Style) -> String {
        let mut text = style.heading(&format!("{}: {}", self.name, self.about));
        text += &format!("\n{}\n", self.counts_text(style));
        for pair in &self.pairs {
            text += &pair.meaning();
        }
        for pair in &self.pairs {
            text += &format!("\n{}", pair.listing_text(style));
        }
        text + &format!("\n{}\n", self.further)
    }

    fn counts_text(&self, style: Style) -> String {
        let mut table = style.table(&[
            Column::Text("function"),
            Column::Number("instructions"),
            Column::Number("bytes"),
            Column::Number("branches"),
            Column::Number("cmov, set"),
            Column::Number("jumps"),
            Column::Number("calls"),
            Column::Number("loads"),
            Column::Number("stores"),
        ]);
        for function in self.pairs.iter().flat_map(|pair| [&pair.before, &pair.after]) {
            let mut cells = vec![style.cell(function.function, Tone::Plain)];
            cells.extend(numbers(function.counts()).map(|number| style.cell(number, Tone::Plain)));
            table.add_row(cells);
        }
        table_text(&table)
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

impl ShownPair {
    /// One line on how the two compare.
    pub(super) fn meaning(&self) -> String {
        let (before, after) = (&self.before, &self.after);
        let code = match self.likeness {
            Likeness::Merged => "both names lead to one and the same function".to_owned(),
            Likeness::Same => "the same code, instruction by instruction".to_owned(),
            Likeness::Different => difference(before, after),
        };
        let branches = match (before.counts().conditional_branches, after.counts().conditional_branches) {
            (0, 0) => "no conditional branch in either".to_owned(),
            (before, after) => format!("conditional branches: {before} before, {after} after"),
        };
        format!("{}: {code}; {branches}.\n", self.name)
    }

    /// Code that is the same is shown once.
    fn listing_text(&self, style: Style) -> String {
        let (before, after) = (&self.before, &self.after);
        if self.likeness == Likeness::Different {
            let heading = style.heading(self.name);
            return heading + &side_by_side(before, after, style);
        }
        let mut names = vec![before.function, after.function];
        names.dedup();
        let mut table = style.table(&[Column::Number("at"), Column::Text("bytes"), Column::Text("instruction")]);
        for line in &before.listing.lines {
            table.add_row(vec![
                style.cell(at(line), Tone::Faint),
                style.cell(&line.bytes, Tone::Faint),
                style.cell(&line.text, Tone::Plain),
            ]);
        }
        style.heading(&format!("{}: {}", self.name, names.join(" and "))) + &table_text(&table)
    }
}

fn side_by_side(before: &ShownFunction, after: &ShownFunction, style: Style) -> String {
    let mut table = style.table(&[
        Column::Number("at"),
        Column::Text(before.function),
        Column::Number("at"),
        Column::Text(after.function),
    ]);
    let (before, after) = (&before.listing.lines, &after.listing.lines);
    for row in 0..before.len().max(after.len()) {
        let cells = |line: Option<&Line>| match line {
            Some(line) => [style.cell(at(line), Tone::Faint), style.cell(&line.text, Tone::Plain)],
            None => [style.cell("", Tone::Plain), style.cell("", Tone::Plain)],
        };
        table.add_row([cells(before.get(row)), cells(after.get(row))].concat());
    }
    table_text(&table)
}

fn at(line: &Line) -> String {
    format!("+{:#x}", line.offset)
}

/// What sets two codes that are not the same apart.
fn difference(before: &ShownFunction, after: &ShownFunction) -> String {
    let (old, new) = (before.counts(), after.counts());
    if (old.instructions, old.bytes) == (new.instructions, new.bytes) {
        return "as many instructions and bytes, but in another order or on other registers".to_owned();
    }
    let instructions = more(old.instructions, new.instructions, "instruction");
    let bytes = more(old.bytes, new.bytes, "byte");
    format!("{} has {instructions} and {bytes} than {}", after.function, before.function)
}

/// How many more or fewer `after` has, with the noun.
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

    fn function(name: &'static str, address: u64, bytes: &[u8]) -> ShownFunction {
        let listing = Listing::of(Code { address, bytes }).expect("the bytes are instructions");
        ShownFunction { function: name, address, listing }
    }

    fn pair(before: ShownFunction, after: ShownFunction) -> ShownPair {
        let likeness = Likeness::of(&before, &after);
        ShownPair { name: "path", before, after, likeness }
    }

    const RETURN: [u8; 1] = [0xc3];
    /// test %edi, %edi; je over the next; nop; ret
    const BRANCH: [u8; 6] = [0x85, 0xff, 0x74, 0x01, 0x90, 0xc3];

    #[test]
    fn sentences_say_what_the_tables_show() {
        let same = pair(function("old", 0, &RETURN), function("new", 16, &RETURN));
        assert_eq!(
            same.meaning(),
            "path: the same code, instruction by instruction; no conditional branch in either.\n"
        );
        let merged = pair(function("old", 16, &RETURN), function("new", 16, &RETURN));
        assert!(merged.meaning().contains("one and the same function;"), "{}", merged.meaning());
        let longer = pair(function("old", 0, &RETURN), function("new", 16, &BRANCH));
        assert_eq!(
            longer.meaning(),
            "path: new has 3 instructions more and 5 bytes more than old; conditional branches: 0 before, 1 after.\n"
        );
        let shorter = pair(function("old", 0, &[0x90, 0xc3]), function("new", 16, &RETURN));
        assert!(shorter.meaning().contains("1 instruction fewer and 1 byte fewer"), "{}", shorter.meaning());
        // push %rbx against push %rax: as long, but not the same.
        let alike = pair(function("old", 0, &[0x53]), function("new", 16, &[0x50]));
        assert!(alike.meaning().contains("as many instructions and bytes, but"), "{}", alike.meaning());
    }

    #[test]
    fn different_code_stands_side_by_side_and_equal_code_once() {
        let different = pair(function("old", 0, &RETURN), function("new", 16, &BRANCH)).listing_text(Style::PLAIN);
        assert!(different.lines().any(|line| line.contains("ret") && line.contains("test %edi, %edi")), "{different}");
        assert!(different.lines().any(|line| line.trim() == "+0x2  je +0x5"), "{different}");
        let same = pair(function("old", 0, &BRANCH), function("new", 16, &BRANCH)).listing_text(Style::PLAIN);
        assert_eq!(same.matches("je +0x5").count(), 1, "{same}");
        assert!(same.starts_with("path: old and new\n"), "{same}");
    }
}
