//! The tutorial: its shell blocks are run in one shell, one after the other, as if a reader copied them.
//!
//! A block ` ```sh ` is run. A block ` ```sh root ` is run if the process is root and tracefs exists. If a block
//! ` ```text ` directly follows a block ` ```sh `, its lines must be among the printed lines, in their order. A line
//! `...` in it represents lines that are left out. Blocks of other languages are ignored.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::blocks::{self, Block};
use crate::command;
use crate::error::{Error, on_file};
use crate::workspace;

/// Path of the page.
const PAGE: &str = "docs/tutorial.md";
/// Folder that exists if the kernel's tracefs is mounted; recording needs it.
const TRACEFS: &str = "/sys/kernel/tracing/instances";
/// Character that the shell prints between steps. No command prints it.
const MARK: char = '\u{1e}';
/// Start of the script. It defines `sudo` as a function if the command does not exist, because root does not need it.
const BEFORE: &str = "set -eu; command -v sudo >/dev/null || sudo() { \"$@\"; }; set -x";

/// Commands of one block, and the output that the page shows for them.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    commands: String,
    shown: String,
    needs_root: bool,
}

/// Runs the tutorial at the root of the workspace. Its first step builds the programs that the other steps use.
///
/// # Errors
/// Returns [`Error::Command`] with the command that failed, or [`Error::Failed`] with a line that was not printed.
pub(crate) fn run() -> Result<(), Error> {
    let path = workspace::root().join(PAGE);
    let steps = steps(&fs::read_to_string(&path).map_err(on_file("read", &path))?);
    follow(&steps, workspace::root(), may_record())
}

/// Runs the steps in `folder`, except those that need root if `may_record` is false.
fn follow(steps: &[Step], folder: &Path, may_record: bool) -> Result<(), Error> {
    let (now, left_out): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(|step| may_record || !step.needs_root);
    if now.iter().all(|step| step.needs_root) {
        return Err(Error::Failed(format!("{PAGE} has no commands that can be run without root")));
    }
    let commands = now.iter().map(|step| format!("printf '{MARK}'\n{}", step.commands));
    let script = commands.fold(BEFORE.to_owned(), |script, step| format!("{script}\n{step}"));
    let printed = command::text(Command::new("sh").args(["-c", &script, PAGE]).current_dir(folder));
    let printed = printed.map_err(renamed)?;
    for (step, printed) in now.iter().zip(printed.split(MARK).skip(1)) {
        if let Some(line) = missing(&step.shown, printed) {
            let command = step.commands.trim();
            return Err(Error::Failed(format!("{PAGE} shows `{line}`, but `{command}` does not print it")));
        }
        step.commands.lines().for_each(|line| println!("  {line}"));
    }
    for step in left_out {
        println!("skipped: `{}`, which needs root and {TRACEFS}", step.commands.trim());
    }
    Ok(())
}

/// Returns the steps of a page.
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

/// Returns the first line of `shown` that does not occur in `printed` after the preceding line of `shown`.
fn missing<'s>(shown: &'s str, printed: &str) -> Option<&'s str> {
    let mut printed = printed.lines().map(str::trim_end);
    let mut wanted = shown.lines().map(str::trim_end).filter(|line| !line.is_empty() && *line != "...");
    wanted.find(|line| !printed.any(|other| other == *line))
}

/// Replaces the command of an error by the page's name, because a reader would not recognise the whole script.
fn renamed(error: Error) -> Error {
    match error {
        Error::Command { outcome, .. } => Error::Command { command: PAGE.to_owned(), outcome },
        other => other,
    }
}

/// Returns whether this process may record.
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
    fn tutorial_steps_share_a_shell_and_skip_root_steps() {
        assert_eq!(follow_here(OF_A_PAGE, false), Ok(()));
        assert!(follow_here(OF_A_PAGE, true).is_err_and(|error| error.contains("exit 1")));
    }

    fn follow_and_fail(page: &str) -> String {
        follow_here(page, false).expect_err("the page is wrong")
    }

    #[test]
    fn planted_page_mistakes_are_found() {
        let command = follow_and_fail(&OF_A_PAGE.replace("echo $x", "freehold-no-such-program"));
        assert!(command.starts_with(&format!("`{PAGE}`")) && command.contains("freehold-no-such-program"), "{command}");
        let shown = follow_and_fail(&OF_A_PAGE.replace("\n1\n", "\n2\n"));
        assert!(shown.contains("shows `2`") && shown.contains("echo $x"), "{shown}");
        let order = follow_and_fail(&OF_A_PAGE.replace("echo a; echo b", "echo b; echo a"));
        assert!(order.contains("shows `b`"), "{order}");
        assert!(follow_and_fail("# Nothing\n").contains("no commands that can be run without root"));
    }
}
