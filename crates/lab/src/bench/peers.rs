//! Other people's allocators of page frames, in a program of their own.
//!
//! They are packages that take their time to build, so they live outside the workspace, in `benches/peers`, and the
//! program there is asked for samples over a pipe:
//!
//! ```text
//! freehold-peers --list      [{"peer": "llfree", "version": "...", "cases": ["order-0-pair", ...]}, ...]
//! freehold-peers --serve     PIN <cpu>                            -> OK
//!                            SAMPLE <peer> <case> <operations>    -> OK <nanoseconds> <operations>, or ERR <sentence>
//! ```
//!
//! Each run starts the program anew, as it builds the engine's machine anew. The times are the peer's own thread CPU
//! time, so the pipe does not count.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;

use super::report::Note;
use super::subject::{Sample, Subject, Then};
use crate::error::Error;

/// The environment variable that says where the program is.
const VARIABLE: &str = "FREEHOLD_PEERS";
/// Where it is when it was built as documented, below the current folder.
const BUILT: &str = "benches/peers/target/release/freehold-peers";

/// The program.
#[derive(Clone, Debug)]
pub struct Peers {
    program: PathBuf,
    cpu: u16,
}

/// One allocator in it.
#[derive(Clone, Debug, Deserialize)]
pub struct Peer {
    /// Its name.
    pub peer: String,
    /// The version of its package.
    #[serde(default)]
    pub version: String,
    /// Names of the cases it can do.
    pub cases: Vec<String>,
}

impl Peers {
    /// What to say when the program is not there.
    pub fn how_to_build() -> Note {
        let line = "cargo build --release --manifest-path benches/peers/Cargo.toml";
        Note { title: "Peers are not built; the next run has them if you run".to_owned(), lines: vec![line.to_owned()] }
    }

    /// The program at `given`, at the place that FREEHOLD_PEERS names, or where building puts it.
    ///
    /// # Errors
    /// When it was named and is not there.
    pub fn find(given: Option<&Path>, cpu: u16) -> Result<Option<Peers>, Error> {
        let named = given.map(Path::to_path_buf).or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
        match named {
            Some(program) if program.is_file() => Ok(Some(Peers { program, cpu })),
            Some(program) => Err(Error::Input(format!(
                "there is no program {}; name the freehold-peers that `cargo build --release --manifest-path \
                 benches/peers/Cargo.toml` made",
                program.display()
            ))),
            None => Ok(Some(PathBuf::from(BUILT)).filter(|path| path.is_file()).map(|program| Peers { program, cpu })),
        }
    }

    /// The allocators that the program has.
    ///
    /// # Errors
    /// When it cannot be run, or says something else.
    pub fn list(&self) -> Result<Vec<Peer>, Error> {
        let output = Command::new(&self.program).arg("--list").stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| self.broken(&error.to_string()))?;
        serde_json::from_slice(&output.stdout).map_err(|error| self.broken(&format!("its list is not one: {error}")))
    }

    /// One of its allocators, doing one case.
    pub fn subject(&self, peer: &Peer, case: &str) -> PeerSubject {
        let name = format!("{} {}", peer.peer, peer.version).trim_end().to_owned();
        PeerSubject { name, peers: self.clone(), peer: peer.peer.clone(), case: case.to_owned() }
    }

    fn broken(&self, reason: &str) -> Error {
        Error::Input(format!(
            "{} cannot be measured: {reason}; build it again, or point --peers elsewhere",
            self.program.display()
        ))
    }
}

impl Peer {
    /// Whether it can do a case.
    pub fn can(&self, case: &str) -> bool {
        self.cases.iter().any(|name| name == case)
    }
}

/// An allocator of the program, doing one case.
pub struct PeerSubject {
    name: String,
    peers: Peers,
    peer: String,
    case: String,
}

impl Subject for PeerSubject {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, operations: u64, then: &mut Then<'_>) -> Result<(), Error> {
        let mut server = Server::start(&self.peers)?;
        let broken = |answer: &str| self.peers.broken(&format!("{} says `{answer}`", self.name));
        let pinned = server.ask(&format!("PIN {}", self.peers.cpu))?;
        if pinned != "OK" {
            return Err(broken(&pinned));
        }
        let question = format!("SAMPLE {} {} {operations}", self.peer, self.case);
        then(&mut || {
            let answer = server.ask(&question)?;
            parse_sample(&answer).ok_or_else(|| broken(&answer))
        })
    }
}

/// `OK <nanoseconds> <operations>`
fn parse_sample(answer: &str) -> Option<Sample> {
    let mut words = answer.strip_prefix("OK ")?.split(' ').map(|word| word.parse().ok());
    let (nanoseconds, operations) = (words.next()??, words.next()??);
    (words.next().is_none() && nanoseconds > 0 && operations > 0).then_some(Sample { nanoseconds, operations })
}

/// The program while it serves. Dropping it closes its input, at which it ends.
struct Server {
    peers: Peers,
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Server {
    fn start(peers: &Peers) -> Result<Server, Error> {
        let started = Command::new(&peers.program)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| peers.broken(&error.to_string()));
        let mut child = started?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("stdout was asked to be a pipe"));
        Ok(Server { peers: peers.clone(), child, questions, answers })
    }

    /// The answer to one line.
    fn ask(&mut self, question: &str) -> Result<String, Error> {
        let mut answer = String::new();
        let questions = self.questions.as_mut().expect("the input is open until the end");
        let asked = writeln!(questions, "{question}").and_then(|()| self.answers.read_line(&mut answer));
        match asked {
            Ok(0) => Err(self.peers.broken("it ended too early")),
            Ok(_) => Ok(answer.trim_end().to_owned()),
            Err(error) => Err(self.peers.broken(&error.to_string())),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.questions.take());
        // Its exit status says nothing that its answers did not.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_or_refused() {
        assert_eq!(parse_sample("OK 1200 100"), Some(Sample { nanoseconds: 1200, operations: 100 }));
        for answer in ["OK", "OK 5", "OK 5 0", "OK 0 5", "OK 5 5 5", "OK -5 5", "ERR no such case", "ok 5 5", ""] {
            assert_eq!(parse_sample(answer), None, "{answer}");
        }
    }
}
