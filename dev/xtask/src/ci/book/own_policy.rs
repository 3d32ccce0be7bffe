//! The page that explains how to add a policy: its edits are made in a copy, and its test must pass there.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::blocks;
use crate::command;
use crate::error::{Error, on_file};
use crate::workspace;

/// Path of the page.
const PAGE: &str = "docs/own-policy.md";
/// Files and folders of the workspace that the copy needs besides its manifest.
const NEEDED: [&str; 4] = ["engine/core/", "engine/policies/", "Cargo.lock", "rust-toolchain.toml"];
/// Packages of the copy.
const MEMBERS: [&str; 2] = ["engine/core", "engine/policies"];

/// Makes the page's edits in a copy, and runs the page's test there.
///
/// # Errors
/// Returns [`Error::Command`] if an edit does not apply or the test fails, and [`Error::Failed`] if there is not
/// exactly one test.
pub(crate) fn run() -> Result<(), Error> {
    let path = workspace::root().join(PAGE);
    let page = fs::read_to_string(&path).map_err(on_file("read", &path))?;
    let copy = tempfile::tempdir().map_err(on_file("create", &std::env::temp_dir()))?;
    fill(copy.path())?;
    apply(&page, copy.path())?;
    let mut test = workspace::cargo_here();
    test.args(["test", "--quiet", "--package", "freehold-policies", "--test", "own"]).current_dir(copy.path());
    // Only one small test runs, so optimising the engine would take longer than it saves.
    test.env("CARGO_TARGET_DIR", workspace::target().join("own-policy")).env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    let said = command::text(&mut test)?;
    if !said.contains("test result: ok. 1 passed") {
        return Err(Error::Failed(format!("{PAGE} must have exactly one test that passes: {}", said.trim())));
    }
    println!("  the policy of {PAGE} passes its test");
    Ok(())
}

/// Copies the needed files of the workspace into a folder.
fn fill(copy: &Path) -> Result<(), Error> {
    for file in workspace::files()? {
        if NEEDED.iter().any(|needed| file.starts_with(needed)) {
            let to = copy.join(&file);
            let folder = to.parent().unwrap_or(copy);
            fs::create_dir_all(folder).map_err(on_file("create", folder))?;
            fs::copy(workspace::root().join(&file), &to).map_err(on_file("write", &to))?;
        }
    }
    let manifest = copy.join("Cargo.toml");
    fs::write(&manifest, workspace::manifest_of(workspace::root(), &MEMBERS.map(str::to_owned))?)
        .map_err(on_file("write", &manifest))
}

/// Applies the edits of a page in a folder, one after the other.
fn apply(page: &str, folder: &Path) -> Result<(), Error> {
    let edits: Vec<_> = blocks::parse(page).into_iter().filter(|block| block.info == "diff").collect();
    if edits.is_empty() {
        return Err(Error::Failed(format!("{PAGE} has no edit (a block of `diff`)")));
    }
    for edit in edits {
        let file = folder.join("edit.diff");
        fs::write(&file, &edit.text).map_err(on_file("write", &file))?;
        // Inside a repository, `git apply` would take the paths relative to the repository's root and ignore those
        // outside this folder. The variable keeps git from searching for a repository above the folder.
        let mut git = Command::new("git");
        git.args(["apply", "edit.diff"]).current_dir(folder).env("GIT_CEILING_DIRECTORIES", folder.join(".."));
        command::output(&mut git)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_edit(old: &str) -> String {
        format!("```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-{old}\n+new\n```\n")
    }

    fn apply_to_file(page: &str) -> Result<String, Error> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("x"), "old\n").expect("a file");
        apply(page, folder.path()).map(|()| fs::read_to_string(folder.path().join("x")).expect("the file exists"))
    }

    #[test]
    fn edits_that_do_not_apply_are_found() {
        assert_eq!(apply_to_file(&make_edit("old")).expect("the edit applies"), "new\n");
        assert!(
            apply_to_file(&make_edit("odd"))
                .expect_err("the edit does not apply")
                .to_string()
                .contains("does not apply")
        );
        assert!(apply_to_file("# Nothing\n").expect_err("the page has no edit").to_string().contains("no edit"));
    }
}
