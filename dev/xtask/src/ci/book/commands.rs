//! Commands on the pages that the gate does not run, because they take hours or need a recording of the reader.
//!
//! Each line `$ freehold ...` of a block ` ```console ` must name an existing command and existing options. To check
//! this, the command is run with `--help` appended, which is valid only if the arguments before it are. Each policy in
//! such a line must exist, so it is replayed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::blocks;
use crate::command;
use crate::error::{Error, on_file};
use crate::workspace;

/// Recording that is replayed under each policy: the smallest bundled recording, of a calm machine.
const RECORDING: &str = "recordings/oracle-calm.parquet";
/// Options whose values are policies.
const POLICIES: [&str; 3] = ["--a", "--b", "--policy"];

/// Checks the commands of all pages.
///
/// # Errors
/// Returns [`Error::Command`] for the first command or policy that does not exist.
pub(crate) fn run(freehold: &Path) -> Result<(), Error> {
    let mut lines = BTreeSet::new();
    for file in workspace::files()? {
        if file.starts_with("docs") && file.extension().is_some_and(|ending| ending == "md") {
            let path = workspace::root().join(&file);
            lines.extend(commands_on(&fs::read_to_string(&path).map_err(on_file("read", &path))?));
        }
    }
    for line in &lines {
        command::output(Command::new(freehold).args(line).arg("--help"))?;
    }
    let policies: BTreeSet<&str> = lines.iter().flat_map(|line| policies(line)).collect();
    for policy in &policies {
        let mut replay = Command::new(freehold);
        command::output(replay.args(["replay", RECORDING, "--policy", policy]).current_dir(workspace::root()))?;
    }
    println!("  {} other commands and {} policies of the pages are valid", lines.len(), policies.len());
    Ok(())
}

/// Returns the arguments of the commands on a page, without the commands that they record.
fn commands_on(page: &str) -> Vec<Vec<String>> {
    let blocks = blocks::parse(page).into_iter().filter(|block| block.info == "console");
    blocks.flat_map(|block| block.text.lines().filter_map(parse_arguments).collect::<Vec<_>>()).collect()
}

/// Returns the arguments of `freehold` on a typed line, without those of a program that it runs.
fn parse_arguments(line: &str) -> Option<Vec<String>> {
    let typed = line.strip_prefix("$ ")?;
    let command = typed.strip_prefix("sudo ").unwrap_or(typed).strip_prefix("freehold ")?;
    Some(command.split_whitespace().take_while(|word| *word != "--").map(str::to_owned).collect())
}

/// Returns the policies among the arguments of a command.
fn policies(arguments: &[String]) -> impl Iterator<Item = &str> {
    arguments.windows(2).filter(|pair| POLICIES.contains(&pair[0].as_str())).map(|pair| pair[1].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_policies_are_parsed_from_consoles() {
        let page = "```console\n$ sudo freehold record -- freehold --b x\nsome output\n$ cargo test\n\
                    $ freehold compare my.parquet --b linux-6.12,pcp=merge --cpus 8 --b freehold\n```\n\n\
                    ```text\n$ freehold gone\n```\n";
        let lines = commands_on(page);
        let compare = "compare my.parquet --b linux-6.12,pcp=merge --cpus 8 --b freehold";
        assert_eq!(lines.iter().map(|line| line.join(" ")).collect::<Vec<_>>(), ["record", compare]);
        assert_eq!(policies(&lines[1]).collect::<Vec<_>>(), ["linux-6.12,pcp=merge", "freehold"]);
    }
}
