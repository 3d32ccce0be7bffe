//! The workloads: shell scripts of busybox, one a file, in `xtask/oracle/workloads`.
//!
//! A script's first comment line is its summary; a line `# needs: PROGRAM` names a program of the host that
//! the guest must carry. It is called as `NAME prepare` before the recording
//! starts and as `NAME run` under the recorder; it must end by itself and always do the same work.

use std::fs;
use std::path::PathBuf;

use crate::error::{Error, on_file};
use crate::workspace;

/// A script that the guest runs while it records.
#[derive(Debug)]
pub struct Workload {
    /// Its name, which is its file's name without `.sh`.
    pub name: String,
    /// What the script does, in a sentence.
    pub summary: String,
    /// Programs of the host that it runs.
    pub needs: Vec<String>,
}

impl Workload {
    /// Folder that the scripts lie in.
    pub fn folder() -> PathBuf {
        workspace::root().join("xtask/oracle/workloads")
    }

    fn read(name: &str, script: &str) -> Workload {
        let comments = || script.lines().filter_map(|line| line.strip_prefix("# "));
        Workload {
            name: name.to_owned(),
            summary: comments().next().unwrap_or_default().to_owned(),
            needs: comments().filter_map(|line| line.strip_prefix("needs: ")).map(str::to_owned).collect(),
        }
    }

    /// Every workload, in the order of names.
    pub fn all() -> Result<Vec<Workload>, Error> {
        let folder = Workload::folder();
        let mut workloads = Vec::new();
        for entry in fs::read_dir(&folder).map_err(on_file("read", &folder))? {
            let path = entry.map_err(on_file("read", &folder))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".sh")) else {
                continue;
            };
            let script = fs::read_to_string(&path).map_err(on_file("read", &path))?;
            workloads.push(Workload::read(name, &script));
        }
        workloads.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(workloads)
    }

    /// The workload called `name`.
    ///
    /// # Errors
    /// [`Error::Usage`], naming those that exist.
    pub fn find(name: &str) -> Result<Workload, Error> {
        let all = Workload::all()?;
        let names: Vec<String> = all.iter().map(|workload| workload.name.clone()).collect();
        all.into_iter()
            .find(|workload| workload.name == name)
            .ok_or_else(|| Error::Usage(format!("there is no workload `{name}`; there are: {}", names.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::command;

    #[test]
    fn every_workload_has_a_summary() {
        let all = Workload::all().unwrap();
        assert!(all.iter().any(|workload| workload.name == "calm"));
        for workload in all {
            assert!(!workload.summary.is_empty(), "{}", workload.name);
        }
    }

    #[test]
    fn needs_are_read_from_the_comments() {
        let workload = Workload::read("x", "#!/bin/sh\n# Does x\n# needs: stress-ng\nrun() { :; }\n");
        assert_eq!(workload.summary, "Does x");
        assert_eq!(workload.needs, ["stress-ng"]);
    }

    #[test]
    fn every_script_of_the_guest_parses() {
        let mut scripts = vec![workspace::root().join("xtask/oracle/init.sh")];
        scripts.extend(
            Workload::all().unwrap().iter().map(|workload| Workload::folder().join(format!("{}.sh", workload.name))),
        );
        for script in scripts {
            command::output(Command::new("sh").arg("-n").arg(script)).unwrap();
        }
        assert!(command::output(Command::new("sh").args(["-n", "-c", "if"])).is_err());
    }

    #[test]
    fn unknown_workload_names_the_known_ones() {
        let sentence = Workload::find("clam").unwrap_err().to_string();
        assert!(sentence.contains("`clam`") && sentence.contains("calm"), "{sentence}");
    }
}
