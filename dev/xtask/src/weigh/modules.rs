//! Division of a kernel's bytes among the modules of the engine.
//!
//! The linker's symbols have a size and a section. A symbol counts for the module that its function or constant is
//! defined in, to a depth of two: `page::pcp`. A function that the compiler has inlined counts for its caller. Bytes
//! without a symbol are the constants that the compiler has not named, and the padding between functions.

use std::collections::BTreeMap;

use object::{Object, ObjectSection, ObjectSymbol};
use rustc_demangle::demangle;

use super::Size;

/// Functions that are printed, the largest first.
const LARGEST: usize = 20;
/// Row of the bytes in code sections that belong to no symbol.
const PADDING: &str = "padding between functions";
/// Row of the bytes in sections of read-only data that belong to no symbol.
const UNNAMED: &str = "constants without a name";

/// Function or constant of a kernel.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    /// Path without the hash of its instance.
    path: String,
    size: Size,
}

/// Prints a kernel's modules and its largest functions.
pub(super) fn print(kernel: &object::File<'_>) {
    let mut items = items(kernel);
    println!("| module | bytes of code | bytes of read-only data |\n|---|---|---|");
    for (module, size) in divide(&items, Size::measure(kernel)) {
        println!("| {module} | {} | {} |", size.code, size.constants);
    }
    items.sort_by_key(|item| std::cmp::Reverse(item.size.code));
    println!("\n| function | bytes of code |\n|---|---|");
    for item in items.iter().take(LARGEST) {
        println!("| `{}` | {} |", item.path, item.size.code);
    }
}

/// Returns the functions and constants of a kernel that have a symbol with a size.
fn items(kernel: &object::File<'_>) -> Vec<Item> {
    kernel.symbols().filter(|symbol| symbol.size() > 0).filter_map(|symbol| item(kernel, &symbol)).collect()
}

fn item(kernel: &object::File<'_>, symbol: &object::Symbol<'_, '_>) -> Option<Item> {
    let section = kernel.section_by_index(symbol.section_index()?).ok()?;
    let mut size = Size::default();
    size.add(section.kind(), symbol.size());
    let path = format!("{:#}", demangle(symbol.name().ok()?));
    (size.sum() > 0).then_some(Item { path, size })
}

/// Returns the bytes of each module, the largest first, and of what has no symbol. Their sum is `total`.
fn divide(items: &[Item], total: Size) -> Vec<(String, Size)> {
    let mut modules = BTreeMap::<String, Size>::new();
    for item in items {
        let size = modules.entry(module_of(&item.path)).or_default();
        *size = size.plus(item.size);
    }
    let named = modules.values().fold(Size::default(), |sum, size| sum.plus(*size));
    modules.insert(PADDING.to_owned(), Size { code: total.code.saturating_sub(named.code), constants: 0 });
    modules.insert(UNNAMED.to_owned(), Size { code: 0, constants: total.constants.saturating_sub(named.constants) });
    let mut rows: Vec<_> = modules.into_iter().collect();
    rows.sort_by_key(|(_, size)| std::cmp::Reverse(size.sum()));
    rows
}

/// Returns the module that a path belongs to: at most two names below the engine, the name of a crate of Rust's
/// library, or `other`.
fn module_of(path: &str) -> String {
    // A method of a trait begins with `<Type as Trait>`; the type's module counts.
    let path = path.trim_start_matches(['<', '&', '[', '(']);
    let end = path.find(['<', ' ', '>']).unwrap_or(path.len());
    // The last name is that of the function, or empty if the path goes on with the type of an `impl`.
    let Some((modules, _)) = path[..end].rsplit_once("::") else { return "other".to_owned() };
    let mut names = modules.split("::");
    match names.next() {
        Some("freehold") => {
            let names: Vec<&str> = names.take_while(|name| !name.contains(char::is_uppercase)).take(2).collect();
            names.join("::")
        }
        Some(library @ ("core" | "alloc" | "compiler_builtins")) => library.to_owned(),
        _ => "other".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_belongs_to_the_module_of_its_definition() {
        for (path, module) in [
            ("freehold::page::free::free_error", "page::free"),
            ("freehold::base::word::Word::state", "base::word"),
            ("freehold::kernel::Engine<H>::shrink", "kernel"),
            ("freehold::slab::SlabAllocator<P,C>::with_debug::{{closure}}", "slab"),
            ("freehold::page::pcp::refill::<impl freehold::page::pcp::locked::LockedPcp<P>>::refill", "page::pcp"),
            ("<freehold::policy::Numbers as core::cmp::PartialEq>::eq", "policy"),
            ("<freehold::slab::sheaves::guard::SheafGuard<P,C> as core::ops::drop::Drop>::drop", "slab::sheaves"),
            ("core::ptr::drop_in_place<freehold::page::free::ClaimedRange>", "core"),
            ("<core::iter::adapters::flatten::FlattenCompat<I,U> as core::iter::Iterator>::next", "core"),
            ("alloc::raw_vec::capacity_overflow", "alloc"),
            ("smallest::KERNEL", "other"),
            ("memset", "other"),
        ] {
            assert_eq!(module_of(path), module, "{path}");
        }
    }

    #[test]
    fn rows_add_up_to_the_kernel() {
        let items = [
            planted("freehold::page::free::free_error", 100, 0),
            planted("freehold::page::free::free_one_page", 20, 0),
            planted("freehold::slab::sizes::CLASSES", 0, 30),
            planted("memset", 7, 0),
        ];
        let rows = divide(&items, Size { code: 140, constants: 50 });
        let expected =
            [("page::free", 120, 0), ("slab::sizes", 0, 30), (UNNAMED, 0, 20), (PADDING, 13, 0), ("other", 7, 0)];
        assert_eq!(rows, expected.map(|(name, code, constants)| (name.to_owned(), Size { code, constants })));
    }

    fn planted(path: &str, code: u64, constants: u64) -> Item {
        Item { path: path.to_owned(), size: Size { code, constants } }
    }
}
