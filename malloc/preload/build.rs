//! Link options of the shared library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The library cannot be unloaded: its helper thread and its handlers of forks would run code that is gone.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
