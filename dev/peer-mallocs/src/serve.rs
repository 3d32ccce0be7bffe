//! `--serve`: answers requests, one line each, until the input ends.
//!
//! `SAMPLE <malloc> <loop> <bytes> <objects> <rounds>` is answered with `OK <objects> <ticks>...`: for each figure of
//! the loop, the ticks of that many objects, as the median of the rounds. One untimed round precedes them.
//!
//! A second thread sleeps during the whole session. Some mallocs use a faster path while a program has only one thread.
//! With the sleeping thread no malloc can use it, regardless of earlier requests.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::thread;

use freehold_object_loops::{Rounds, Ticks, Trouble, Work};
use freehold_peer_protocol::{CpuError, answer_lines, pin};

use crate::request::{Request, RequestError};

/// Answer to a successful request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Pinned,
    Sampled(Vec<Ticks>),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Answer::Sampled(figures) = self else { return Ok(()) };
        write!(f, "{}", figures.first().map_or(0, |figure| figure.operations))?;
        figures.iter().try_for_each(|figure| write!(f, " {}", figure.ticks))
    }
}

/// Reason for which a line is answered with `ERR`.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("{malloc}: {trouble}")]
    Trouble { malloc: &'static str, trouble: Trouble },
    #[error("the CPU of the second thread of `remote` is not set; write `PIN <cpu> <second cpu>` first")]
    Alone,
    #[error(transparent)]
    Cpu(#[from] CpuError),
}

/// State between requests: the CPU of the second thread.
pub(crate) struct Session {
    partner: Option<usize>,
}

impl Session {
    /// Starts a session and its sleeping thread.
    pub(crate) fn start() -> Session {
        thread::spawn(|| {
            loop {
                thread::park();
            }
        });
        Session { partner: None }
    }

    /// Answers every line of `requests`.
    ///
    /// # Errors
    /// Returns an error if a line cannot be read, or if an answer cannot be written.
    pub(crate) fn serve(&mut self, requests: impl BufRead, answers: impl Write) -> io::Result<()> {
        answer_lines(requests, answers, |line| self.answer(line))
    }

    fn answer(&mut self, line: &str) -> Result<Answer, Refusal> {
        match Request::parse(line)? {
            Request::Pin { cpu, partner } => {
                pin(cpu)?;
                self.partner = partner;
                Ok(Answer::Pinned)
            }
            Request::Sample { candidate, work, size, objects, rounds } => {
                if work == Work::Remote && self.partner.is_none() {
                    return Err(Refusal::Alone);
                }
                let partner = self.partner;
                let settle = || partner.map_or(Ok(()), pin).map_err(|error| error.to_string());
                (candidate.start)();
                let rounds = Rounds { warm_up: 1, timed: rounds };
                let figures = work.run(&candidate.entries, size, objects, rounds, &settle);
                let refusal = |trouble| Refusal::Trouble { malloc: candidate.name, trouble };
                figures.map(Answer::Sampled).map_err(refusal)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::ROSTER;

    fn serve(requests: &str) -> Vec<String> {
        let mut answers = Vec::new();
        Session::start().serve(requests.as_bytes(), &mut answers).unwrap();
        String::from_utf8(answers).unwrap().lines().map(str::to_owned).collect()
    }

    /// Returns the CPU that this thread runs on, which the process may use.
    fn cpu() -> usize {
        // SAFETY: `sched_getcpu` has no preconditions and returns a number.
        usize::try_from(unsafe { libc::sched_getcpu() }).unwrap()
    }

    /// Both threads of a loop share one CPU in this test, which is slow but correct.
    #[test]
    fn every_loop_of_every_malloc_is_answered() {
        let cpu = cpu();
        let mut lines = format!("PIN {cpu} {cpu}\n");
        for candidate in &ROSTER {
            for work in Work::ALL {
                lines += &format!("SAMPLE {} {} 64 100 2\n", candidate.name, work.name());
            }
        }
        let answers = serve(&lines);
        let asked = lines.lines().zip(&answers).skip(1);
        assert_eq!((answers.len(), answers[0].as_str()), (lines.lines().count(), "OK"));
        for (line, answer) in asked {
            let words: Vec<&str> = answer.split(' ').collect();
            let ["OK", "100", ticks @ ..] = &words[..] else { panic!("{line}: {answer}") };
            let figures = if line.contains("pair") { 1 } else { 2 };
            assert_eq!(ticks.len(), figures, "{line}: {answer}");
            assert!(ticks.iter().all(|ticks| ticks.parse::<u64>().is_ok()), "{line}: {answer}");
        }
    }

    #[test]
    fn failed_requests_are_reported_and_change_nothing() {
        let answers = serve("SAMPLE libc remote 64 10 1\nPIN 1048576\nHELLO\nSAMPLE libc pair 64 10 1\n");
        assert!(answers[0].starts_with("ERR the CPU of the second thread"), "{answers:#?}");
        assert!(answers[1].starts_with("ERR CPU 1048576 cannot be used"), "{answers:#?}");
        assert!(answers[2].starts_with("ERR `HELLO` is not a request"), "{answers:#?}");
        assert!(answers[3].starts_with("OK 10 "), "{answers:#?}");
    }
}
