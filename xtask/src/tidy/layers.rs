//! Folders of the core are floors: each imports only the floors below it.
//!
//! An import is any path that names a module from the crate's root: `crate::page::...`, one name of
//! `crate::{base::..., page::...}`, or `super::super::...` where it climbs to the root. Files that lie
//! directly in `src` (the crate's front, its texts, its counters) stand above all floors. The machine in memory is the
//! highest floor; unit tests in a file of their own, `tests.rs`, may run on it.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tokens;
use super::tree::{Finding, Tree};

/// Folder whose subfolders are the layers.
const ROOT: &str = "crates/core/src/";

/// The layer that tests run on.
const MACHINE: &str = "machine";

/// Each floor and the floors it may import. Nothing else below the crate's root is open to it.
const FLOORS: [(&str, &[&str]); 6] = [
    ("base", &[]),
    ("platform", &["base"]),
    ("policy", &["base"]),
    ("page", &["base", "platform", "policy"]),
    ("slab", &["base", "platform", "policy", "page"]),
    (MACHINE, &["base", "platform", "policy", "page", "slab"]),
];

/// Finds imports that go up or sideways.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.ending(".rs") {
        let Some(below) = file.strip_prefix(ROOT) else { continue };
        let Some((floor, _)) = below.split_once('/') else { continue };
        let Some((_, open)) = FLOORS.iter().find(|(name, _)| *name == floor) else {
            let names: Vec<&str> = FLOORS.iter().map(|(name, _)| *name).collect();
            findings.push(Finding {
                file: file.to_owned(),
                line: 1,
                sentence: format!("the folder `{floor}` is no floor of the core; the floors are {}", names.join(", ")),
            });
            continue;
        };
        for (target, line) in imports(below, text) {
            let is_for_test = target == MACHINE && below.ends_with("/tests.rs");
            if target != floor && !open.contains(&target.as_str()) && !is_for_test {
                let sentence = format!("`{floor}` may not import `{target}`; it may import {}", listed(open));
                findings.push(Finding { file: file.to_owned(), line, sentence });
            }
        }
    }
    findings
}

fn listed(open: &[&str]) -> String {
    if open.is_empty() { "no other floor".to_owned() } else { open.join(", ") }
}

/// What a file imports from the crate's root, with the line.
fn imports(below: &str, text: &str) -> Vec<(String, usize)> {
    let path = below.trim_end_matches(".rs").trim_end_matches("/mod");
    let mut found = Vec::new();
    collect(tokens::of(text), path.split('/').count(), &mut found);
    found
}

/// Walks the tokens of a module that lies `depth` modules below the crate's root.
fn collect(stream: TokenStream, depth: usize, found: &mut Vec<(String, usize)>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    for at in 0..trees.len() {
        let rest = &trees[at..];
        if let TokenTree::Group(group) = &rest[0] {
            let is_module = at >= 2 && tokens::is_word(trees.get(at - 2), "mod");
            collect(group.stream(), depth + usize::from(is_module), found);
        } else if tokens::is_word(rest.first(), "crate") && tokens::is_path_separator(&rest[1..]) {
            names(&rest[3..], found);
        } else if starts_climb(&trees, at) {
            let climbed = climb(rest);
            if climbed == depth {
                names(&rest[3 * climbed..], found);
            }
        }
    }
}

/// Whether a chain of `super::` begins here.
fn starts_climb(trees: &[TokenTree], at: usize) -> bool {
    let inside = at >= 3 && tokens::is_word(trees.get(at - 3), "super");
    tokens::is_word(trees.get(at), "super") && !inside
}

/// Length of the chain of `super::` at the start of `trees`.
fn climb(trees: &[TokenTree]) -> usize {
    let is_step = |step: &[TokenTree]| tokens::is_word(step.first(), "super") && tokens::is_path_separator(&step[1..]);
    trees.chunks_exact(3).take_while(|step| is_step(step)).count()
}

/// The modules named at the start of `trees`: one, or each of a group in braces.
fn names(trees: &[TokenTree], found: &mut Vec<(String, usize)>) {
    match trees.first() {
        Some(TokenTree::Ident(name)) => found.push((name.to_string(), name.span().start().line)),
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_comma = |tree: &TokenTree| matches!(tree, TokenTree::Punct(p) if p.as_char() == ',');
            for item in inner.split(is_comma) {
                names(item, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(file: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(file, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn import_of_a_higher_floor_is_found() {
        assert_eq!(lines("crates/core/src/base/list.rs", "use crate::page::Zone;\n"), [1]);
        assert_eq!(lines("crates/core/src/policy/pcp.rs", "\nuse crate::{base::Pfn, platform::Cpu};\n"), [2]);
        assert_eq!(lines("crates/core/src/page/pcp/mod.rs", "fn f() { crate::slab::g() }\n"), [1]);
        assert_eq!(lines("crates/core/src/base/list.rs", "use super::super::page::Zone;\n"), [1]);
        assert_eq!(lines("crates/core/src/page/alloc.rs", "m!(crate::stats::Stats);\n"), [1]);
        assert_eq!(lines("crates/core/src/attic/list.rs", ""), [1]);
        assert_eq!(lines("crates/core/src/slab/cache.rs", "use crate::machine::with_memory;\n"), [1]);
    }

    #[test]
    fn import_of_a_lower_floor_is_fine() {
        assert!(lines("crates/core/src/page/alloc.rs", "use crate::{base::Pfn, policy::*};").is_empty());
        assert!(
            lines("crates/core/src/page/pcp/mod.rs", "use super::super::page::Zone; use super::zone::Z;").is_empty()
        );
        let test = "mod tests { use super::super::units::Pfn; }";
        assert!(lines("crates/core/src/base/list.rs", test).is_empty());
        assert!(lines("crates/core/src/procfs.rs", "use crate::page::Zone;").is_empty());
        assert!(lines("crates/core/src/slab/tests.rs", "use crate::machine::with_memory;").is_empty());
        assert!(lines("crates/lab/src/page/x.rs", "use crate::anything;").is_empty());
    }
}
