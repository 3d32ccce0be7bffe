//! Installation: builds every package, installs it in a clean root, uses it, upgrades it and removes it.
//!
//! A clean root is a folder that a program enters by `chroot`. One has nothing but the package; the other is a minimal
//! Debian without a toolchain ([`root`]). A trial that this machine cannot make is left out, with the reason. The stage
//! is then *skipped* and names the trials that ran, so that no missing trial counts as passed.

mod root;
mod source;
mod trials;

use crate::error::Error;
use crate::stage::Outcome;

/// Trial of one way to install.
struct Trial {
    /// Name of the way.
    name: &'static str,
    /// Function that makes the trial.
    run: fn() -> Result<Outcome, Error>,
}

static TRIALS: [Trial; 5] = [
    Trial { name: "crates", run: trials::crates },
    Trial { name: "static", run: trials::archive },
    Trial { name: "deb", run: trials::deb },
    Trial { name: "wheel", run: trials::wheel },
    Trial { name: "source", run: source::run },
];

/// Makes all trials.
///
/// # Errors
/// Returns an error that names the trials that failed, after all of them were made.
pub(crate) fn run() -> Result<Outcome, Error> {
    let (mut passed, mut left_out, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for trial in &TRIALS {
        println!("  {}", trial.name);
        match (trial.run)() {
            Ok(Outcome::Passed) => passed.push(trial.name),
            Ok(Outcome::Skipped(reason)) => {
                println!("  left out: {}: {reason}", trial.name);
                left_out.push(format!("{} ({reason})", trial.name));
            }
            Err(error) => {
                println!("  {}: {error}", trial.name);
                failed.push(trial.name);
            }
        }
    }
    summarize(&passed, &left_out, &failed)
}

fn summarize(passed: &[&str], left_out: &[String], failed: &[&str]) -> Result<Outcome, Error> {
    if !failed.is_empty() {
        return Err(Error::Failed(format!("these ways to install failed: {}", failed.join(", "))));
    }
    if left_out.is_empty() {
        return Ok(Outcome::Passed);
    }
    let passed = if passed.is_empty() { "none".to_owned() } else { passed.join(", ") };
    Ok(Outcome::Skipped(format!("left out: {}; passed: {passed}", left_out.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_that_was_left_out_is_never_passed() {
        assert_eq!(summarize(&["crates", "deb"], &[], &[]).unwrap(), Outcome::Passed);
        let left_out = ["static (no compiler)".to_owned()];
        let Outcome::Skipped(reason) = summarize(&["deb"], &left_out, &[]).unwrap() else { panic!("not skipped") };
        assert_eq!(reason, "left out: static (no compiler); passed: deb");
        assert!(summarize(&["deb"], &left_out, &["wheel"]).unwrap_err().to_string().contains("wheel"));
    }
}
