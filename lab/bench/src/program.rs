//! Programs with other projects' allocators, queried over a pipe: one line of input, one line of output.
//!
//! These packages take long to build, so they are outside the workspace, in `dev/`. They are looked for where their
//! build puts them, unless an option or an environment variable gives another path. The times are measured inside the
//! programs, so they do not include the pipe.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;

use super::report::Note;
use crate::error::Error;

/// A kind of program: its name, its path, and the command that builds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Contents of the program, for messages.
    pub holds: &'static str,
    /// Name of the program.
    pub name: &'static str,
    /// Command-line option for its path.
    pub option: &'static str,
    /// Environment variable for its path.
    pub variable: &'static str,
    /// Path after the documented build, relative to the current folder.
    pub built: &'static str,
    /// Command that builds it.
    pub how: &'static str,
}

/// A program that was found.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    kind: Kind,
    path: PathBuf,
}

impl Kind {
    /// Returns the note for a report from which the program is missing.
    pub(crate) fn how_to_build(self) -> Note {
        let title = format!("{} are missing; this command builds them", self.holds);
        Note { title, lines: vec![self.how.to_owned()] }
    }

    /// Returns the program at `given`, at the path in the environment variable, or at the path of the documented build.
    ///
    /// # Errors
    /// When a path was given and there is no program.
    pub(crate) fn find(self, given: Option<&Path>) -> Result<Option<Program>, Error> {
        let named = given.map(Path::to_path_buf).or_else(|| std::env::var_os(self.variable).map(PathBuf::from));
        let is_named = named.is_some();
        let path = named.unwrap_or_else(|| PathBuf::from(self.built));
        match path.is_file() {
            true => Ok(Some(Program { kind: self, path })),
            false if is_named => Err(Error::Input(format!(
                "there is no program {}; give the path of the {} that `{}` builds",
                path.display(),
                self.name,
                self.how
            ))),
            false => Ok(None),
        }
    }
}

impl Program {
    /// Returns the program's list of its contents.
    ///
    /// # Errors
    /// When it cannot be run, or its output is no such list.
    pub(crate) fn list<T: DeserializeOwned>(&self) -> Result<Vec<T>, Error> {
        let output = Command::new(&self.path).arg("--list").stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| self.broken(&error.to_string()))?;
        serde_json::from_slice(&output.stdout).map_err(|error| self.broken(&format!("its list is invalid: {error}")))
    }

    /// Starts the program as a server.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn serve(&self) -> Result<Server, Error> {
        let started = Command::new(&self.path)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| self.broken(&error.to_string()));
        let mut child = started?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        Ok(Server { program: self.clone(), child, questions, answers })
    }

    /// Returns the error for a program that cannot be used.
    pub(crate) fn broken(&self, reason: &str) -> Error {
        Error::Input(format!(
            "{} cannot be measured: {reason}; build it again, or give another path with {}",
            self.path.display(),
            self.kind.option
        ))
    }
}

/// The program while it serves. Dropping this closes its standard input, which ends the program.
pub(crate) struct Server {
    program: Program,
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Server {
    /// Sends one line and returns the part of the answer that follows `OK`.
    ///
    /// # Errors
    /// When the answer does not begin with `OK`, or there is none.
    pub(crate) fn ask(&mut self, question: &str) -> Result<String, Error> {
        let mut answer = String::new();
        let questions = self.questions.as_mut().expect("the input is open until the server is dropped");
        let result = writeln!(questions, "{question}").and_then(|()| self.answers.read_line(&mut answer));
        match result {
            Ok(0) => Err(self.program.broken("it ended early")),
            Ok(_) => words_after_ok(&answer).map(str::to_owned).ok_or_else(|| {
                self.program.broken(&format!("it answered `{question}` with `{}`", answer.trim_end().escape_debug()))
            }),
            Err(error) => Err(self.program.broken(&error.to_string())),
        }
    }

    /// Sends one line and returns the `count` numbers of the answer, none of them zero.
    ///
    /// # Errors
    /// As [`ask`](Self::ask), and when the answer does not consist of `count` numbers above zero.
    pub(crate) fn ask_numbers(&mut self, question: &str, count: usize) -> Result<Vec<u64>, Error> {
        let answer = self.ask(question)?;
        numbers(&answer, count)
            .ok_or_else(|| self.program.broken(&format!("it answered `{question}` with `OK {answer}`")))
    }
}

fn words_after_ok(answer: &str) -> Option<&str> {
    let words = answer.trim_end().strip_prefix("OK")?;
    if words.is_empty() { Some(words) } else { words.strip_prefix(' ') }
}

fn numbers(words: &str, count: usize) -> Option<Vec<u64>> {
    let numbers: Vec<u64> = words.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    (numbers.len() == count && !numbers.contains(&0)).then_some(numbers)
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.questions.take());
        // The exit status is ignored: it adds nothing to the answers.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_two_numbers(answer: &str) -> Option<Vec<u64>> {
        words_after_ok(answer).and_then(|words| numbers(words, 2))
    }

    #[test]
    fn peer_answers_are_parsed_or_rejected() {
        assert_eq!(read_two_numbers("OK 1200 100\n"), Some(vec![1200, 100]));
        for answer in
            ["OK", "OK 5", "OK 5 0", "OK 0 5", "OK 5 5 5", "OK -5 5", "ERR no such case", "ok 5 5", "", "OK5 5"]
        {
            assert_eq!(read_two_numbers(answer), None, "{answer}");
        }
        assert_eq!(words_after_ok("OK\n"), Some(""));
    }
}
