//! The tutorial: its blocks for a shell are run in one shell, one after the other, as by somebody who copies them.
//!
//! A block ` ```sh ` is run. ` ```sh root ` is run where there are root and tracefs. The lines of a block ` ```text `
//! that follows must be among what was printed, in their order; `...` stands for lines that are left out. Blocks of
//! other languages are for readers alone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::blocks::{self, Block};
use crate::command;
use crate::error::{Error, on_file};
use crate::workspace;

/// The page.
const PAGE: &str = "docs/tutorial.md";
/// Where a kernel says what its allocator does, for those who may ask.
const TRACEFS: &str = "/sys/kernel/tracing/instances";
/// What the shell prints between steps; no command prints it.
const MARK: char = '\u{1e}';
/// As root, `sudo` has nothing to do, and need not be there.
const BEFORE: &str = "set -eu; command -v sudo >/dev/null || sudo() { \"$@\"; }; set -x";

/// What a reader types at a time, and what he is shown then.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    commands: String,
    shown: String,
    needs_root: bool,
}

/// Runs the tutorial at the root of the workspace; its first step builds what the others use.
///
/// # Errors
/// [`Error::Command`] with the command that failed; [`Error::Failed`] with a line that was not printed.
pub(crate) fn run() -> Result<(), Error> {
    let path = workspace::root().join(PAGE);
    let steps = steps(&fs::read_to_string(&path).map_err(on_file("read", &path))?);
    follow(&steps, workspace::root(), may_record())
}

/// Runs the steps in `folder`, but for those that need a right that there is not.
fn follow(steps: &[Step], folder: &Path, may_record: bool) -> Result<(), Error> {
    let (now, left_out): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(|step| may_record || !step.needs_root);
    if now.iter().all(|step| step.needs_root) {
        return Err(Error::Failed(format!("{PAGE} has nothing that can be run")));
    }
    let commands = now.iter().map(|step| format!("printf '{MARK}'\n{}", step.commands));
    let script = commands.fold(BEFORE.to_owned(), |script, step| format!("{script}\n{step}"));
    let printed = command::text(Command::new("sh").args(["-c", &script, PAGE]).current_dir(folder));
    let printed = printed.map_err(renamed)?;
    for (step, printed) in now.iter().zip(printed.split(MARK).skip(1)) {
        if let Some(line) = missing(&step.shown, printed) {
            let command = step.commands.trim();
            return Err(Error::Failed(format!("{PAGE} shows `{line}`, which `{command}` does not print")));
        }
        step.commands.lines().for_each(|line| println!("  {line}"));
    }
    for step in left_out {
        println!("left out: `{}`, which needs root and {TRACEFS}", step.commands.trim());
    }
    Ok(())
}

/// The steps of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_after_step = false;
    for Block { info, text } in blocks::parse(page) {
        let needs_root = info == "sh root";
        match steps.last_mut() {
            Some(last) if info == "text" && is_after_step => last.shown = text,
            _ if info == "sh" || needs_root => steps.push(Step { commands: text, shown: String::new(), needs_root }),
            _ => {}
        }
        is_after_step = info == "sh";
    }
    steps
}

/// The first line of `shown` that is not in `printed` behind the one before it.
fn missing<'s>(shown: &'s str, printed: &str) -> Option<&'s str> {
    let mut printed = printed.lines().map(str::trim_end);
    let mut wanted = shown.lines().map(str::trim_end).filter(|line| !line.is_empty() && *line != "...");
    wanted.find(|line| !printed.any(|other| other == *line))
}

/// The whole script is no command that a person would know again.
fn renamed(error: Error) -> Error {
    match error {
        Error::Command { outcome, .. } => Error::Command { command: PAGE.to_owned(), outcome },
        other => other,
    }
}

/// Whether this process may record.
fn may_record() -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    is_root && Path::new(TRACEFS).is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_A_PAGE: &str = "```sh\nx=1\necho a; echo b\n```\n\n```text\na\n...\nb\n```\n\n```sh root\nexit 1\n```\n\n\
                             ```console\nexit 1\n```\n\n```sh\necho $x\n```\n\n```text\n1\n```\n";

    fn follow_here(page: &str, may_record: bool) -> Result<(), String> {
        let folder = tempfile::tempdir().expect("a folder");
        follow(&steps(page), folder.path(), may_record).map_err(|error| error.to_string())
    }

    #[test]
    fn steps_are_run_in_one_shell_but_for_those_that_need_root() {
        assert_eq!(follow_here(OF_A_PAGE, false), Ok(()));
        assert!(follow_here(OF_A_PAGE, true).is_err_and(|error| error.contains("exit 1")));
    }

    fn follow_and_fail(page: &str) -> String {
        follow_here(page, false).expect_err("it is wrong")
    }

    #[test]
    fn planted_mistakes_of_a_page_are_found() {
        let command = follow_and_fail(&OF_A_PAGE.replace("echo $x", "freehold-no-such-program"));
        assert!(command.starts_with(&format!("`{PAGE}`")) && command.contains("freehold-no-such-program"), "{command}");
        let shown = follow_and_fail(&OF_A_PAGE.replace("\n1\n", "\n2\n"));
        assert!(shown.contains("shows `2`") && shown.contains("echo $x"), "{shown}");
        let order = follow_and_fail(&OF_A_PAGE.replace("echo a; echo b", "echo b; echo a"));
        assert!(order.contains("shows `b`"), "{order}");
        assert!(follow_and_fail("# Nothing\n").contains("nothing that can be run"));
    }
}
