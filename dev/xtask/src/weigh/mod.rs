//! `cargo xtask weigh`: measures how many bytes of the engine the smallest kernel contains.
//!
//! The kernel has pages alone or a heap as well, uses one of two policies, and is compiled for speed and for size. A
//! size counts the machine code, or the machine code and the read-only data. With `--by module`, the bytes of one of
//! these kernels are divided among the modules of the engine ([`modules`]).

mod modules;

use std::fs;

use clap::ValueEnum;
use object::{Object, ObjectSection, SectionKind};

use crate::baremetal;
use crate::command;
use crate::error::{Error, on_file};
use crate::stage::Outcome;
use crate::workspace::root;

const TARGET: &str = "x86_64-unknown-none";

/// Kernels: a description, and the features that they are built with.
const KERNELS: [(&str, &str); 4] = [
    ("pages alone, freehold", ""),
    ("pages alone, linux-6.12", "linux"),
    ("pages, slab and heap, freehold", HEAP),
    ("pages, slab and heap, linux-6.12", "heap,linux"),
];

/// Features of the kernel that [`By`] divides: the largest one with the default policy.
const HEAP: &str = "heap";

/// Page of the documentation that has the table of sizes.
const PAGE: &str = "docs/kernel.md";

/// Maximum bytes of code and read-only data of any of these kernels.
const BYTES_MAX: u64 = 102_000;

/// Arguments of `cargo xtask weigh`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Divide the bytes of the kernel with pages, slab and heap, at opt-level 2
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Divide the bytes of the kernel with pages alone instead
    #[arg(long, requires = "by")]
    pages_alone: bool,
}

/// Parts that the bytes of a kernel are divided among.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// Modules of the engine.
    Module,
}

/// Bytes of a kernel, by their kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    code: u64,
    constants: u64,
}

impl Size {
    /// Adds up the sections of a kernel.
    fn measure(kernel: &object::File<'_>) -> Size {
        let mut size = Size::default();
        for section in kernel.sections() {
            size.add(section.kind(), section.size());
        }
        size
    }

    /// Adds the bytes of a section or a symbol, unless its kind is not counted.
    fn add(&mut self, kind: SectionKind, bytes: u64) {
        match kind {
            SectionKind::Text => self.code += bytes,
            SectionKind::ReadOnlyData | SectionKind::ReadOnlyString => self.constants += bytes,
            _ => {}
        }
    }

    fn plus(self, more: Size) -> Size {
        Size { code: self.code + more.code, constants: self.constants + more.constants }
    }

    fn sum(self) -> u64 {
        self.code + self.constants
    }
}

/// Prints the size of each kernel, or the parts of one of them.
///
/// # Errors
/// Returns an error if a kernel cannot be built, or is larger than the maximum.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    match args.by {
        Some(By::Module) => inspect(if args.pages_alone { "" } else { HEAP }, "2", modules::print),
        None => print_sizes().map(|_| ()),
    }
}

/// Runs [`print_sizes`] as a stage of the nightly run, and compares the table with that of the documentation.
///
/// # Errors
/// Returns the errors of [`print_sizes`], or an error if the documentation has other sizes.
pub(crate) fn nightly() -> Result<Outcome, Error> {
    let rows = print_sizes()?;
    let path = root().join(PAGE);
    let page = fs::read_to_string(&path).map_err(on_file("read", &path))?;
    match rows.iter().all(|row| page.lines().any(|line| line == row)) {
        true => Ok(Outcome::Passed),
        false => Err(Error::Failed(format!("{PAGE} has other sizes; replace its table by the one above"))),
    }
}

/// Prints the table of sizes, and returns its rows.
fn print_sizes() -> Result<Vec<String>, Error> {
    println!("| bytes | code, opt-level 2 | and read-only data | code, opt-level s | and read-only data |");
    println!("|---|---|---|---|---|");
    let mut rows = Vec::new();
    for (name, features) in KERNELS {
        let fast = inspect(features, "2", Size::measure)?;
        let small = inspect(features, "s", Size::measure)?;
        let row = format!("| {name} | {} | {} | {} | {} |", fast.code, fast.sum(), small.code, small.sum());
        println!("{row}");
        rows.push(row);
        expect_small(fast)?;
        expect_small(small)?;
    }
    Ok(rows)
}

/// Returns an error if a kernel is larger than the maximum.
fn expect_small(size: Size) -> Result<(), Error> {
    if size.sum() > BYTES_MAX {
        return Err(Error::Failed(format!("a kernel has more than {BYTES_MAX} bytes of code and read-only data")));
    }
    Ok(())
}

/// Builds a kernel and returns what `look` returns for its file.
fn inspect<R>(features: &str, opt_level: &str, look: fn(&object::File<'_>) -> R) -> Result<R, Error> {
    let mut build = baremetal::own_cargo();
    build.args(["build", "--quiet", "--example", "smallest", "--profile", "weighed", "--target", TARGET]);
    build.args(["--features", features]).env("CARGO_PROFILE_WEIGHED_OPT_LEVEL", opt_level);
    command::run(&mut build)?;
    let path = baremetal::built(TARGET, "weighed").join("examples/smallest");
    let bytes = fs::read(&path).map_err(on_file("read", &path))?;
    let kernel = object::File::parse(&*bytes).map_err(|error| Error::Failed(format!("{}: {error}", path.display())))?;
    Ok(look(&kernel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_above_the_maximum_is_an_error() {
        assert!(expect_small(Size { code: BYTES_MAX - 1, constants: 1 }).is_ok());
        assert!(expect_small(Size { code: BYTES_MAX, constants: 1 }).is_err());
    }
}
