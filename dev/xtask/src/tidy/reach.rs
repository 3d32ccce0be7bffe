//! Reachability: every source file must be part of some program, so a chain of `mod` declarations must lead to it from
//! a crate's root.
//!
//! A file without a declaration is not compiled and not tested, and only misleads readers. Roots are the files that
//! cargo finds automatically (`src/lib.rs`, `src/main.rs`, `src/bin`, `tests`, `benches`, `examples`, `build.rs`), fuzz
//! targets, and files that a manifest names with `path = "..."`.

use std::collections::BTreeSet;

use syn::{Expr, ExprLit, Item, Lit, Meta};

use super::tree::{Finding, Tree, folder_of, join};

/// Folders of a package in which each file is a root.
const ROOT_FOLDERS: [&str; 5] = ["src/bin", "tests", "benches", "examples", "fuzz_targets"];
/// Files of a package that are roots.
const ROOT_FILES: [&str; 3] = ["src/lib.rs", "src/main.rs", "build.rs"];

/// Finds files that no program contains.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    for root in roots(tree) {
        let folder = folder_of(&root).to_owned();
        follow(tree, root, &folder, &mut reached);
    }
    let dead = tree.ending(".rs").filter(|(file, _)| !reached.contains(*file));
    dead.map(|(file, _)| Finding {
        file: file.to_owned(),
        line: 1,
        sentence: "the file is not part of any crate; declare it with `mod`, or delete it".to_owned(),
    })
    .collect()
}

/// Returns the roots of all programs, libraries, tests and benchmarks.
fn roots(tree: &Tree) -> Vec<String> {
    // A file that must not compile has a neighbour with the compiler's expected messages.
    let refused = tree.ending(".stderr").filter_map(|(file, _)| file.strip_suffix(".stderr"));
    let mut roots: Vec<_> = refused.map(|file| format!("{file}.rs")).collect();
    for (manifest, text) in tree.ending("Cargo.toml") {
        let package = folder_of(manifest);
        let named = text.lines().filter_map(|line| line.trim().strip_prefix("path = \"")?.strip_suffix('"'));
        let files = ROOT_FILES.into_iter().chain(named).filter_map(|file| join(package, file));
        roots.extend(files.filter(|file| file.ends_with(".rs")));
        for folder in ROOT_FOLDERS.into_iter().filter_map(|folder| join(package, folder)) {
            let files = tree.ending(".rs").map(|(file, _)| file);
            let inside = files.filter(|file| folder_of(file) == folder || is_main_below(file, &folder));
            roots.extend(inside.map(str::to_owned));
        }
    }
    roots
}

/// Returns whether `file` is `FOLDER/NAME/main.rs`, which is a root as well.
fn is_main_below(file: &str, folder: &str) -> bool {
    file.ends_with("/main.rs") && folder_of(folder_of(file)) == folder
}

/// Marks `file`, and all files that it and its modules declare. `folder` contains the modules of `file`. Does nothing
/// if `file` does not exist or is marked already.
fn follow(tree: &Tree, file: String, folder: &str, reached: &mut BTreeSet<String>) {
    let Some(text) = tree.text(&file) else { return };
    if reached.contains(&file) {
        return;
    }
    let items = syn::parse_file(text).map(|syntax| syntax.items).unwrap_or_default();
    let own = folder_of(&file).to_owned();
    reached.insert(file);
    follow_items(tree, &items, &own, folder, reached);
}

/// Follows the module declarations among `items`. Paths in attributes start at `own`, other modules are in `folder`.
fn follow_items(tree: &Tree, items: &[Item], own: &str, folder: &str, reached: &mut BTreeSet<String>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        let below = join(folder, &name).unwrap_or_default();
        if let Some((_, inner)) = &module.content {
            follow_items(tree, inner, &below, &below, reached);
        } else if let Some(path) = path_attribute(&module.attrs) {
            let file = join(own, &path).unwrap_or_default();
            let folder = folder_of(&file).to_owned();
            follow(tree, file, &folder, reached);
        } else {
            follow(tree, format!("{below}.rs"), &below, reached);
            follow(tree, format!("{below}/mod.rs"), &below, reached);
        }
    }
}

/// Returns the file that `#[path = "..."]` names.
fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::from_texts(files)).into_iter().map(|finding| finding.file).collect()
    }

    #[test]
    fn undeclared_file_is_found() {
        let tree = [("a/Cargo.toml", ""), ("a/src/lib.rs", "mod b;"), ("a/src/b.rs", ""), ("a/src/old.rs", "")];
        assert_eq!(dead(&tree), ["a/src/old.rs"]);
        let in_wrong_folder = [("a/Cargo.toml", ""), ("a/src/lib.rs", "mod b;"), ("a/src/b/c.rs", "")];
        assert_eq!(dead(&in_wrong_folder), ["a/src/b/c.rs"]);
    }

    #[test]
    fn every_form_of_declaration_is_followed() {
        let tree = [
            ("a/Cargo.toml", "[[bin]]\nname = \"x\"\npath = \"src/x.rs\"\n"),
            ("a/src/x.rs", "mod b; #[cfg(test)] #[path = \"odd.rs\"] mod c; mod d { mod e; }"),
            ("a/src/b/mod.rs", "mod f;"),
            ("a/src/b/f.rs", ""),
            ("a/src/odd.rs", ""),
            ("a/src/d/e.rs", "mod g;"),
            ("a/src/d/e/g.rs", ""),
            ("a/tests/t.rs", "mod common;"),
            ("a/tests/common/mod.rs", ""),
            ("a/src/bin/y/main.rs", ""),
        ];
        assert!(dead(&tree).is_empty(), "{:?}", dead(&tree));
    }
}
