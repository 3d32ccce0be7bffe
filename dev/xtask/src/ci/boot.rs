//! The stage that boots real kernels: one recording that passes through the laboratory, guests that fail, and
//! comparisons whose result is known.
//!
//! Three results are known: a kernel does not differ from itself, small per-CPU lists are drained more, and disabled
//! huge pages are not allocated. There are few boots, so that all of them end within minutes. `cargo xtask oracle`
//! measures how far the engine is from real kernels.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use super::smoke;
use crate::command;
use crate::error::{Error, on_file};
use crate::stage::Outcome;
use crate::workspace;

/// Options of the guest in most boots.
const GUEST: [&str; 4] = ["--memory", "512M", "--workload", "small"];
/// Version of the kernel.
const KERNEL: &str = "6.12";
/// Workload that triggers flight recorders, and the timeout of the boot in seconds.
const FLIGHT: &str = "dev/xtask/src/ci/flight.sh";
const FLIGHT_TIME: &str = "300";

/// Programs that a boot needs.
const PROGRAMS: [&str; 3] = ["qemu-system-x86_64", "busybox", "setpriv"];

/// Guests that fail: the options, and words that the error message must contain.
const FAILURES: [(&[&str], &str); 2] =
    [(&["--append", "rdinit=/nothing"], "panicked"), (&["--setting", "vm.swappiness=9999"], "refuses to set")];

/// Comparison whose result is known.
struct KnownComparison {
    name: &'static str,
    runs: &'static str,
    setting_b: Option<&'static str>,
    /// Measure that must differ and its verdict, or `None` if no measure may differ.
    truth: Option<(&'static str, &'static str)>,
}

const KNOWN: [KnownComparison; 3] = [
    KnownComparison { name: "same", runs: "3", setting_b: None, truth: None },
    KnownComparison {
        name: "small-lists",
        // Without the setting, the drains of such a small load vary by a third between boots.
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

/// Runs all boots, or skips the stage if this machine cannot boot.
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

/// Boots a guest in which flight recorders must notice events, or skips the stage if this machine cannot boot.
///
/// # Errors
/// Returns the error of the guest.
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
        // `freehold` does not repeat boots whose results exist.
        if lab.folder.is_dir() {
            fs::remove_dir_all(&lab.folder).map_err(on_file("remove", &lab.folder))?;
        }
        fs::create_dir_all(&lab.folder).map_err(on_file("create", &lab.folder))?;
        Ok(lab)
    }

    /// Returns the reason for which this machine cannot boot: a program is missing, or no kernel can be fetched.
    fn cannot_boot(&self) -> Result<Option<String>, Error> {
        if let Some(program) = PROGRAMS.iter().find(|program| Command::new(program).arg("--help").output().is_err()) {
            return Ok(Some(format!("`{program}` is not installed")));
        }
        let output = self.output(self.command("boot").args(["--kernel", KERNEL, "--fetch"]))?;
        Ok((!output.status.success()).then(|| last_line(&output)))
    }

    /// Boots once, then inspects and replays the recording.
    fn passes(&self) -> Result<(), Error> {
        let out = self.folder.join("calm.parquet");
        command::run(self.command("boot").args(["--kernel", KERNEL, "--memory", "512M", "--out"]).arg(&out))?;
        command::run(self.command("inspect").arg(&out))?;
        command::run(self.command("replay").args(["--policy", "linux-6.12"]).arg(&out))
    }

    /// Checks that a guest fails with one sentence that contains `words`, and leaves no file.
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

    /// Checks that the verdict is the known one. A verdict at 95 % confidence may be wrong once in twenty times, so a
    /// wrong one is repeated once with new boots.
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
        let told: Value =
            serde_json::from_str(&text).map_err(|error| Error::Failed(format!("the output is not JSON: {error}")))?;
        judge(&told, known.truth).map_err(|sentence| Error::Failed(format!("{}: {sentence}", known.name)))
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.freehold);
        command.arg(name).current_dir(workspace::root());
        command
    }

    fn output(&self, command: &mut Command) -> Result<Output, Error> {
        let output = command.output();
        output.map_err(|error| Error::Failed(format!("cannot start {}: {error}", self.freehold.display())))
    }
}

/// Returns the last line that a command printed on stderr.
fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

/// Checks that the measure in `truth` has the expected verdict. Without `truth`, checks that no measure is reported to
/// differ.
fn judge(report: &Value, truth: Option<(&str, &str)>) -> Result<(), String> {
    let measures = report["measures"].as_array().ok_or("the report has no measures")?;
    let Some((name, expected)) = truth else {
        let wrong =
            measures.iter().find(|measure| ["better", "worse", "changed"].contains(&verdict_of(measure).as_str()));
        return wrong.map_or(Ok(()), |measure| Err(format!("the same kernel differs in {}", measure["name"])));
    };
    let found = measures.iter().find(|measure| measure["name"] == name).map(verdict_of);
    match found {
        Some(found) if found == expected => Ok(()),
        found => Err(format!("{name} should be {expected}, but is {found:?}")),
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
    fn wrong_verdict_is_found() {
        assert!(judge(&report_with("undecided"), None).is_ok() && judge(&report_with("no difference"), None).is_ok());
        assert!(judge(&report_with("worse"), None).is_err());
        assert!(judge(&report_with("worse"), Some(("x", "worse"))).is_ok());
        assert!(judge(&report_with("undecided"), Some(("x", "worse"))).is_err());
        assert!(judge(&report_with("worse"), Some(("y", "worse"))).is_err());
        assert!(judge(&serde_json::json!({}), None).is_err());
    }
}
