//! Common parts of the programs that contain allocators of other projects: the protocol, pinning to a CPU, and the
//! versions of the packages that were built.
//!
//! A program reads requests from its input, one per line, and answers each immediately with one line: `OK` and the
//! result, or `ERR` and a sentence. So a caller can alternate between programs, and a person can type requests. Each
//! program defines the meaning of its requests; [`answer_lines`] does the rest.

mod cpu;
mod lock_file;

use std::fmt::Display;
use std::io::{self, BufRead, Read, Write};
use std::process::ExitCode;

pub use cpu::{CpuError, parse_cpu, pin};
pub use lock_file::versions_of;

/// Maximum bytes of a line, several times the longest valid request.
const LINE_MAX: usize = 512;

/// Exit status of the process if its input cannot be read or its output cannot be written.
const EXIT_STATUS: u8 = 2;

/// Error of a line that is too long or not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line must be valid UTF-8 of at most {LINE_MAX} bytes; write a valid line")]
struct NoText;

/// Answers every line until the input ends: with `OK` and the result of `answer` if it is not empty, or with `ERR` and
/// the text of the error.
///
/// # Errors
/// Returns an error if a line cannot be read, or if an answer cannot be written.
pub fn answer_lines<A: Display, E: Display>(
    mut requests: impl BufRead,
    mut answers: impl Write,
    mut answer: impl FnMut(&str) -> Result<A, E>,
) -> io::Result<()> {
    while let Some(line) = read_line(&mut requests)? {
        let text = match line {
            Ok(line) => {
                answer(line.trim()).map_or_else(|error| format!("ERR {error}"), |answer| format!("OK {answer}"))
            }
            Err(no_text) => format!("ERR {no_text}"),
        };
        writeln!(answers, "{}", text.trim_end())?;
        answers.flush()?;
    }
    Ok(())
}

/// Returns the exit code of a program after its session. Prints the error of a failed session on stderr.
pub fn exit_code(program: &str, talked: io::Result<()>) -> ExitCode {
    match talked {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed it, as `head` does, which is not a failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: cannot read stdin or write stdout: {error}; connect both");
            ExitCode::from(EXIT_STATUS)
        }
    }
}

/// Escapes all characters that could end a line or control a terminal.
pub fn quoted(text: &str) -> String {
    text.escape_debug().to_string()
}

/// Reads the next line. Returns `None` at the end of the input, and an inner error if the line is invalid. The rest of
/// a line that is too long is skipped.
fn read_line(requests: &mut impl BufRead) -> io::Result<Option<Result<String, NoText>>> {
    let mut line = Vec::new();
    if requests.by_ref().take(LINE_MAX as u64 + 1).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() > LINE_MAX && !line.ends_with(b"\n") {
        requests.skip_until(b'\n')?;
        return Ok(Some(Err(NoText)));
    }
    Ok(Some(String::from_utf8(line).map_err(|_| NoText)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a session of a program that repeats numbers and refuses all other lines.
    fn talk(requests: &[u8]) -> Vec<String> {
        let mut answers = Vec::new();
        answer_lines(requests, &mut answers, |line| {
            line.parse::<u8>().map_err(|error| format!("`{}`: {error}", quoted(line)))
        })
        .unwrap();
        String::from_utf8(answers).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_line_has_an_answer() {
        let long = "7".repeat(10_000);
        let mut lines = format!("1\n\n{long}\n2\n\x1b[31m\n").into_bytes();
        lines.extend_from_slice(b"\xff\xfe\n\0\n3");
        let answers = talk(&lines);
        assert_eq!((&*answers[0], &*answers[3], &*answers[7]), ("OK 1", "OK 2", "OK 3"));
        assert!([1, 2, 4, 5, 6].iter().all(|&at| answers[at].starts_with("ERR ")), "{answers:#?}");
        assert!(answers[2].contains("512 bytes") && answers[5].contains("512 bytes"), "{answers:#?}");
        assert!(!answers.concat().contains(char::is_control), "{answers:#?}");
        assert!(talk(b"").is_empty());
    }

    #[test]
    fn empty_answer_is_ok() {
        let mut answers = Vec::new();
        answer_lines(&b"x\n"[..], &mut answers, |_| Ok::<_, &str>("")).unwrap();
        assert_eq!(answers, b"OK\n");
    }

    /// Writer that counts how often it is flushed.
    struct FlushCounter(usize);

    impl Write for FlushCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0 += 1;
            Ok(())
        }
    }

    #[test]
    fn every_answer_is_flushed() {
        let mut answers = FlushCounter(0);
        answer_lines(&b"x\ny\nz\n"[..], &mut answers, |_| Err::<&str, _>("no")).unwrap();
        assert_eq!(answers.0, 3);
    }
}
