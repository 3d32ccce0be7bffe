//! No circles: of two files of a room, at most one imports from the other, be it by way of others.
//!
//! Counted are `use` declarations outside of tests. What a file takes from the folders that it lies in does not count:
//! these are the common ground that all their files stand on. A path is followed to the last part of it that is a file.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, ItemUse, UseTree};

use super::tree::{Finding, Tree};

/// The rooms in which no circle may be.
const ROOMS: [&str; 2] = ["engine/core/src/page/", "engine/core/src/slab/"];

/// A module's place below the crate's root, name by name.
type Module = Vec<String>;

/// Finds files that lead back to themselves.
pub fn check(tree: &Tree) -> Vec<Finding> {
    ROOMS.iter().flat_map(|room| circles(tree, room)).collect()
}

fn circles(tree: &Tree, room: &str) -> Vec<Finding> {
    let sources = tree.ending(".rs").filter(|(file, _)| file.starts_with(room) && !is_for_tests(file));
    let texts: BTreeMap<Module, (&str, &str)> = sources.map(|(file, text)| (module_of(file), (file, text))).collect();
    let arrows: BTreeMap<&Module, BTreeSet<Module>> =
        texts.iter().map(|(module, (_, text))| (module, imports(module, text, &texts))).collect();
    let is_in_circle = |module: &&Module| reaches(&arrows, module, module);
    texts.keys().filter(is_in_circle).map(|module| complaint(texts[module].0, module, &arrows)).collect()
}

fn is_for_tests(file: &str) -> bool {
    file.contains("/tests/") || file.ends_with("/tests.rs") || file.ends_with("_tests.rs")
}

/// The module that a file is, below its crate's `src`.
fn module_of(file: &str) -> Module {
    let below = file.split_once("/src/").map_or(file, |(_, below)| below);
    let path = below.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_owned).collect()
}

/// The files, other than those of the folders around it, that a file imports from.
fn imports(module: &Module, text: &str, texts: &BTreeMap<Module, (&str, &str)>) -> BTreeSet<Module> {
    let Ok(file) = syn::parse_file(text) else { return BTreeSet::new() };
    let uses = file.items.into_iter().filter_map(|item| match item {
        Item::Use(item) => Some(item),
        _ => None,
    });
    let mut paths = Vec::new();
    uses.filter(|item| !is_test_only(item)).for_each(|item| flatten(&mut Vec::new(), &item.tree, &mut paths));
    let found = paths.into_iter().filter_map(|path| target(module, &path, texts));
    found.filter(|target| !module.starts_with(target)).collect()
}

fn is_test_only(item: &ItemUse) -> bool {
    let is_test = |list: &syn::MetaList| list.path.is_ident("cfg") && list.tokens.to_string().contains("test");
    item.attrs.iter().any(|attribute| attribute.meta.require_list().is_ok_and(is_test))
}

/// All paths of a declaration, name by name.
fn flatten(before: &mut Module, tree: &UseTree, paths: &mut Vec<Module>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(before, &path.tree, paths);
            before.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|item| flatten(before, item, paths)),
        UseTree::Name(name) => paths.push(joined(before, &name.ident)),
        UseTree::Rename(rename) => paths.push(joined(before, &rename.ident)),
        UseTree::Glob(_) => paths.push(before.clone()),
    }
}

fn joined(before: &Module, last: &syn::Ident) -> Module {
    before.iter().cloned().chain([last.to_string()]).collect()
}

/// The file that a path from a module leads to, if it is in the room.
fn target(module: &Module, path: &Module, texts: &BTreeMap<Module, (&str, &str)>) -> Option<Module> {
    let climbed = path.iter().take_while(|name| *name == "super").count();
    let (mut at, rest) = match path.first()?.as_str() {
        "crate" => (Vec::new(), &path[1..]),
        "self" => (module.clone(), &path[1..]),
        "super" => (module[..module.len().saturating_sub(climbed)].to_vec(), &path[climbed..]),
        // A child's name, as its parent says it.
        _ => (module.clone(), &path[..]),
    };
    let is_module = |at: &Module| texts.contains_key(at) || texts.keys().any(|known| known.starts_with(at));
    for name in rest {
        at.push(name.clone());
        if !is_module(&at) {
            at.pop();
            break;
        }
    }
    (at != *module && texts.contains_key(&at)).then_some(at)
}

/// Whether arrows lead from one module to another.
fn reaches(arrows: &BTreeMap<&Module, BTreeSet<Module>>, from: &Module, to: &Module) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in arrows.get(module).into_iter().flatten() {
            if next == to {
                return true;
            }
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}

fn complaint(file: &str, module: &Module, arrows: &BTreeMap<&Module, BTreeSet<Module>>) -> Finding {
    let back = arrows[module].iter().filter(|next| reaches(arrows, next, module));
    let names: Vec<String> = back.map(|next| format!("`{}`", next.join("::"))).collect();
    let sentence = format!("it imports from {}, and they from it: move what both need below both", names.join(", "));
    Finding { file: file.to_owned(), line: 1, sentence }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|finding| finding.file).collect()
    }

    const A: &str = "engine/core/src/page/a.rs";
    const B: &str = "engine/core/src/page/b.rs";
    const C: &str = "engine/core/src/page/c/mod.rs";

    #[test]
    fn a_circle_is_found_however_long() {
        assert_eq!(found(&[(A, "use super::b::X;"), (B, "use crate::page::a::{Y, Z as W};")]), [A, B]);
        assert_eq!(found(&[(A, "use super::b::X;"), (B, "use super::c::Y;"), (C, "use super::{a::Z};")]), [A, B, C]);
    }

    #[test]
    fn arrows_in_one_direction_are_none() {
        assert!(found(&[(A, "use super::b::X;"), (B, "use super::c::Y;"), (C, "use super::Front;")]).is_empty());
    }

    #[test]
    fn a_folder_and_its_files_are_none_and_tests_do_not_count() {
        let inner = "engine/core/src/page/c/d.rs";
        assert!(found(&[(C, "mod d; use d::X;"), (inner, "use super::Y;")]).is_empty());
        let test = "#[cfg(test)] use super::a::X; #[cfg(test)] mod tests { use crate::page::a::Y; }";
        assert!(found(&[(A, "use super::b::X;"), (B, test)]).is_empty());
    }
}
