//! Writes the stub file of the Python module: `cargo run -p freehold-python --example stubs`.

use std::{fs, io};

fn main() -> io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/python/freehold/_freehold.pyi");
    fs::write(path, freehold_python::stubs::text())
}
