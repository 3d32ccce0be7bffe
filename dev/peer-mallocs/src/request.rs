//! Parser of request lines: a sample of a malloc with a loop, size, number of objects and number of rounds, or CPUs to
//! run on.
//!
//! Every refusal is one sentence on one line, for any input.

use std::ops::RangeInclusive;

use freehold_object_loops::{Size, Work};
use freehold_peer_protocol::{CpuError, parse_cpu, quoted};

use crate::roster::Candidate;

/// Valid sizes of an object in bytes.
const BYTES: RangeInclusive<usize> = 1..=1 << 20;
/// Valid numbers of objects in a round.
const OBJECTS: RangeInclusive<usize> = 1..=10_000_000;
/// Maximum bytes of all objects of a round together.
const BYTES_TOGETHER: usize = 4 << 30;
/// Valid numbers of rounds in a sample.
const ROUNDS: RangeInclusive<u32> = 1..=1000;

/// Valid request.
#[derive(Clone, Copy)]
pub(crate) enum Request {
    /// Time a loop over a malloc.
    Sample {
        /// Malloc.
        candidate: &'static Candidate,
        /// Loop.
        work: Work,
        /// Size of an object.
        size: Size,
        /// Objects in a round.
        objects: usize,
        /// Timed rounds.
        rounds: u32,
    },
    /// Run on these CPUs from now on.
    Pin {
        /// CPU of the main thread.
        cpu: usize,
        /// CPU of the second thread.
        partner: Option<usize>,
    },
}

/// Reason for which a line is invalid. Quoted input is escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    /// The line is neither of the two requests.
    #[error("`{0}` is not a request; write `SAMPLE <malloc> <loop> <bytes> <objects> <rounds>` or `PIN <cpu> [<cpu>]`")]
    Word(String),
    /// There is no such malloc.
    #[error("there is no malloc `{0}`; use one that `freehold-mallocs --list` prints")]
    Malloc(String),
    /// There is no such loop.
    #[error("there is no loop `{0}`; use one of {names}", names = Work::ALL.map(Work::name).join(", "))]
    Loop(String),
    /// The word is not a number, or is out of bounds.
    #[error("`{written}` is not a number of {what}; give a whole number from {least} to {most}")]
    Number {
        /// Text in the request.
        written: String,
        /// Name of the quantity.
        what: &'static str,
        /// Minimum.
        least: usize,
        /// Maximum.
        most: usize,
    },
    /// The objects of a round would need too much memory.
    #[error(
        "{objects} objects of {bytes} bytes exceed the limit of a round, {BYTES_TOGETHER} bytes; request fewer or \
         smaller objects"
    )]
    TooMuch {
        /// Number of objects.
        objects: usize,
        /// Bytes of each object.
        bytes: usize,
    },
    /// The CPU is invalid.
    #[error(transparent)]
    Cpu(#[from] CpuError),
}

impl Request {
    /// Parses a line.
    ///
    /// # Errors
    /// Returns an error if the line is no request, or a request that this program cannot answer.
    pub(crate) fn parse(line: &str) -> Result<Request, RequestError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["SAMPLE", malloc, work, bytes, objects, rounds] => sample(malloc, work, bytes, objects, rounds),
            ["PIN", cpu] => Ok(Request::Pin { cpu: parse_cpu(cpu)?, partner: None }),
            ["PIN", cpu, partner] => Ok(Request::Pin { cpu: parse_cpu(cpu)?, partner: Some(parse_cpu(partner)?) }),
            _ => Err(RequestError::Word(quoted(line.trim()))),
        }
    }
}

fn sample(malloc: &str, work: &str, bytes: &str, objects: &str, rounds: &str) -> Result<Request, RequestError> {
    let candidate = Candidate::find(malloc).ok_or_else(|| RequestError::Malloc(quoted(malloc)))?;
    let work = Work::named(work).ok_or_else(|| RequestError::Loop(quoted(work)))?;
    let bytes = number(bytes, "bytes", &BYTES)?;
    let objects = number(objects, "objects", &OBJECTS)?;
    let rounds = number(rounds, "rounds", &(*ROUNDS.start() as usize..=*ROUNDS.end() as usize))? as u32;
    let too_much = RequestError::TooMuch { objects, bytes };
    let size = Size::new(bytes).filter(|_| bytes * objects <= BYTES_TOGETHER).ok_or(too_much)?;
    Ok(Request::Sample { candidate, work, size, objects, rounds })
}

fn number(written: &str, what: &'static str, bounds: &RangeInclusive<usize>) -> Result<usize, RequestError> {
    let number = written.parse().ok().filter(|number| bounds.contains(number));
    let (least, most) = (*bounds.start(), *bounds.end());
    number.ok_or_else(|| RequestError::Number { written: quoted(written), what, least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_requests_are_parsed() {
        let request = Request::parse("SAMPLE  libc fill 64 100 3\r").unwrap();
        let Request::Sample { candidate, work, size, objects, rounds } = request else {
            panic!("the request was not parsed as a sample")
        };
        assert_eq!((candidate.name, work, size.bytes(), objects, rounds), ("libc", Work::Fill, 64, 100, 3));
        assert!(matches!(Request::parse("PIN 1"), Ok(Request::Pin { cpu: 1, partner: None })));
        assert!(matches!(Request::parse("PIN 1 0"), Ok(Request::Pin { cpu: 1, partner: Some(0) })));
    }

    #[test]
    fn invalid_requests_are_errors_with_advice() {
        for (line, part) in [
            ("", "is not a request; write `SAMPLE"),
            ("SAMPLE libc fill 64 100", "is not a request"),
            ("PIN", "is not a request"),
            ("PIN x", "`x` is not a CPU"),
            ("PIN 1 -1", "`-1` is not a CPU"),
            ("SAMPLE malloc fill 64 100 1", "no malloc `malloc`; use one that"),
            ("SAMPLE libc bulk 64 100 1", "no loop `bulk`; use one of fill, fill-touched, pair, remote"),
            ("SAMPLE libc fill 0 100 1", "`0` is not a number of bytes; give a whole number from 1"),
            ("SAMPLE libc fill 64 1e6 1", "`1e6` is not a number of objects"),
            ("SAMPLE libc fill 64 100 0", "number of rounds; give a whole number from 1 to 1000"),
            ("SAMPLE libc fill 1048576 10000 1", "exceed the limit of a round"),
            ("PIN \u{1b}[31m", "\\u{1b}[31m"),
        ] {
            let sentence = Request::parse(line).map(drop).unwrap_err().to_string();
            assert!(sentence.contains(part), "{line:?}: {sentence}");
            assert!(!sentence.contains(char::is_control), "{line:?}: {sentence:?}");
        }
    }
}
