//! Filling in a template: lines that are comments of the form `<!-- NAME: WORD ... -->` are replaced, all others stay
//! but for the ends of lines: paragraphs are wrapped when numbers are in them.

use freehold_report::markdown::wrapped;

/// A part that the template asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub name: String,
    /// What it is about.
    pub words: Vec<String>,
}

/// The template with each part replaced by what `make` makes of it.
///
/// # Panics
/// If the template asks for something that cannot be made: it is a constant, and tested.
pub fn fill(template: &str, mut make: impl FnMut(&Part) -> Option<String>) -> String {
    let mut line = |line: &str| match part(line) {
        None => line.to_owned(),
        Some(part) => make(&part).unwrap_or_else(|| panic!("the template asks for {part:?}, which nobody makes")),
    };
    wrapped(&template.lines().map(|text| line(text) + "\n").collect::<String>())
}

/// Every part that a template asks for.
#[cfg(test)]
pub fn parts(template: &str) -> Vec<Part> {
    template.lines().filter_map(part).collect()
}

fn part(line: &str) -> Option<Part> {
    let inner = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
    let (name, words) = inner.split_once(':').unwrap_or((inner, ""));
    Some(Part { name: name.to_owned(), words: words.split_whitespace().map(str::to_owned).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_are_replaced() {
        let filled =
            fill("# A\n<!-- table: purge 100 -->\n<!--not this-->\n", |part| Some(format!("{}", part.words.len())));
        assert_eq!(filled, "# A\n2\n<!--not this-->\n");
    }

    #[test]
    #[should_panic(expected = "nobody makes")]
    fn a_part_that_nobody_makes_is_a_mistake() {
        fill("<!-- tabel: purge -->\n", |_| None);
    }
}
