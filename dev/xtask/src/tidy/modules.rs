//! Modules of a package, the paths in them, and the module that each path leads to.
//!
//! A path is resolved as the compiler resolves it: through `crate`, `self` and `super`, through child modules, and
//! through `use` declarations that re-export names of other modules. So a path leads to the module that defines the
//! name, not to a module that re-exports it. Code for tests is ignored.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Meta, UseTree, Visibility};

use super::tree::{Tree, folder_of};

/// Path of a module from the crate's root, or a path in the code, as a list of names.
pub(crate) type Path = Vec<String>;

/// Modules of one package, by path.
pub(crate) struct Package<'t> {
    modules: BTreeMap<Path, Module<'t>>,
}

/// One module: a file, or a block in a file.
#[derive(Default)]
struct Module<'t> {
    file: &'t str,
    /// Names that `use` declarations import, and their paths.
    imports: BTreeMap<String, Path>,
    /// Paths from which `use` declarations import all names.
    globs: Vec<Path>,
    /// Names of the items that the module defines.
    items: BTreeSet<String>,
    /// All paths in the code of the module.
    paths: Vec<Path>,
}

/// Maximum number of `use` declarations between a path and the item that it leads to.
const HOPS_MAX: usize = 16;

impl<'t> Package<'t> {
    /// Reads the sources of the package with this manifest.
    pub(crate) fn read(tree: &'t Tree, manifest: &str) -> Package<'t> {
        let root = format!("{}/src/", folder_of(manifest));
        let mut package = Package { modules: BTreeMap::new() };
        let mut test_modules = BTreeSet::new();
        for (file, text) in tree.ending(".rs") {
            let Some(below) = file.strip_prefix(root.trim_start_matches('/')) else { continue };
            let Ok(syntax) = syn::parse_file(text) else { continue };
            package.add(module_path(below), file, &syntax.items, &mut test_modules);
        }
        package.modules.retain(|path, _| !(0..=path.len()).any(|length| test_modules.contains(&path[..length])));
        package
    }

    /// Adds the module with these items, and the modules that it contains as blocks.
    fn add(&mut self, path: Path, file: &'t str, items: &[Item], test_modules: &mut BTreeSet<Path>) {
        let mut module = Module { file, ..Module::default() };
        for item in items {
            module.visit_item(item);
            let Item::Mod(child) = item else { continue };
            let child_path = join(&path, &child.ident);
            if is_for_tests(&child.attrs) {
                test_modules.insert(child_path);
            } else if let Some((_, inner)) = &child.content {
                self.add(child_path, file, inner, test_modules);
            }
        }
        self.modules.insert(path, module);
    }

    /// Returns all pairs of different files of which the first uses an item of the second.
    pub(crate) fn file_uses(&self) -> BTreeSet<(&'t str, &'t str)> {
        let mut uses = BTreeSet::new();
        for (path, module) in &self.modules {
            let imported = module.imports.values().chain(&module.globs).chain(&module.paths);
            let targets = imported.filter_map(|used| self.resolve(path, used, HOPS_MAX));
            uses.extend(targets.map(|target| (module.file, self.modules[&target].file)));
        }
        uses.retain(|(from, to)| from != to);
        uses
    }

    /// Returns the module that defines the item at path `used` in the module `from`, or `None` if the item is in
    /// another crate.
    fn resolve(&self, from: &Path, used: &[String], hops: usize) -> Option<Path> {
        let climbed = used.iter().take_while(|name| *name == "super").count();
        let first = used.first()?;
        match first.as_str() {
            "crate" => self.descend(Vec::new(), &used[1..], hops),
            "self" => self.descend(from.clone(), &used[1..], hops),
            "super" => self.descend(from[..from.len().checked_sub(climbed)?].to_vec(), &used[climbed..], hops),
            _ if self.is_known(from, first) => self.descend(from.clone(), used, hops),
            _ => None,
        }
    }

    /// Returns whether the module `at` has a child module or an import of this name.
    fn is_known(&self, at: &Path, name: &str) -> bool {
        let child: Path = at.iter().cloned().chain([name.to_owned()]).collect();
        self.modules.contains_key(&child)
            || self.modules.get(at).is_some_and(|module| module.imports.contains_key(name))
    }

    /// Follows the names in `rest` from the module `at`.
    fn descend(&self, mut at: Path, rest: &[String], hops: usize) -> Option<Path> {
        for (position, name) in rest.iter().enumerate() {
            at.push(name.clone());
            if self.modules.contains_key(&at) {
                continue;
            }
            at.pop();
            let module = self.modules.get(&at)?;
            if module.items.contains(name) || hops == 0 {
                return Some(at);
            }
            if let Some(import) = module.imports.get(name) {
                let path: Path = import.iter().chain(&rest[position + 1..]).cloned().collect();
                return self.resolve(&at, &path, hops - 1);
            }
            let origins = module.globs.iter().filter_map(|glob| self.resolve(&at, glob, hops - 1));
            let mut defining = origins.filter(|origin| self.modules[origin].items.contains(name));
            return Some(defining.next().unwrap_or(at));
        }
        self.modules.contains_key(&at).then_some(at)
    }
}

impl<'ast> Visit<'ast> for Module<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) || matches!(item, Item::Mod(_)) {
            return;
        }
        self.items.extend(name(item));
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_imports(&mut Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

impl Module<'_> {
    /// Adds the names that a `use` declaration imports. `before` is the path up to `tree`.
    fn add_imports(&mut self, before: &mut Path, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_imports(before, &path.tree);
                before.pop();
            }
            UseTree::Group(group) => {
                for item in &group.items {
                    self.add_imports(before, item);
                }
            }
            UseTree::Name(item) if item.ident == "self" => self.add_import(before.last().cloned(), before.clone()),
            UseTree::Name(item) => self.add_import(Some(item.ident.to_string()), join(before, &item.ident)),
            UseTree::Rename(item) if item.ident == "self" => {
                self.add_import(Some(item.rename.to_string()), before.clone());
            }
            UseTree::Rename(item) => self.add_import(Some(item.rename.to_string()), join(before, &item.ident)),
            UseTree::Glob(_) => self.globs.push(before.clone()),
        }
    }

    fn add_import(&mut self, name: Option<String>, path: Path) {
        // An import of a path under the path's own first name would resolve to itself.
        if let Some(name) = name.filter(|name| path.len() > 1 || *name != path[0]) {
            self.imports.insert(name, path);
        }
    }
}

/// Returns the module path of a file, given the file's path below `src`.
fn module_path(below: &str) -> Path {
    let path = below.trim_end_matches(".rs");
    let names = path.split('/').filter(|name| !matches!(*name, "mod" | "lib" | "main"));
    names.map(str::to_owned).collect()
}

fn join(before: &Path, last: &syn::Ident) -> Path {
    before.iter().cloned().chain([last.to_string()]).collect()
}

/// Returns whether an item is compiled for tests only.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string().contains("test"),
        Meta::Path(path) => path.is_ident("test"),
        Meta::NameValue(_) => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns the name that an item defines in its module.
fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
