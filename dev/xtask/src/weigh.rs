//! `cargo xtask weigh`: measures how many bytes of the engine's code the smallest kernel contains.
//!
//! The kernel has pages alone or a heap as well, uses one of two policies, and is compiled for speed and for size.

use std::fs;

use object::{Object, ObjectSection};

use crate::baremetal;
use crate::command;
use crate::error::{Error, on_file};
use crate::stage::Outcome;

const TARGET: &str = "x86_64-unknown-none";

/// Kernels: a description, and the features that they are built with.
const KERNELS: [(&str, &str); 4] = [
    ("pages alone, freehold", ""),
    ("pages alone, linux-6.12", "linux"),
    ("pages, slab and heap, freehold", "heap"),
    ("pages, slab and heap, linux-6.12", "heap,linux"),
];

/// Maximum bytes of code of any of these kernels.
const BYTES_MAX: u64 = 128 << 10;

/// Prints the code size of each kernel.
///
/// # Errors
/// Returns an error if a kernel cannot be built, or is larger than the maximum.
pub(crate) fn run() -> Result<(), Error> {
    println!("| bytes of code | opt-level 2 | opt-level s |\n|---|---|---|");
    for (name, features) in KERNELS {
        let [fast, small] = [text(features, "2")?, text(features, "s")?];
        println!("| {name} | {fast} | {small} |");
        if fast.max(small) > BYTES_MAX {
            return Err(Error::Failed(format!("a kernel has more than {BYTES_MAX} bytes of the engine's code")));
        }
    }
    Ok(())
}

/// Runs [`run`] as a stage of the nightly run.
///
/// # Errors
/// Returns the errors of [`run`].
pub(crate) fn nightly() -> Result<Outcome, Error> {
    run().map(|()| Outcome::Passed)
}

/// Returns the bytes of a kernel's code section.
fn text(features: &str, opt_level: &str) -> Result<u64, Error> {
    let mut build = baremetal::own_cargo();
    build.args(["build", "--quiet", "--example", "smallest", "--profile", "weighed", "--target", TARGET]);
    build.args(["--features", features]).env("CARGO_PROFILE_WEIGHED_OPT_LEVEL", opt_level);
    command::run(&mut build)?;
    let path = baremetal::built(TARGET, "weighed").join("examples/smallest");
    let bytes = fs::read(&path).map_err(on_file("read", &path))?;
    let kernel = object::File::parse(&*bytes).map_err(|error| Error::Failed(format!("{}: {error}", path.display())))?;
    let code = kernel.section_by_name(".text");
    code.map(|code| code.size()).ok_or_else(|| Error::Failed(format!("{} has no code", path.display())))
}
