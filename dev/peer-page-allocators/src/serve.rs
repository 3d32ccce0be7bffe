//! `--serve`: answers requests, one line each, until the input ends.
//!
//! `SAMPLE <peer> <case> <operations>` is answered with `OK <nanoseconds> <operations>`, `PIN <cpu>` with `OK`, and
//! failed requests with `ERR` and one sentence. Each answer is flushed immediately. A machine boots at the first
//! request for a case of a peer, and is kept until the end, so that samples of different peers can alternate.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::io::{self, BufRead, Write};

use freehold_peer_protocol::{CpuError, answer_lines, pin};

use crate::case::Case;
use crate::machine::{Machine, Sample};
use crate::peer::BootError;
use crate::request::{Request, RequestError};
use crate::roster::Candidate;

/// Answer to a successful request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Pinned,
    Sampled(Sample),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Pinned => Ok(()),
            Answer::Sampled(sample) => write!(f, "{} {}", sample.nanoseconds, sample.operations),
        }
    }
}

/// Reason for which a line is answered with `ERR`.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Boot(#[from] BootError),
    #[error("{peer} ran out of memory at {case}; request fewer operations")]
    OutOfMemory { peer: &'static str, case: &'static str },
    #[error(transparent)]
    Cpu(#[from] CpuError),
}

/// Machines that have booted.
pub(crate) struct Session {
    frames: u32,
    machines: BTreeMap<(usize, Case), Box<dyn Machine>>,
}

impl Session {
    /// Creates a session whose machines have `frames` frames.
    pub(crate) fn new(frames: u32) -> Session {
        Session { frames, machines: BTreeMap::new() }
    }

    /// Answers every line of `requests`.
    ///
    /// # Errors
    /// Returns an error if a line cannot be read, or if an answer cannot be written.
    pub(crate) fn serve(&mut self, requests: impl BufRead, answers: impl Write) -> io::Result<()> {
        answer_lines(requests, answers, |line| self.answer(line))
    }

    fn answer(&mut self, line: &str) -> Result<Answer, Refusal> {
        match Request::parse(line, self.frames)? {
            Request::Pin(cpu) => Ok(pin(cpu).map(|()| Answer::Pinned)?),
            Request::Sample { place, candidate, case, operations } => {
                let machine = self.machine(place, candidate, case)?;
                let none = Refusal::OutOfMemory { peer: candidate.name, case: case.slug() };
                machine.sample(operations).map(Answer::Sampled).ok_or(none)
            }
        }
    }

    /// Returns the machine for this case of this peer, and boots it if necessary.
    fn machine(&mut self, place: usize, candidate: &Candidate, case: Case) -> Result<&mut dyn Machine, BootError> {
        let machine = match self.machines.entry((place, case)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => vacant.insert((candidate.boot)(self.frames, case)?),
        };
        Ok(machine.as_mut())
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity};

    use super::*;
    use crate::roster::ROSTER;

    const FRAMES: u32 = 1 << 13;

    fn serve(session: &mut Session, requests: &[u8]) -> Vec<String> {
        let mut answers = Vec::new();
        session.serve(requests, &mut answers).unwrap();
        String::from_utf8(answers).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_case_of_every_peer_is_answered_and_cached() {
        let cases = || ROSTER.iter().flat_map(|peer| peer.cases.iter().map(|case| (peer.name, case.slug())));
        let lines: String = cases().map(|(peer, case)| format!("SAMPLE {peer} {case} 10\n")).collect();
        let mut session = Session::new(FRAMES);
        for _ in 0..2 {
            for answer in serve(&mut session, lines.as_bytes()) {
                let words: Vec<&str> = answer.split(' ').collect();
                let ["OK", nanoseconds, "10"] = words[..] else { panic!("{answer}") };
                assert!(nanoseconds.parse::<u64>().is_ok(), "{answer}");
            }
            assert_eq!(session.machines.len(), cases().count());
        }
    }

    #[test]
    fn invalid_lines_are_answered_and_change_nothing() {
        let long = "SAMPLE ".repeat(10_000);
        let mut lines = format!("\nSAMPLE\n{long}\nPIN x\nPIN 1000000\nHELLO world\n").into_bytes();
        lines.extend_from_slice(b"\xff\xfe\n\0\nSAMPLE floor-array order-0-pair 3");
        let mut session = Session::new(FRAMES);
        let answers = serve(&mut session, &lines);
        assert_eq!(answers.len(), 9, "{answers:#?}");
        assert!(answers[..8].iter().all(|answer| answer.starts_with("ERR ")), "{answers:#?}");
        assert!(answers[2].contains("512 bytes") && answers[6].contains("512 bytes"), "{answers:#?}");
        assert!(answers[8].starts_with("OK ") && answers[8].ends_with(" 3"), "{answers:#?}");
    }

    #[test]
    fn empty_input_has_no_answers() {
        assert!(serve(&mut Session::new(FRAMES), b"").is_empty());
    }

    #[test]
    fn pin_restricts_the_thread_to_a_cpu() {
        let allowed = sched_getaffinity(None).unwrap();
        let cpu = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)).unwrap();
        assert_eq!(serve(&mut Session::new(FRAMES), format!("PIN {cpu}\n").as_bytes()), ["OK"]);
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
    }
}
