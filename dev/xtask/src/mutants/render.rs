//! Source text that contains the original and all mutants, selected at run time by number.
//!
//! An expression becomes `(if crate::mutant::is(17) { mutated } else { original })`. If one site is inside another, the
//! inner site is written only in the original branch of the outer one. So a site is executed exactly when its original
//! would be.

use std::ops::Range;

use super::site::{Edit, Kind};

/// Source file with the original and all mutants in it.
pub(crate) struct MutantText {
    /// New text of the file.
    pub(crate) text: String,
    /// Stretches of the sites in the new text. Outer sites follow the sites inside them.
    pub(crate) placed: Vec<Stretch>,
}

/// Stretch of the new text, and the sites that it belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Range of bytes in the new text.
    pub(crate) range: Range<usize>,
    /// Sites that must be removed if the stretch does not compile.
    pub(crate) ids: Vec<u32>,
}

/// Edits of one stretch of the source.
struct Group<'e> {
    range: Range<usize>,
    edits: Vec<(u32, &'e Kind)>,
}

/// Writes `text` with these edits.
pub(crate) fn render(text: &str, edits: &[(u32, &Edit)]) -> MutantText {
    let mut sorted: Vec<&(u32, &Edit)> = edits.iter().collect();
    sorted.sort_by_key(|(id, edit)| (edit.range.start, usize::MAX - edit.range.end, *id));
    let mut groups: Vec<Group> = Vec::new();
    for (id, edit) in sorted {
        match groups.last_mut() {
            Some(group) if group.range == edit.range => group.edits.push((*id, &edit.kind)),
            _ => groups.push(Group { range: edit.range.clone(), edits: vec![(*id, &edit.kind)] }),
        }
    }
    let mut writer = Writer { source: text, groups: &groups, next: 0, text: String::new(), placed: Vec::new() };
    writer.copy(0..text.len());
    MutantText { text: writer.text, placed: writer.placed }
}

struct Writer<'a> {
    source: &'a str,
    groups: &'a [Group<'a>],
    /// Index of the next group to write.
    next: usize,
    text: String,
    placed: Vec<Stretch>,
}

impl Writer<'_> {
    /// Copies a stretch, and writes all groups inside it.
    fn copy(&mut self, range: Range<usize>) {
        let (mut at, groups) = (range.start, self.groups);
        while let Some(group) = groups.get(self.next).filter(|group| group.range.end <= range.end) {
            self.next += 1;
            self.text.push_str(&self.source[at..group.range.start]);
            self.write(group);
            at = group.range.end;
        }
        self.text.push_str(&self.source[at..range.end]);
    }

    fn write(&mut self, group: &Group) {
        let start = self.text.len();
        let is_statement = group.edits.iter().any(|(_, kind)| **kind == Kind::LeftOut);
        let is_branch = group.edits.iter().any(|(_, kind)| matches!(kind, Kind::Instead(_) | Kind::LeftOut));
        let end = if is_statement { ";" } else { "" };
        self.text.push_str(if is_branch { "(" } else { "" });
        for (id, kind) in &group.edits {
            let before = self.text.len();
            let written = match kind {
                Kind::Instead(other) => format!("if {} {{ {other}{end} }} else ", condition(*id)),
                Kind::LeftOut => format!("if {} {{}} else ", condition(*id)),
                Kind::NotTaken => format!("!{} && ", condition(*id)),
                Kind::First(statement) => format!(" if {} {{ {statement}; }}", condition(*id)),
            };
            self.text.push_str(&written);
            self.placed.push(Stretch { range: before..self.text.len(), ids: vec![*id] });
        }
        self.text.push_str(if is_branch { "{ " } else { "" });
        self.copy(group.range.clone());
        if is_branch {
            self.text.push_str(&format!("{end} }})"));
        }
        let ids = group.edits.iter().map(|(id, _)| *id).collect();
        self.placed.push(Stretch { range: start..self.text.len(), ids });
    }
}

fn condition(id: u32) -> String {
    format!("crate::mutant::is({id})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: &str, part: &str, kind: Kind) -> Edit {
        let start = text.find(part).unwrap();
        Edit { file: String::new(), range: start..start + part.len(), kind }
    }

    #[test]
    fn inner_mutants_are_nested_in_the_original_branch() {
        let text = "x = a < b + 1;";
        let outer = edit(text, "a < b + 1", Kind::Instead("a <= b + 1".to_owned()));
        let inner = edit(text, "b + 1", Kind::Instead("b - 1".to_owned()));
        let rendered = render(text, &[(2, &inner), (1, &outer)]);
        assert_eq!(
            rendered.text,
            "x = (if crate::mutant::is(1) { a <= b + 1 } else { \
             a < (if crate::mutant::is(2) { b - 1 } else { b + 1 }) });"
        );
        let ids: Vec<&[u32]> = rendered.placed.iter().map(|placed| &placed.ids[..]).collect();
        assert_eq!(ids, [&[1][..], &[2], &[2], &[1]]);
    }

    fn render_one(text: &str, part: &str, kind: Kind) -> String {
        render(text, &[(7, &edit(text, part, kind))]).text
    }

    #[test]
    fn statements_conditions_and_bodies_are_rendered_separately() {
        assert_eq!(render_one("f(x);", "f(x)", Kind::LeftOut), "(if crate::mutant::is(7) {} else { f(x); });");
        assert_eq!(
            render_one("if let A = b {}", "let A = b", Kind::NotTaken),
            "if !crate::mutant::is(7) && let A = b {}"
        );
        assert_eq!(
            render_one("{ 1 }", "", Kind::First("return 2".to_owned())),
            " if crate::mutant::is(7) { return 2; }{ 1 }"
        );
    }

    #[test]
    fn edits_of_one_place_form_an_else_if_chain() {
        let text = "a += 1;";
        let edits = [edit(text, "a += 1", Kind::Instead("a -= 1".to_owned())), edit(text, "a += 1", Kind::LeftOut)];
        let rendered = render(text, &[(1, &edits[0]), (2, &edits[1])]);
        assert_eq!(
            rendered.text,
            "(if crate::mutant::is(1) { a -= 1; } else if crate::mutant::is(2) {} else { a += 1; });"
        );
    }
}
