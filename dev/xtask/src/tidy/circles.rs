//! Circles of imports: no file of a package may use itself through other files, and no folder through other folders.
//!
//! A file uses another file if one of its paths leads to an item that the other file defines. The module files of the
//! folders around a file do not count, because all files below them share them. A folder uses a neighbouring folder if
//! one of its files uses a file in the neighbour. Without circles, the order of imports gives an order of the folders,
//! and needs no table. In `engine/core/src`, `policy` uses `base`, `platform` uses `policy`, `page` uses `platform`,
//! `slab` uses `page`, and `kernel` uses `slab`. Every import in the other direction closes a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::Package;
use super::tree::{Finding, Tree, folder_of};

/// Edges of a graph of files or folders, which are identified by their paths from the workspace's root.
type Arrows<'t> = BTreeMap<&'t str, BTreeSet<&'t str>>;

/// Finds circles of files, and circles of folders that have the same parent.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut circles = Vec::new();
    for (manifest, _) in tree.ending("Cargo.toml") {
        let uses = Package::read(tree, manifest).file_uses();
        circles.extend(find_circles(&files(&uses)));
        circles.extend(folders(&uses).values().flat_map(find_circles));
    }
    circles.iter().map(complaint).collect()
}

fn files<'t>(uses: &BTreeSet<(&'t str, &'t str)>) -> Arrows<'t> {
    let mut arrows = Arrows::new();
    for (from, to) in uses {
        if !is_above(from, to) && !is_above(to, from) {
            arrows.entry(from).or_default().insert(to);
        }
    }
    arrows
}

/// Returns whether the module in `file` contains the module in `other`.
fn is_above(file: &str, other: &str) -> bool {
    let is_front = ["/mod.rs", "/lib.rs", "/main.rs"].iter().any(|front| file.ends_with(front));
    let folder = if is_front { folder_of(file) } else { file.trim_end_matches(".rs") };
    other.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns, for every folder, the edges between the folders in it.
fn folders<'t>(uses: &BTreeSet<(&'t str, &'t str)>) -> BTreeMap<&'t str, Arrows<'t>> {
    let mut parents: BTreeMap<&str, Arrows> = BTreeMap::new();
    for (from, to) in uses {
        let parent = common_folder(from, to);
        if let (Some(from), Some(to)) = (folder_below(parent, from), folder_below(parent, to)) {
            parents.entry(parent).or_default().entry(from).or_default().insert(to);
        }
    }
    parents
}

/// Returns the deepest folder that contains both files.
fn common_folder<'t>(one: &'t str, other: &str) -> &'t str {
    let mut folder = folder_of(one);
    while other.strip_prefix(folder).is_none_or(|rest| !rest.starts_with('/')) {
        folder = folder_of(folder);
    }
    folder
}

/// Returns the folder directly in `parent` that contains `file`, or `None` if `file` is in `parent` itself.
fn folder_below<'t>(parent: &str, file: &'t str) -> Option<&'t str> {
    let start = parent.len() + 1;
    let length = file[start..].find('/')?;
    Some(&file[..start + length])
}

/// Returns the strongly connected components with a circle: sets of members that all lead to each other.
fn find_circles<'t>(arrows: &Arrows<'t>) -> Vec<BTreeSet<&'t str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = arrows.keys().map(|from| (*from, reachable(arrows, from))).collect();
    let mut circles = Vec::new();
    let mut placed = BTreeSet::new();
    for (from, targets) in &reached {
        if placed.contains(from) || !targets.contains(from) {
            continue;
        }
        let circle: BTreeSet<&str> =
            targets.iter().copied().filter(|to| reached.get(to).is_some_and(|back| back.contains(from))).collect();
        placed.extend(circle.iter().copied());
        circles.push(circle);
    }
    circles
}

/// Returns the members that are reachable from `from` in one or more steps.
fn reachable<'t>(arrows: &Arrows<'t>, from: &str) -> BTreeSet<&'t str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(member) = open.pop() {
        for next in arrows.get(member).into_iter().flatten() {
            if seen.insert(*next) {
                open.push(next);
            }
        }
    }
    seen
}

fn complaint(circle: &BTreeSet<&str>) -> Finding {
    let members: Vec<&str> = circle.iter().copied().collect();
    let sentence = format!("circle of imports: {}; move the shared items below both", members.join(", "));
    Finding { file: members[0].to_owned(), line: 1, sentence }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Package that contains the files of a test.
    const PACKAGE: [(&str, &str); 5] = [
        ("lab/x/Cargo.toml", ""),
        ("lab/x/src/lib.rs", ""),
        ("lab/x/src/page/mod.rs", ""),
        ("lab/x/src/low/mod.rs", ""),
        ("lab/x/src/high/mod.rs", ""),
    ];
    const A: &str = "lab/x/src/page/a.rs";
    const B: &str = "lab/x/src/page/b.rs";
    const C: &str = "lab/x/src/page/c/mod.rs";
    const D: &str = "lab/x/src/page/c/d.rs";

    /// Returns a finding for each circle in these files.
    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(&str, &str)> = PACKAGE.iter().chain(files).copied().collect();
        check(&Tree::from_texts(&files)).into_iter().map(|finding| finding.sentence).collect()
    }

    #[track_caller]
    fn assert_circle(files: &[(&str, &str)], members: &[&str]) {
        let expected = format!("circle of imports: {}; move the shared items below both", members.join(", "));
        assert_eq!(circles(files), [expected]);
    }

    #[test]
    fn cycle_of_files_is_found() {
        assert_circle(&[(A, "use super::b::X;"), (B, "use crate::page::a::{Y, Z as W};")], &[A, B]);
        assert_circle(&[(A, "use super::b::X;"), (B, "use super::c::Y;"), (C, "use super::{a::Z};")], &[A, B, C]);
        assert_circle(&[(A, "fn f() { super::b::g() }"), (B, "fn g() -> crate::page::a::T { T }")], &[A, B]);
    }

    #[test]
    fn cycle_through_reexported_names_is_found() {
        let front = ("lab/x/src/page/mod.rs", "mod a; mod b; pub use a::X; pub use b::*;");
        let files = [front, (A, "use super::Y; pub struct X;"), (B, "use super::X; pub struct Y;")];
        assert_circle(&files, &[A, B]);
    }

    #[test]
    fn cycle_of_folders_is_found() {
        let files = [
            ("lab/x/src/low/a.rs", "use crate::high::b::B;"),
            ("lab/x/src/high/b.rs", ""),
            ("lab/x/src/high/c.rs", "use crate::low::d::D;"),
            ("lab/x/src/low/d.rs", ""),
        ];
        assert_circle(&files, &["lab/x/src/high", "lab/x/src/low"]);
        assert!(circles(&files[..2]).is_empty());
    }

    #[test]
    fn acyclic_imports_are_accepted() {
        assert!(circles(&[(A, "use super::b::X;"), (B, "use super::c::Y;"), (C, "use super::Front;")]).is_empty());
    }

    #[test]
    fn parent_modules_and_tests_are_exempt_from_cycles() {
        assert!(circles(&[(C, "mod d; use d::X;"), (D, "use super::Y;")]).is_empty());
        let test = "#[cfg(test)] use super::a::X; #[cfg(test)] mod tests { use crate::page::a::Y; }";
        assert!(circles(&[(A, "use super::b::X;"), (B, test)]).is_empty());
        let front = ("lab/x/src/page/mod.rs", "mod a; #[cfg(test)] mod b;");
        assert!(circles(&[front, (A, "use super::b::X;"), (B, "use super::a::X;")]).is_empty());
    }
}
