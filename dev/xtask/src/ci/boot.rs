//! The stage that boots kernels: one recording through the laboratory, ways in which a guest fails, and verdicts where
//! the truth is known.
//!
//! The truth is known of a kernel against itself, of per-CPU lists that are made small, and of huge pages that are
//! switched off. Boots are few, so that all of them end within minutes; how far the engine is from kernels is `cargo
//! xtask oracle`'s to say.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use super::smoke;
use crate::command;
use crate::error::{Error, on_file};
use crate::stage::Outcome;
use crate::workspace;

/// The guest of most commands here.
const GUEST: [&str; 4] = ["--memory", "512M", "--workload", "small"];
/// The kernel.
const KERNEL: &str = "6.12";
/// A workload in which flight recorders have something to write, and the seconds after which they should have.
const FLIGHT: &str = "dev/xtask/src/ci/flight.sh";
const FLIGHT_TIME: &str = "300";

/// What boots take of this machine.
const PROGRAMS: [&str; 3] = ["qemu-system-x86_64", "busybox", "setpriv"];

/// A way in which a guest fails: options, and what the sentence holds.
const FAILURES: [(&[&str], &str); 2] =
    [(&["--append", "rdinit=/nothing"], "panicked"), (&["--setting", "vm.swappiness=9999"], "refuses to set")];

/// A comparison whose truth is known.
struct KnownComparison {
    name: &'static str,
    runs: &'static str,
    setting_b: Option<&'static str>,
    /// The measure that must differ, and the verdict; nothing where none may.
    truth: Option<(&'static str, &'static str)>,
}

const KNOWN: [KnownComparison; 3] = [
    KnownComparison { name: "same", runs: "3", setting_b: None, truth: None },
    KnownComparison {
        name: "small-lists",
        // Without the setting, drains of so small a load spread by a third from boot to boot.
        runs: "6",
        setting_b: Some("vm.percpu_pagelist_high_fraction=1000"),
        truth: Some(("blocks drained to the zone", "worse")),
    },
    KnownComparison {
        name: "no-huge-pages",
        runs: "3",
        setting_b: Some("transparent_hugepage.enabled=never"),
        truth: Some(("thp_fault_alloc", "worse")),
    },
];

/// Boots, unless this machine cannot.
pub(crate) fn run() -> Result<Outcome, Error> {
    let lab = Lab::new()?;
    if let Some(reason) = lab.cannot_boot()? {
        return Ok(Outcome::Skipped(reason));
    }
    lab.passes()?;
    FAILURES.iter().try_for_each(|(options, words)| lab.fails(options, words))?;
    KNOWN.iter().try_for_each(|known| lab.knows(known))?;
    Ok(Outcome::Passed)
}

/// Flight recorders in a guest notice what happens there, unless this machine cannot boot.
///
/// # Errors
/// The guest's.
pub(crate) fn flights() -> Result<Outcome, Error> {
    let lab = Lab::new()?;
    if let Some(reason) = lab.cannot_boot()? {
        return Ok(Outcome::Skipped(reason));
    }
    let mut boot = lab.command("boot");
    boot.args(["--kernel", KERNEL, "--memory", "256M", "--workload", FLIGHT, "--timeout", FLIGHT_TIME, "--out"]);
    command::run(boot.arg(lab.folder.join("flight.parquet"))).map(|()| Outcome::Passed)
}

struct Lab {
    freehold: PathBuf,
    folder: PathBuf,
}

impl Lab {
    fn new() -> Result<Lab, Error> {
        let lab = Lab { freehold: smoke::freehold()?, folder: workspace::target().join("boot") };
        // What is there would not be booted again.
        if lab.folder.is_dir() {
            fs::remove_dir_all(&lab.folder).map_err(on_file("remove", &lab.folder))?;
        }
        fs::create_dir_all(&lab.folder).map_err(on_file("create", &lab.folder))?;
        Ok(lab)
    }

    /// Why this machine cannot boot: a program is missing, or no kernel can be fetched.
    fn cannot_boot(&self) -> Result<Option<String>, Error> {
        if let Some(program) = PROGRAMS.iter().find(|program| Command::new(program).arg("--help").output().is_err()) {
            return Ok(Some(format!("`{program}` is missing")));
        }
        let output = self.output(self.command("boot").args(["--kernel", KERNEL, "--fetch"]))?;
        Ok((!output.status.success()).then(|| last_line(&output)))
    }

