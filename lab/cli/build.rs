//! Records the commit and the profile, and builds the malloc that the program carries if the profile is `dist`.
//!
//! `FREEHOLD_PROFILE` is the name of the profile. A program for distribution embeds `libfreehold.so`, so that the
//! program file can be copied alone. Any other build embeds an empty file: there, `freehold run` uses the library that
//! `cargo build` puts beside the program, and no build waits for another cargo.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

mod commit;

/// Profile of the programs that are copied to other machines.
const DISTRIBUTION: &str = "dist";
/// Sources of the library. A change in them causes a new build of it.
const LIBRARY_SOURCES: [&str; 5] = [
    "../../engine/core/src",
    "../../malloc/heap/src",
    "../../malloc/heap/Cargo.toml",
    "../../malloc/preload",
    "../../Cargo.toml",
];

fn main() {
    commit::main();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let folder = out.ancestors().nth(3).expect("OUT_DIR is below the profile's folder");
    let profile = folder.file_name().and_then(|name| name.to_str()).unwrap_or("unknown");
    println!("cargo::rustc-env=FREEHOLD_PROFILE={}", if profile == "debug" { "dev" } else { profile });
    let place = out.join("libfreehold.so");
    let embedded = if profile == DISTRIBUTION {
        build_library(folder, &place)
    } else {
        fs::write(&place, []).map_err(|error| error.to_string())
    };
    if let Err(reason) = embedded {
        panic!("cannot build libfreehold.so, which programs of the profile `{DISTRIBUTION}` contain: {reason}");
    }
}

/// Builds the library with its own profile. It gets a separate target folder, because this build holds the lock of its
/// own target folder.
fn build_library(profile_folder: &Path, place: &Path) -> Result<(), String> {
    for sources in LIBRARY_SOURCES {
        println!("cargo::rerun-if-changed={sources}");
    }
    // A program that is linked with musl contains the library for glibc: it preloads the library into programs of the
    // distribution, which use glibc.
    let target = env::var("TARGET").map_err(|error| error.to_string())?.replace("-musl", "-gnu");
    let cargo = env::var_os("CARGO").ok_or("cargo sets CARGO")?;
    let folder = profile_folder.join("preload-library");
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--quiet", "--profile", "preload", "--package", "freehold-preload"]);
    command.args(["--target", &target]).arg("--target-dir").arg(&folder).current_dir("../..");
    // Compiler flags and wrappers of this build do not apply to the library.
    for name in
        ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"]
    {
        command.env_remove(name);
    }
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let built = folder.join(target).join("preload/libfreehold_preload.so");
    fs::copy(&built, place).map(drop).map_err(|error| format!("{}: {error}", built.display()))
}
