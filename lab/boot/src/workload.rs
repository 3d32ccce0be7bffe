//! Workloads: shell scripts that the guest runs.
//!
//! A script is called as `NAME prepare` before the recording starts, and as `NAME run` under the recorder. It must end
//! without intervention, and always do the same work. Its first comment line is its summary. A line `# needs: PROGRAM`
//! names a program of the host that the guest must carry; `# needs: module` means Freehold's kernel module. Some
//! scripts are bundled with this program; any other file can be used instead.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, on_file};
use crate::host;
use crate::tools::Program;

/// Bundled workloads: name and script.
const BUNDLED: [(&str, &str); 11] = [
    ("atomic", include_str!("../workloads/atomic.sh")),
    ("build", include_str!("../workloads/build.sh")),
    ("calm", include_str!("../workloads/calm.sh")),
    ("file-copy", include_str!("../workloads/file-copy.sh")),
    ("fork-storm", include_str!("../workloads/fork-storm.sh")),
    ("huge-pages", include_str!("../workloads/huge-pages.sh")),
    ("pressure", include_str!("../workloads/pressure.sh")),
    ("ranges", include_str!("../workloads/ranges.sh")),
    ("slab-churn", include_str!("../workloads/slab-churn.sh")),
    ("small", include_str!("../workloads/small.sh")),
    ("stress-ng", include_str!("../workloads/stress-ng.sh")),
];

/// Word for Freehold's kernel module in the `needs` line of a script.
const MODULE: &str = "module";

/// A script that the guest runs while it records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Name: the file name without `.sh`.
    pub name: String,
    /// Summary of the script in one sentence.
    pub summary: String,
    /// Programs of the host that the script runs.
    pub needs: Vec<String>,
    /// Whether the script makes requests with Freehold's kernel module.
    pub needs_module: bool,
    /// Text of the script.
    pub script: String,
}

impl Workload {
    /// Returns the bundled workloads.
    pub fn bundled() -> Vec<Workload> {
        BUNDLED.iter().map(|(name, script)| Workload::read(name, script)).collect()
    }

    /// Returns the bundled workload with this name, or else the script at this path.
    ///
    /// # Errors
    /// [`Error::Input`] with the available names if there is neither.
    pub fn find(name: &str) -> Result<Workload, Error> {
        if let Some((name, script)) = BUNDLED.iter().find(|(bundled, _)| *bundled == name) {
            return Ok(Workload::read(name, script));
        }
        let path = Path::new(name);
        if !path.is_file() {
            let names = BUNDLED.map(|(name, _)| name).join(", ");
            return Err(Error::Input(format!(
                "there is no workload `{name}`; give the path of a shell script, or one of {names}"
            )));
        }
        let script = fs::read_to_string(path).map_err(on_file("read", path))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Workload::read(&stem, &script))
    }

    /// Returns the programs of this machine that the script needs, with their names.
    ///
    /// # Errors
    /// [`Error::Missing`] for the first program that is not installed.
    pub fn programs(&self) -> Result<Vec<(&str, PathBuf)>, Error> {
        let found = self.needs.iter().map(|name| {
            let program = host::locate(name);
            program.map(|program| (name.as_str(), program)).ok_or_else(|| missing(name, &self.name))
        });
        found.collect()
    }

    /// Returns the programs of this machine that must be installed for this workload.
    pub fn required(&self) -> Vec<Program> {
        let named = self.needs.iter().map(|name| Program { name: name.clone().into(), package: package(name).into() });
        let for_module = Program::FOR_MODULE.into_iter().filter(|_| self.needs_module);
        named.chain(for_module).collect()
    }

    fn read(name: &str, script: &str) -> Workload {
        let comments: Vec<&str> = script.lines().filter_map(|line| line.strip_prefix("# ")).collect();
        let needs = comments.iter().filter_map(|line| line.strip_prefix("needs: ")).flat_map(str::split_whitespace);
        let (modules, programs) = needs.map(str::to_owned).partition::<Vec<_>, _>(|word| word == MODULE);
        Workload {
            name: name.to_owned(),
            summary: comments.first().copied().unwrap_or_default().to_owned(),
            needs: programs,
            needs_module: !modules.is_empty(),
            script: script.to_owned(),
        }
    }
}

/// Returns the Debian package of a program. Most packages have the name of their program.
fn package(program: &str) -> String {
    match program {
        "cc1" => "gcc",
        "as" | "ld" => "binutils",
        other => other,
    }
    .to_owned()
}

fn missing(program: &str, workload: &str) -> Error {
    Error::Missing(format!(
        "the workload {workload} needs `{program}`, which is copied from this machine; install its Debian package"
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use super::*;
    use crate::host;

    #[test]
    fn bundled_workloads_have_a_summary_and_both_parts() {
        for workload in Workload::bundled() {
            assert!(!workload.summary.is_empty(), "{}", workload.name);
            assert!(workload.script.contains("prepare)") && workload.script.contains("run)"), "{}", workload.name);
        }
    }

    #[test]
    fn workload_needs_are_read_from_comments() {
        let workload = Workload::read("x", "#!/bin/sh\n# Does x\n# needs: gcc as\nrun() { :; }\n");
        assert_eq!(workload.summary, "Does x");
        assert_eq!((workload.needs.join(" ").as_str(), workload.needs_module), ("gcc as", false));
        assert!(Workload::read("x", "# Does x\n# needs: module\n").needs_module);
    }

    #[test]
    fn guest_scripts_are_valid_shell() {
        let init = include_str!("../guest/init.sh");
        for script in BUNDLED.iter().map(|(_, script)| *script).chain([init]) {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(script.as_bytes()).unwrap();
            host::output(Command::new("sh").arg("-n").arg(file.path())).unwrap();
        }
    }

    #[test]
    fn custom_script_is_named_after_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.sh");
        fs::write(&path, "# Mine\n").unwrap();
        let workload = Workload::find(path.to_str().unwrap()).unwrap();
        assert_eq!((workload.name.as_str(), workload.summary.as_str()), ("mine", "Mine"));
    }

    #[test]
    fn unknown_workload_error_lists_known_workloads() {
        let sentence = Workload::find("clam").unwrap_err().to_string();
        assert!(sentence.contains("`clam`") && sentence.contains("calm"), "{sentence}");
    }
}
