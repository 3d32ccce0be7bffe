//! Parser of request lines: a sample of a peer's case, or a CPU to run on.
//!
//! Requests are checked against the roster, so that only possible samples are attempted. Every refusal is one sentence
//! on one line, for any input.

use freehold_peer_protocol::{CpuError, parse_cpu, quoted};

use crate::case::Case;
use crate::roster::Candidate;

/// Valid request.
#[derive(Clone, Copy)]
pub(crate) enum Request {
    /// Time a case of a peer.
    Sample {
        /// Position of the peer in the roster.
        place: usize,
        /// Peer.
        candidate: &'static Candidate,
        /// Case of this peer.
        case: Case,
        /// Number of operations, within the bounds of the case.
        operations: u64,
    },
    /// Run on this CPU from now on.
    Pin(usize),
}

/// Reason for which a line is invalid. Quoted input is escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    /// The first word is neither of the two requests.
    #[error("`{0}` is not a request; write `SAMPLE <peer> <case> <operations>` or `PIN <cpu>`")]
    Word(String),
    /// The request has too few or too many words.
    #[error("`{0}` has the wrong number of words; write `SAMPLE <peer> <case> <operations>` or `PIN <cpu>`")]
    Shape(String),
    /// There is no such peer.
    #[error("there is no peer `{0}`; use one that `freehold-peers --list` prints")]
    Peer(String),
    /// The peer has no such case.
    #[error("{peer} has no case `{case}`; its cases are {}", slugs(.offered))]
    Case {
        /// Name of the peer.
        peer: &'static str,
        /// Case in the request.
        case: String,
        /// Cases of this peer.
        offered: &'static [Case],
    },
    /// The number of operations is not a number, or is out of bounds.
    #[error("`{written}` is not a number of operations for {case}; give a whole number from {least} to {most}")]
    Operations {
        /// Text in the request.
        written: String,
        /// Name of the case.
        case: &'static str,
        /// Minimum number of operations.
        least: u64,
        /// Maximum number of operations.
        most: u64,
    },
    /// The CPU is invalid.
    #[error(transparent)]
    Cpu(#[from] CpuError),
}

fn slugs(cases: &[Case]) -> String {
    cases.iter().map(|case| case.slug()).collect::<Vec<_>>().join(", ")
}

impl Request {
    /// Parses a line, for machines of `machine_frames` frames.
    ///
    /// # Errors
    /// Returns an error if the line is no request, or a request that no peer supports.
    pub(crate) fn parse(line: &str, machine_frames: u32) -> Result<Request, RequestError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["SAMPLE", peer, case, operations] => sample(peer, case, operations, machine_frames),
            ["PIN", cpu] => Ok(parse_cpu(cpu).map(Request::Pin)?),
            ["SAMPLE" | "PIN", ..] => Err(RequestError::Shape(quoted(line.trim()))),
            _ => Err(RequestError::Word(quoted(line.trim()))),
        }
    }
}

fn sample(peer: &str, case: &str, operations: &str, machine_frames: u32) -> Result<Request, RequestError> {
    let (place, candidate) = Candidate::find(peer).ok_or_else(|| RequestError::Peer(quoted(peer)))?;
    let case = Case::from_slug(case).filter(|case| candidate.offers(*case)).ok_or_else(|| RequestError::Case {
        peer: candidate.name,
        case: quoted(case),
        offered: candidate.cases,
    })?;
    let bounds = case.operations(machine_frames);
    let number = operations.parse().ok().filter(|number| bounds.contains(number));
    let operations = number.ok_or_else(|| RequestError::Operations {
        written: quoted(operations),
        case: case.slug(),
        least: *bounds.start(),
        most: *bounds.end(),
    })?;
    Ok(Request::Sample { place, candidate, case, operations })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &str) -> String {
        Request::parse(line, 1 << 13).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn valid_requests_are_parsed() {
        let request = Request::parse("SAMPLE  talc order-9-pair 12\r", 1 << 13).unwrap();
        let Request::Sample { candidate, case, operations, .. } = request else { panic!("the request was not parsed as a sample") };
        assert_eq!((candidate.name, case.slug(), operations), ("talc", "order-9-pair", 12));
        assert!(matches!(Request::parse("PIN 1", 1 << 13), Ok(Request::Pin(1))));
    }

    #[test]
    fn invalid_requests_are_errors_with_advice() {
        for (line, part) in [
            ("", "is not a request; write `SAMPLE"),
            ("sample talc order-0-pair 1", "is not a request"),
            ("SAMPLE", "has the wrong number of words"),
            ("SAMPLE talc order-0-pair", "has the wrong number of words"),
            ("SAMPLE talc order-0-pair 1 2", "has the wrong number of words"),
            ("PIN", "has the wrong number of words"),
            ("PIN -1", "`-1` is not a CPU"),
            ("PIN 99999999999999999999999", "is not a CPU"),
            ("SAMPLE slab order-0-pair 1", "no peer `slab`; use one that"),
            ("SAMPLE talc order-1-pair 1", "talc has no case `order-1-pair`; its cases are order-0-pair, "),
            ("SAMPLE floor-array order-3-pair 1", "its cases are order-0-pair, order-0-fill-free-random"),
            ("SAMPLE talc order-0-pair 0", "from 1 to 1000000000"),
            ("SAMPLE talc order-0-pair 1e6", "`1e6` is not a number"),
            ("SAMPLE talc order-0-pair 1000000001", "from 1 to 1000000000"),
            ("SAMPLE talc order-0-fill-free-random 8193", "from 2 to 8192"),
            ("SAMPLE talc order-0-fill-free-random 1", "from 2 to 8192"),
            ("PIN \u{1b}[31m", "\\u{1b}[31m"),
        ] {
            let sentence = refusal(line);
            assert!(sentence.contains(part), "{line:?}: {sentence}");
            assert!(!sentence.contains(char::is_control), "{line:?}: {sentence:?}");
        }
    }
}