    /// One boot, whose recording goes through the laboratory at once.
    fn passes(&self) -> Result<(), Error> {
        let out = self.folder.join("calm.parquet");
        command::run(self.command("boot").args(["--kernel", KERNEL, "--memory", "512M", "--out"]).arg(&out))?;
        command::run(self.command("inspect").arg(&out))?;
        command::run(self.command("replay").args(["--policy", "linux-6.12"]).arg(&out))
    }

    /// The guest fails in one sentence, and leaves nothing.
    fn fails(&self, options: &[&str], words: &str) -> Result<(), Error> {
        let out = self.folder.join("none.parquet");
        let mut boot = self.command("boot");
        boot.args(["--kernel", KERNEL, "--quiet"]).args(GUEST).args(options).arg("--out").arg(&out);
        let output = self.output(&mut boot)?;
        let is_right = output.status.code() == Some(1) && last_line(&output).contains(words) && !out.exists();
        if is_right {
            return Ok(());
        }
        let line = command::line(&boot);
        Err(Error::Failed(format!("`{line}` ended with {}: {}", output.status, last_line(&output))))
    }

    /// The verdict is the truth. At 95 % it may miss it once in twenty times; so who misses is asked once more, in new
    /// boots.
    fn knows(&self, known: &KnownComparison) -> Result<(), Error> {
        let first = self.is_told(known, known.name);
        first.or_else(|_| self.is_told(known, &format!("{}-again", known.name)))
    }

    fn is_told(&self, known: &KnownComparison, folder: &str) -> Result<(), Error> {
        let folder = self.folder.join(folder);
        let mut diff = self.command("diff");
        diff.args(["--kernels", KERNEL, KERNEL, "--runs", known.runs]).args(GUEST);
        diff.args(known.setting_b.iter().flat_map(|setting| ["--setting-b", setting]));
        diff.arg("--out").arg(&folder).args(["--json", "-"]);
        let text = command::text(&mut diff)?;
        let told: Value = serde_json::from_str(&text).map_err(|error| Error::Failed(format!("no JSON: {error}")))?;
        judge(&told, known.truth).map_err(|sentence| Error::Failed(format!("{}: {sentence}", known.name)))
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.freehold);
        command.arg(name).current_dir(workspace::root());
        command
    }

    fn output(&self, command: &mut Command) -> Result<Output, Error> {
        let output = command.output();
        output.map_err(|error| Error::Failed(format!("{} could not be started: {error}", self.freehold.display())))
    }
}

/// The last line of what a command said.
fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

/// Whether the measure that must differ does so as it must; without one, whether none is said to differ.
fn judge(report: &Value, truth: Option<(&str, &str)>) -> Result<(), String> {
    let measures = report["measures"].as_array().ok_or("there are no measures")?;
    let Some((name, expected)) = truth else {
        let wrong =
            measures.iter().find(|measure| ["better", "worse", "neither"].contains(&verdict_of(measure).as_str()));
        return wrong.map_or(Ok(()), |measure| Err(format!("a kernel differs from itself in {}", measure["name"])));
    };
    let found = measures.iter().find(|measure| measure["name"] == name).map(verdict_of);
    match found {
        Some(found) if found == expected => Ok(()),
        found => Err(format!("{name} should be {expected}, and is {found:?}")),
    }
}

/// Returns the verdict about a measure.
fn verdict_of(measure: &Value) -> String {
    measure["verdict"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_with(verdict: &str) -> Value {
        serde_json::json!({"measures": [{"name": "x", "verdict": verdict}]})
    }

    #[test]
    fn a_wrong_verdict_is_found() {
        assert!(judge(&report_with("undecided"), None).is_ok() && judge(&report_with("no difference"), None).is_ok());
        assert!(judge(&report_with("worse"), None).is_err());
        assert!(judge(&report_with("worse"), Some(("x", "worse"))).is_ok());
        assert!(judge(&report_with("undecided"), Some(("x", "worse"))).is_err());
        assert!(judge(&report_with("worse"), Some(("y", "worse"))).is_err());
        assert!(judge(&serde_json::json!({}), None).is_err());
    }
}
