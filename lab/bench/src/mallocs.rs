//! Mallocs, Freehold's and other projects', in a separate program that is queried over a pipe
//! ([`program`](super::program)).
//!
//! ```text
//! freehold-mallocs --list   [{"malloc": "libc", "version": "glibc 2.36", ...}, ...]
//! freehold-mallocs --serve  PIN <cpu> [<second cpu>]                          -> OK
//!                           SAMPLE <malloc> <loop> <bytes> <objects> <rounds> -> OK <objects> <ticks>..., or ERR ...
//! ```
//!
//! Each malloc has a process of its own, started anew for each run, so that memory left behind by another malloc has no
//! influence.

use freehold_object_loops::{Ticks, Work};
use serde::Deserialize;

use super::contest::{Contestant, Event, Then};
use super::program::{Kind, Program};
use crate::error::Error;

/// Program with Freehold's malloc and other mallocs.
pub(crate) const MALLOCS: Kind = Kind {
    holds: "Mallocs",
    name: "freehold-mallocs",
    option: "--mallocs",
    variable: "FREEHOLD_MALLOCS",
    built: "dev/peer-mallocs/target/release/freehold-mallocs",
    how: "cargo build --release --manifest-path dev/peer-mallocs/Cargo.toml",
};

/// Build of the same program with mimalloc 2, which cannot be linked into one program with mimalloc 3.
pub(crate) const MIMALLOC_2: Kind = Kind {
    holds: "Mallocs with mimalloc 2",
    built: "dev/peer-mallocs/target/mimalloc-2/release/freehold-mallocs",
    how: "cargo build --release --manifest-path dev/peer-mallocs/Cargo.toml --features mimalloc-2 --target-dir \
          dev/peer-mallocs/target/mimalloc-2",
    ..MALLOCS
};

/// A malloc of a program.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Malloc {
    /// Name of the malloc.
    pub malloc: String,
    /// Version of the malloc.
    #[serde(default)]
    pub version: String,
}

/// CPUs that loops run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// CPU of the first thread of every loop.
    pub cpu: u16,
    /// CPU of the second thread, for loops that have one.
    pub partner: Option<u16>,
}

/// A malloc of a program, as a contestant.
pub(crate) struct Player {
    malloc: Malloc,
    program: Program,
    cpus: Cpus,
}

impl Malloc {
    /// Returns this malloc of `program` as a contestant on these CPUs.
    pub(crate) fn player(&self, program: &Program, cpus: Cpus) -> Player {
        Player { malloc: self.clone(), program: program.clone(), cpus }
    }
}

impl Player {
    /// Returns the version of the malloc.
    pub(crate) fn version(&self) -> &str {
        &self.malloc.version
    }
}

impl Contestant for Player {
    fn name(&self) -> &str {
        &self.malloc.malloc
    }

    fn does(&self, work: Work) -> bool {
        work != Work::Remote || self.cpus.partner.is_some()
    }

    fn open(&self, then: &mut Then<'_>) -> Result<(), Error> {
        let mut server = self.program.serve()?;
        let partner = self.cpus.partner.map_or_else(String::new, |partner| format!(" {partner}"));
        server.ask(&format!("PIN {}{partner}", self.cpus.cpu))?;
        then(&mut |event| {
            let Event { work, size, objects, rounds } = event;
            let name = &self.malloc.malloc;
            let question = format!("SAMPLE {name} {} {size} {objects} {rounds}", work.name());
            let numbers = server.ask_numbers(&question, 1 + work.figures().len())?;
            Ok(numbers[1..].iter().map(|&ticks| Ticks { ticks, operations: numbers[0] }).collect())
        })
    }
}
