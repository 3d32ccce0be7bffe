//! Mutants of constants, whose values the compiler reads before a mutant can be chosen.
//!
//! A mutant of a constant is therefore written at every place where executed code uses the constant, under one number.
//! Uses in types, patterns and other constants keep the original value. Within its own file, a constant is identified
//! by its name. In other files it is identified by its name only if no other constant has that name, and if its value
//! contains no names. The key of an associated constant includes the name of its type.

use syn::visit::{self, Visit};
use syn::{Expr, ExprLit, ExprPath, Ident, Lit};

use super::operators::{branch_without_loom, line_of, of_number};
use super::site::{Edit, Kind, Site, one_line};
use super::source::{Source, range_of};

/// Name of the type that a constant belongs to, if any, and the constant's own name.
type Key = (Option<String>, String);

/// Constant whose numbers can be changed.
#[derive(Debug)]
pub(crate) struct Constant {
    key: Key,
    file: String,
    line: usize,
    original: String,
    /// Values of the constant with one number changed.
    others: Vec<String>,
    /// Whether the value contains no names, so that it means the same in every file.
    is_plain: bool,
}

/// Place that uses a constant.
#[derive(Debug)]
pub(crate) struct Use {
    key: Key,
    file: String,
    range: std::ops::Range<usize>,
}

impl Constant {
    /// Reads a constant from its declaration.
    pub(crate) fn new(source: &Source, owner: Option<String>, name: &Ident, value: &Expr) -> Constant {
        let mut numbers = Numbers::default();
        numbers.visit_expr(value);
        let (whole, text) = (range_of(value), source.text_of(value));
        let mut others = Vec::new();
        for number in &numbers.found {
            let part = number.span().byte_range();
            let (before, after) = (&text[..part.start - whole.start], &text[part.end - whole.start..]);
            others.extend(of_number(number).into_iter().map(|other| format!("{before}{other}{after}")));
        }
        Constant {
            key: (owner, name.to_string()),
            file: source.file.clone(),
            line: line_of(name),
            original: one_line(text),
            others,
            is_plain: !numbers.has_names,
        }
    }
}

impl Use {
    /// Returns a use of a constant if `path` looks like a constant's path.
    pub(crate) fn new(source: &Source, owner: Option<&String>, path: &ExprPath) -> Option<Use> {
        let mut names = path.path.segments.iter().rev().map(|segment| segment.ident.to_string());
        let name = names.next()?;
        let is_constant = path.qself.is_none() && name.len() > 1 && !name.contains(|c: char| c.is_ascii_lowercase());
        let of = names.next().filter(|of| of.starts_with(|c: char| c.is_ascii_uppercase()));
        let of = if of.as_deref() == Some("Self") { owner.cloned() } else { of };
        is_constant.then(|| Use { key: (of, name), file: source.file.clone(), range: range_of(path) })
    }
}

/// Returns a site for each mutant of each constant that is used.
pub(crate) fn sites(constants: &[Constant], uses: &[Use]) -> Vec<Site> {
    constants.iter().flat_map(|constant| of_constant(constant, constants, uses)).collect()
}

fn of_constant(constant: &Constant, all: &[Constant], uses: &[Use]) -> Vec<Site> {
    let is_alone = all.iter().filter(|other| other.key == constant.key).count() == 1;
    let is_seen_everywhere = is_alone && constant.is_plain;
    let of_key = uses.iter().filter(|used| used.key == constant.key);
    let uses: Vec<&Use> = of_key.filter(|used| used.file == constant.file || is_seen_everywhere).collect();
    if uses.is_empty() {
        return Vec::new();
    }
    constant
        .others
        .iter()
        .map(|other| {
            let edits = uses.iter().map(|used| Edit {
                file: used.file.clone(),
                range: used.range.clone(),
                kind: Kind::Instead(other.clone()),
            });
            let (owner, name) = &constant.key;
            Site {
                file: constant.file.clone(),
                line: constant.line,
                function: owner.as_ref().map_or(name.clone(), |owner| format!("{owner}::{name}")),
                original: constant.original.clone(),
                mutated: one_line(other),
                edits: edits.collect(),
            }
        })
        .collect()
}

/// Visitor that finds the numbers in a constant's value.
#[derive(Default)]
struct Numbers<'a> {
    found: Vec<&'a syn::LitInt>,
    has_names: bool,
}

impl<'ast> Visit<'ast> for Numbers<'ast> {
    fn visit_expr_lit(&mut self, literal: &'ast ExprLit) {
        if let Lit::Int(number) = &literal.lit {
            self.found.push(number);
        }
    }

    fn visit_expr_if(&mut self, choice: &'ast syn::ExprIf) {
        match branch_without_loom(choice) {
            Some(branch) => self.visit_expr(branch),
            None => visit::visit_expr_if(self, choice),
        }
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.has_names = true;
        visit::visit_path(self, path);
    }

    fn visit_type(&mut self, _: &'ast syn::Type) {}
}

#[cfg(test)]
mod tests {
    use super::super::scan::{Scan, scan};
    use super::*;

    fn find_sites(texts: &[(&str, &str)]) -> Vec<Site> {
        let mut all = Scan::default();
        for (file, text) in texts {
            let found = scan(&Source::new(file, (*text).to_owned()).unwrap());
            all.constants.extend(found.constants);
            all.uses.extend(found.uses);
        }
        sites(&all.constants, &all.uses)
    }

    #[test]
    fn constant_is_mutated_at_all_its_uses() {
        let sites = find_sites(&[
            ("a.rs", "pub const MASK: u16 = 0x7fff;\nfn f(a: u16) -> u16 { a & MASK }"),
            ("b.rs", "use super::a::MASK;\nfn g(a: u16) -> [u16; MASK as usize] { a & a::MASK }"),
        ]);
        assert_eq!(sites.len(), 1);
        assert_eq!((sites[0].function.as_str(), sites[0].mutated.as_str()), ("MASK", "0x3fff"));
        let files: Vec<&str> = sites[0].edits.iter().map(|edit| edit.file.as_str()).collect();
        assert_eq!(files, ["a.rs", "b.rs"]);
    }

    #[test]
    fn loom_constants_are_not_mutated() {
        let sites = find_sites(&[("a.rs", "const MOST: u8 = if cfg!(loom) { 4 } else { 10 }; fn f() -> u8 { MOST }")]);
        let mutated: Vec<&str> = sites.iter().map(|site| site.mutated.as_str()).collect();
        assert_eq!(mutated, ["if cfg!(loom) { 4 } else { 11 }", "if cfg!(loom) { 4 } else { 9 }"]);
    }

    #[test]
    fn equal_names_are_resolved_per_file() {
        let sites = find_sites(&[
            ("a.rs", "const NIL: u8 = 9; fn f() -> u8 { NIL }"),
            ("b.rs", "const NIL: u8 = 0; fn f() -> u8 { NIL }"),
            ("c.rs", "impl Order { const MAX: u8 = 10; fn f() -> u8 { Self::MAX } }\nfn g() -> u8 { u8::MAX }"),
        ]);
        let edits: Vec<(&str, usize)> = sites.iter().map(|site| (site.file.as_str(), site.edits.len())).collect();
        assert_eq!(edits, [("a.rs", 1), ("a.rs", 1), ("b.rs", 1), ("c.rs", 1), ("c.rs", 1)]);
    }
}
