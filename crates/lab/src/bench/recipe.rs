//! The recipe: everything that somebody would need to know to make the same measurement again.

use std::fs;

use rustix::system::uname;
use serde::Serialize;

use super::{Settings, clock};
use crate::registry::{self, NamedPolicy};

/// How results came about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recipe {
    /// The command that measured it.
    pub command: String,
    /// Version of this program.
    pub freehold: &'static str,
    /// The commit it was built from, if that was in a repository.
    pub commit: Option<&'static str>,
    /// `release` or `debug`.
    pub build: &'static str,
    /// The processor's name.
    pub cpu_model: String,
    /// Version of the running kernel, without what its builder added.
    pub kernel_release: String,
    /// The CPU that samples were pinned to.
    pub pinned_to_cpu: u16,
    /// The CPU of the second thread, where a case has one.
    pub partner_cpu: Option<u16>,
    /// What was read as time.
    pub clock: &'static str,
    /// Policies that took part.
    pub policies: Vec<PolicyEntry>,
    /// Largest difference that counts as none, in percent.
    pub margin_percent: f64,
    /// Most runs of a comparison.
    pub runs_max: usize,
    /// Most seconds of a comparison.
    pub seconds_max: f64,
    /// Seed of the order of samples and of the bootstrap.
    pub seed: u64,
}

/// A policy in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyEntry {
    /// As it was asked for; numbers that were given stand here.
    pub name: String,
    /// What it chose in each field.
    pub choices: String,
}

impl Recipe {
    /// The recipe of what this process measures under these settings.
    pub fn new(settings: &Settings, policies: &[&NamedPolicy]) -> Recipe {
        let mut entries: Vec<PolicyEntry> = Vec::new();
        for policy in policies {
            if entries.iter().all(|entry| entry.name != policy.name) {
                entries.push(PolicyEntry { name: policy.name.clone(), choices: registry::choices(&policy.policy) });
            }
        }
        Recipe {
            command: command(std::env::args().skip(1)),
            freehold: env!("CARGO_PKG_VERSION"),
            commit: option_env!("FREEHOLD_COMMIT"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            cpu_model: cpu_model(),
            kernel_release: kernel_release(),
            pinned_to_cpu: settings.cpu,
            partner_cpu: settings.partner,
            clock: clock::NAME,
            policies: entries,
            margin_percent: settings.margin.as_percent(),
            runs_max: settings.runs_max,
            seconds_max: settings.time.as_secs_f64(),
            seed: settings.seed,
        }
    }

    fn place(&self) -> String {
        let second = self.partner_cpu.map_or_else(String::new, |cpu| format!(", a second thread to CPU {cpu}"));
        format!("CPU {}{second}", self.pinned_to_cpu)
    }

    /// The recipe in rows of a word and what it is, with those policies whose name `takes_part`.
    pub fn rows(&self, takes_part: impl Fn(&String) -> bool) -> Vec<(String, String)> {
        let commit =
            self.commit.map_or_else(|| "built outside of a repository".to_owned(), |at| format!("commit {at}"));
        let limits = format!("{} runs or {} s a comparison, whichever comes first", self.runs_max, self.seconds_max);
        let mut rows = vec![
            ("freehold", format!("{}, {commit}, {} build", self.freehold, self.build)),
            ("processor", self.cpu_model.clone()),
            ("kernel", self.kernel_release.clone()),
            ("pinned to", self.place()),
            ("clock", self.clock.to_owned()),
            ("margin", format!("{} %", self.margin_percent)),
            ("at most", limits),
            ("seed", self.seed.to_string()),
        ];
        let policies = self.policies.iter().filter(|policy| takes_part(&policy.name));
        rows.extend(policies.map(|policy| ("policy", format!("{} is {}", policy.name, policy.choices))));
        rows.into_iter().map(|(word, meaning)| (word.to_owned(), meaning)).collect()
    }
}

/// The command, without its options about where results go and how the text looks: those change nothing.
pub fn command(arguments: impl Iterator<Item = String>) -> String {
    let mut words = vec!["freehold".to_owned()];
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.split('=').next() {
            Some("--json" | "--color" | "--picture") if !argument.contains('=') => drop(arguments.next()),
            Some("--json" | "--color" | "--picture") => {}
            _ => words.push(argument),
        }
    }
    words.join(" ")
}

/// The processor's name as the kernel prints it, or what kind it is.
pub fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    model_in(&text).unwrap_or(std::env::consts::ARCH).to_owned()
}

/// The running kernel's version, without what its builder added: that may name a host.
pub fn kernel_release() -> String {
    version_in(&uname().release().to_string_lossy()).to_owned()
}

fn version_in(release: &str) -> &str {
    release.split_once(['-', '+']).map_or(release, |(version, _)| version)
}

fn model_in(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_says_what_was_measured_and_not_where_the_json_went() {
        let of = |words: &str| command(words.split(' ').map(str::to_owned));
        assert_eq!(of("bench --json x.json flags --margin 5 --color=never"), "freehold bench flags --margin 5");
        assert_eq!(of("bench --b linux-6.12,flags=plain --json=-"), "freehold bench --b linux-6.12,flags=plain");
    }

    #[test]
    fn a_kernel_is_named_without_its_host() {
        assert_eq!(["6.18.44-host-7", "6.12.0+", "6.12.117"].map(version_in), ["6.18.44", "6.12.0", "6.12.117"]);
    }

    #[test]
    fn the_processor_is_named_as_the_kernel_names_it() {
        assert_eq!(model_in("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n"), Some("AMD EPYC"));
        assert_eq!(model_in("processor\t: 0\nCPU implementer\t: 0x41\n"), None);
    }
}
