//! The two commands at the top of the README, read from the README itself.
//!
//! New users type exactly these commands, so they are not repeated here. A change of the README changes the commands
//! that the gate runs, and a README with other or more commands fails.

use std::fs;
use std::process::Command;

use crate::error::{Error, on_file};
use crate::workspace::{self, cargo};

/// Commands in the first code block of the README.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Commands {
    compare: Vec<String>,
    tests: Vec<String>,
}

/// Reads the commands.
///
/// # Errors
/// Returns [`Error::Failed`] if the first code block of the README is not a comparison and a test command.
pub(crate) fn commands() -> Result<Commands, Error> {
    let path = workspace::root().join("README.md");
    let text = fs::read_to_string(&path).map_err(on_file("read", &path))?;
    parse(&text).ok_or_else(|| {
        Error::Failed(
            "the first code block of README.md must have exactly two lines, \
             `cargo run ... compare` and `cargo test ...`"
                .to_owned(),
        )
    })
}

impl Commands {
    /// Returns the comparison, the main purpose of the program, as a command.
    pub(crate) fn compare(&self) -> Command {
        with(&self.compare)
    }

    /// Returns the command that runs all tests.
    pub(crate) fn tests(&self) -> Command {
        with(&self.tests)
    }
}

fn with(arguments: &[String]) -> Command {
    let mut command = cargo();
    command.args(arguments);
    command
}

/// Parses the commands of the first code block. On each line, `#` starts a comment.
fn parse(text: &str) -> Option<Commands> {
    let block = text.lines().skip_while(|line| !line.starts_with("```")).skip(1).take_while(|line| *line != "```");
    let lines: Vec<Vec<String>> = block.map(parse_words).filter(|words| !words.is_empty()).collect();
    let [compare, tests] = lines.as_slice() else { return None };
    let compare = cargo_arguments(compare, "run").filter(|words| words.iter().any(|word| word == "compare"))?;
    Some(Commands { compare, tests: cargo_arguments(tests, "test")? })
}

/// Returns the words of a shell line without its comment.
fn parse_words(line: &str) -> Vec<String> {
    line.split('#').next().unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Returns the arguments of cargo in a command, if they start with the subcommand `task`.
fn cargo_arguments(words: &[String], task: &str) -> Option<Vec<String>> {
    (words.len() > 1 && words[0] == "cargo" && words[1] == task).then(|| words[1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_from_the_first_block() {
        let text = "# X\n\n```sh\ncargo run --release -- compare   # the main job\ncargo test --workspace\n```\n";
        let commands = parse(text).unwrap();
        assert_eq!(commands.compare, ["run", "--release", "--", "compare"]);
        assert_eq!(commands.tests, ["test", "--workspace"]);
    }

    #[test]
    fn other_blocks_are_rejected() {
        for block in
            ["", "make\n", "cargo test\ncargo run -- compare\n", "cargo run -- compare\ncargo test\ncargo doc\n"]
        {
            assert_eq!(parse(&format!("# X\n\n```sh\n{block}```\n")), None, "{block}");
        }
    }
}
