//! Programs with other people's allocators, asked over a pipe: a line in, a line out.
//!
//! They are packages that take their time to build, so they live outside the workspace, in `dev/`, and are found
//! where building them puts them, unless somebody says otherwise. Times are measured inside of them, so the pipe does
//! not count.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;

use super::report::Note;
use crate::error::Error;

/// A kind of program: what it is called, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// What is in it.
    pub holds: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The option that says where it is.
    pub option: &'static str,
    /// The environment variable that says where it is.
    pub variable: &'static str,
    /// Where it is when it was built as documented, below the current folder.
    pub built: &'static str,
    /// How it is built.
    pub how: &'static str,
}

/// A program that is there.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    kind: Kind,
    path: PathBuf,
}

impl Kind {
    /// What to say when the program is not there.
    pub(crate) fn how_to_build(self) -> Note {
        let title = format!("{} are not built; the next run has them if you run", self.holds);
        Note { title, lines: vec![self.how.to_owned()] }
    }

    /// The program at `given`, at the place that the environment names, or where building puts it.
    ///
    /// # Errors
    /// When it was named and is not there.
    pub(crate) fn find(self, given: Option<&Path>) -> Result<Option<Program>, Error> {
        let named = given.map(Path::to_path_buf).or_else(|| std::env::var_os(self.variable).map(PathBuf::from));
        let is_named = named.is_some();
        let path = named.unwrap_or_else(|| PathBuf::from(self.built));
        match path.is_file() {
            true => Ok(Some(Program { kind: self, path })),
            false if is_named => Err(Error::Input(format!(
                "there is no program {}; name the {} that `{}` made",
                path.display(),
                self.name,
                self.how
            ))),
            false => Ok(None),
        }
    }
}

impl Program {
    /// What it says that it has.
    ///
    /// # Errors
    /// When it cannot be run, or says something else.
    pub(crate) fn list<T: DeserializeOwned>(&self) -> Result<Vec<T>, Error> {
        let output = Command::new(&self.path).arg("--list").stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| self.broken(&error.to_string()))?;
        serde_json::from_slice(&output.stdout).map_err(|error| self.broken(&format!("its list is not one: {error}")))
    }

    /// Starts it.
    ///
    /// # Errors
    /// When that fails.
    pub(crate) fn serve(&self) -> Result<Server, Error> {
        let started = Command::new(&self.path)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| self.broken(&error.to_string()));
        let mut child = started?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("stdout was asked to be a pipe"));
        Ok(Server { program: self.clone(), child, questions, answers })
    }

    /// Why it is of no use.
    pub(crate) fn broken(&self, reason: &str) -> Error {
        Error::Input(format!(
            "{} cannot be measured: {reason}; build it again, or point {} elsewhere",
            self.path.display(),
            self.kind.option
        ))
    }
}

/// The program while it serves. Dropping it closes its input, at which it ends.
pub(crate) struct Server {
    program: Program,
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Server {
    /// The answer to one line: what follows `OK`.
    ///
    /// # Errors
    /// When it is no such answer, or there is none.
    pub(crate) fn ask(&mut self, question: &str) -> Result<String, Error> {
        let mut answer = String::new();
        let questions = self.questions.as_mut().expect("the input is open until the end");
        let asked = writeln!(questions, "{question}").and_then(|()| self.answers.read_line(&mut answer));
        match asked {
            Ok(0) => Err(self.program.broken("it ended too early")),
            Ok(_) => words_after_ok(&answer).map(str::to_owned).ok_or_else(|| {
                self.program.broken(&format!("it answers `{question}` by `{}`", answer.trim_end().escape_debug()))
            }),
            Err(error) => Err(self.program.broken(&error.to_string())),
        }
    }

    /// The numbers that answer a line, none of them zero.
    ///
    /// # Errors
    /// As [`ask`](Self::ask), and when there are not so many.
    pub(crate) fn ask_numbers(&mut self, question: &str, count: usize) -> Result<Vec<u64>, Error> {
        let answer = self.ask(question)?;
        numbers(&answer, count).ok_or_else(|| self.program.broken(&format!("it answers `{question}` by `OK {answer}`")))
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
        // Its exit status says nothing that its answers did not.
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
    fn answers_are_read_or_refused() {
        assert_eq!(read_two_numbers("OK 1200 100\n"), Some(vec![1200, 100]));
        for answer in
            ["OK", "OK 5", "OK 5 0", "OK 0 5", "OK 5 5 5", "OK -5 5", "ERR no such case", "ok 5 5", "", "OK5 5"]
        {
            assert_eq!(read_two_numbers(answer), None, "{answer}");
        }
        assert_eq!(words_after_ok("OK\n"), Some(""));
    }
}
