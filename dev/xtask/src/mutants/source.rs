//! Sources that are mutated: the shipped code of a library, found by following its modules.
//!
//! A module under a condition (`#[cfg(test)]`, a feature for tests, another memory model) is support code and is not
//! followed. The file of planted faults is left out as well, because planted faults are mutants already.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::{Attribute, Item};

use crate::error::{Error, on_file};

/// Endings of the paths of files that are not mutated.
const LEFT_OUT: [&str; 1] = ["/base/fault.rs"];

/// Source file of the library.
pub(crate) struct Source {
    /// Path from the workspace's root, with `/` between folders.
    pub(crate) file: String,
    /// Text of the file.
    pub(crate) text: String,
    /// Syntax tree of the text.
    pub(crate) syntax: syn::File,
}

impl Source {
    /// Parses a text.
    ///
    /// # Errors
    /// Returns [`Error::Failed`] if the text is not Rust.
    pub(crate) fn new(file: &str, text: String) -> Result<Source, Error> {
        let syntax =
            syn::parse_file(&text).map_err(|error| Error::Failed(format!("cannot parse {file} as Rust: {error}")))?;
        Ok(Source { file: file.to_owned(), text, syntax })
    }

    /// Returns the text of a syntax node.
    pub(crate) fn text_of(&self, node: &impl Spanned) -> &str {
        &self.text[range_of(node)]
    }
}

/// Returns the range of bytes of a syntax node.
pub(crate) fn range_of(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

/// Returns whether an item exists only under a condition.
pub(crate) fn is_conditional(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("cfg") || attribute.path().is_ident("test"))
}

/// Reads the library whose root file is `library`, a path from `root`, and all modules that it declares.
///
/// # Errors
/// Returns an error if a file cannot be read, or is not Rust.
pub(crate) fn read(root: &Path, library: &str) -> Result<Vec<Source>, Error> {
    let mut sources = Vec::new();
    let folder = Path::new(library).parent().unwrap_or(Path::new("")).to_owned();
    follow(root, Path::new(library), &folder, &mut sources)?;
    sources.retain(|source| !LEFT_OUT.iter().any(|end| source.file.ends_with(end)));
    Ok(sources)
}

/// Reads `file` and the modules that it declares, which are in `folder`.
fn follow(root: &Path, file: &Path, folder: &Path, sources: &mut Vec<Source>) -> Result<(), Error> {
    let path = root.join(file);
    let text = fs::read_to_string(&path).map_err(on_file("read", &path))?;
    let source = Source::new(&file.to_string_lossy(), text)?;
    let modules: Vec<PathBuf> = declared(&source.syntax.items).map(|name| folder.join(name)).collect();
    sources.push(source);
    for module in modules {
        let flat = module.with_extension("rs");
        let file = if root.join(&flat).is_file() { flat } else { module.join("mod.rs") };
        follow(root, &file, &module, sources)?;
    }
    Ok(())
}

/// Returns the names of the unconditional modules that have files of their own.
fn declared(items: &[Item]) -> impl Iterator<Item = String> {
    items.iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() && !is_conditional(&module.attrs) => {
            Some(module.ident.to_string())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditional_modules_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("src/lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod tests;\nmod base;\n"),
            ("src/a.rs", "mod c;\n"),
            ("src/a/c.rs", ""),
            ("src/b/mod.rs", "mod d;\n"),
            ("src/b/d.rs", ""),
            ("src/base/mod.rs", "mod fault;\n"),
            ("src/base/fault.rs", ""),
        ];
        for (file, text) in files {
            fs::create_dir_all(folder.path().join(file).parent().unwrap()).unwrap();
            fs::write(folder.path().join(file), text).unwrap();
        }
        let sources = read(folder.path(), "src/lib.rs").unwrap();
        let files: Vec<&str> = sources.iter().map(|source| source.file.as_str()).collect();
        assert_eq!(files, ["src/lib.rs", "src/a.rs", "src/a/c.rs", "src/b/mod.rs", "src/b/d.rs", "src/base/mod.rs"]);
    }
}
