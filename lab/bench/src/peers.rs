//! Other people's allocators of page frames, in a program of their own.
//!
//! ```text
//! freehold-peers --list      [{"peer": "llfree", "version": "...", "cases": ["order-0-pair", ...]}, ...]
//! freehold-peers --serve     PIN <cpu>                            -> OK
//!                            SAMPLE <peer> <case> <operations>    -> OK <nanoseconds> <operations>, or ERR <sentence>
//! ```
//!
//! Each run starts the program anew, as it builds the engine's machine anew. The times are the peer's own thread CPU
//! time.

use serde::Deserialize;

use super::program::{Kind, Program};
use super::subject::{Sample, Subject, Then};
use crate::error::Error;

/// The program.
pub(crate) const PEERS: Kind = Kind {
    holds: "Peers",
    name: "freehold-peers",
    option: "--peers",
    variable: "FREEHOLD_PEERS",
    built: "dev/peer-page-allocators/target/release/freehold-peers",
    how: "cargo build --release --manifest-path dev/peer-page-allocators/Cargo.toml",
};

/// One allocator in it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Peer {
    /// Its name.
    pub peer: String,
    /// The version of its package.
    #[serde(default)]
    pub version: String,
    /// Names of the cases it can do.
    pub cases: Vec<String>,
}

impl Peer {
    /// Whether it can do a case.
    pub(crate) fn can(&self, case: &str) -> bool {
        self.cases.iter().any(|name| name == case)
    }

    /// This allocator of a program, doing one case on a CPU.
    pub(crate) fn subject(&self, program: &Program, case: &str, cpu: u16) -> PeerSubject {
        let name = format!("{} {}", self.peer, self.version).trim_end().to_owned();
        PeerSubject { name, program: program.clone(), peer: self.peer.clone(), case: case.to_owned(), cpu }
    }
}

/// An allocator of the program, doing one case.
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
