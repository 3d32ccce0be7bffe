//! Page-frame allocators of other projects, in a separate program that is queried over a pipe
//! ([`program`](super::program)).
//!
//! ```text
//! freehold-peers --list      [{"peer": "llfree", "version": "...", "cases": ["order-0-pair", ...]}, ...]
//! freehold-peers --serve     PIN <cpu>                            -> OK
//!                            SAMPLE <peer> <case> <operations>    -> OK <nanoseconds> <operations>, or ERR <sentence>
//! ```
//!
//! Each run starts the program anew, just as it builds the engine's machine anew. The times are thread CPU times that
//! the program measures itself.

use serde::Deserialize;

use super::program::{Kind, Program};
use super::subject::{Sample, Subject, Then};
use crate::error::Error;

/// Program with the allocators.
pub(crate) const PEERS: Kind = Kind {
    holds: "Peers",
    name: "freehold-peers",
    option: "--peers",
    variable: "FREEHOLD_PEERS",
    built: "dev/peer-page-allocators/target/release/freehold-peers",
    how: "cargo build --release --manifest-path dev/peer-page-allocators/Cargo.toml",
};

/// An allocator of the program.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Peer {
    /// Name of the allocator.
    pub peer: String,
    /// Version of the package.
    #[serde(default)]
    pub version: String,
    /// Names of the cases that the allocator supports.
    pub cases: Vec<String>,
}

impl Peer {
    /// Returns whether the allocator supports a case.
    pub(crate) fn can(&self, case: &str) -> bool {
        self.cases.iter().any(|name| name == case)
    }

    /// Returns this allocator of `program` as a subject that carries out one case on a CPU.
    pub(crate) fn subject(&self, program: &Program, case: &str, cpu: u16) -> PeerSubject {
        let name = format!("{} {}", self.peer, self.version).trim_end().to_owned();
        PeerSubject { name, program: program.clone(), peer: self.peer.clone(), case: case.to_owned(), cpu }
    }
}

/// An allocator of the program that carries out one case, as a subject.
pub(crate) struct PeerSubject {
    name: String,
    program: Program,
    peer: String,
    case: String,
    cpu: u16,
}

impl Subject for PeerSubject {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, operations: u64, then: &mut Then<'_>) -> Result<(), Error> {
        let mut server = self.program.serve()?;
        server.ask(&format!("PIN {}", self.cpu))?;
        let question = format!("SAMPLE {} {} {operations}", self.peer, self.case);
        then(&mut || {
            let numbers = server.ask_numbers(&question, 2)?;
            Ok(Sample { nanoseconds: numbers[0], operations: numbers[1] })
        })
    }
}
