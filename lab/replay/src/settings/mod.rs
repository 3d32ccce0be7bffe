//! Kernel settings of a replay: the recorded ones, and other values to try, such as `vm.min_free_kbytes=65536`.
//!
//! A replay uses the recorded settings that decide when memory is compacted and how long lists grow ([`heeded`]). Under
//! other settings, [`Situation`] holds the machine as the kernel would have set it up. The engine's own rules determine
//! the watermarks and the limits of per-CPU lists ([`marks`]). Another `defrag` changes the requests for huge pages
//! ([`huge`]). The workload and its timing stay as recorded.
//!
//! # Design
//!
//! Other settings make another machine and not another policy. A number that the policy contains takes precedence over
//! the recorded settings. The work stays as recorded, so only the kernel's decisions can differ.

mod huge;
mod marks;
mod table;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use freehold::Policy;
use freehold::policy::DefragMode;
use freehold::policy::compaction::SparedZones;
use freehold_trace::facts::Facts;
use freehold_trace::kernel::Release;

use crate::error::Error;
pub(crate) use huge::HugeRequests;
pub(crate) use table::{
    BOOST_FACTOR, DEFRAG, DEFRAG_MODE, EXTFRAG_THRESHOLD, HIGH_FRACTION, MIN_FREE, PROACTIVENESS, RESERVE_RATIO,
    SCALE_FACTOR, THP_ENABLED, names,
};
pub use table::{KNOWN, KnownSetting};

/// A setting with a value that the kernel accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    name: &'static str,
    value: String,
}

impl Setting {
    /// Returns the name of the setting, as in recordings.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the value.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        let (name, value) = text.split_once('=').map(|(name, value)| (name.trim(), value.trim())).ok_or_else(|| {
            format!("`{text}` is not a setting; write NAME=VALUE, for example vm.min_free_kbytes=65536")
        })?;
        let known = table::find(name).ok_or_else(|| {
            format!("a replay cannot change `{name}`; it can change {}", names().collect::<Vec<_>>().join(", "))
        })?;
        Ok(Setting { name: known.name, value: known.parse(value)? })
    }
}

/// Checks that a recording can be replayed under a policy with these settings.
///
/// # Errors
/// If the replayed rules are those of a kernel without one of the settings, or the requests under a setting are not in
/// the recording.
pub(crate) fn check(facts: &Facts, policy: &Policy, settings: &[Setting]) -> Result<(), Error> {
    for setting in settings {
        match setting.name {
            DEFRAG_MODE if !has_defrag_mode(policy, facts) => return Err(Error::Setting(no_defrag_mode(facts))),
            THP_ENABLED => check_enabled(recorded(facts, THP_ENABLED).as_deref(), &setting.value)?,
            _ => {}
        }
    }
    Ok(())
}

/// Checks that a value of `transparent_hugepage.enabled` is the recorded one.
fn check_enabled(recorded: Option<&str>, value: &str) -> Result<(), Error> {
    if recorded == Some(value) {
        return Ok(());
    }
    let recorded = recorded.map_or_else(|| "is not in the recording".to_owned(), |word| format!("was `{word}`"));
    Err(Error::Setting(format!(
        "`{THP_ENABLED}` {recorded}, and a replay cannot set it to `{value}`, since the requests that faults would \
         then make are not in the recording"
    )))
}

fn no_defrag_mode(facts: &Facts) -> String {
    let recorded = if facts.kernel_release.is_empty() { "an unknown kernel" } else { &facts.kernel_release };
    format!(
        "`{DEFRAG_MODE}` exists since Linux 6.15, and the rules of this replay are older (recorded: {recorded}); name \
         newer rules as the policy, for example `linux-6.18`"
    )
}

/// Returns whether a policy has the rules of a kernel with `vm.defrag_mode`. The room that reclaim leaves to compaction
/// changed in the same version. For recordings of Linux 6.15 the nearest rules are those of 6.12.
fn has_defrag_mode(policy: &Policy, facts: &Facts) -> bool {
    let release = Release::parse(&facts.kernel_release);
    policy.compaction.spared == SparedZones::AtHighMark || release.is_some_and(Release::is_first_with_defrag_mode)
}

/// The recorded machine under the settings of a replay.
#[derive(Debug)]
pub(crate) struct Situation<'f> {
    /// The recorded facts.
    pub(crate) recorded: &'f Facts,
    /// The facts as the kernel would have them under the settings.
    pub(crate) facts: Cow<'f, Facts>,
}

impl<'f> Situation<'f> {
    /// Creates the recorded machine under these settings. Without settings it is unchanged. If a setting is given
    /// twice, the last value counts.
    pub(crate) fn new(recorded: &'f Facts, settings: &[Setting]) -> Situation<'f> {
        let mut facts = Cow::Borrowed(recorded);
        if !settings.is_empty() {
            let facts = facts.to_mut();
            for setting in settings {
                let value = match setting.name {
                    RESERVE_RATIO => marks::complete_ratios(&setting.value, recorded.settings.get(RESERVE_RATIO)),
                    _ => setting.value.clone(),
                };
                facts.settings.insert(setting.name.to_owned(), value);
            }
            marks::set_up(recorded, facts);
        }
        Situation { recorded, facts }
    }

    /// Returns the translation of requests for huge pages to these settings.
    pub(crate) fn huge_requests(&self) -> HugeRequests {
        HugeRequests::between(self.recorded, &self.facts)
    }
}

/// Returns the policy with the recorded settings filled in where the policy uses Linux's default.
pub(crate) fn heeded(mut policy: Policy, facts: &Facts) -> Policy {
    let numbers = &mut policy.numbers;
    numbers.pcp_high_fraction = numbers.pcp_high_fraction.or_else(|| high_fraction(facts));
    numbers.watermark_boost_factor = numbers.watermark_boost_factor.or_else(|| number(facts, BOOST_FACTOR));
    numbers.compaction_proactiveness = numbers.compaction_proactiveness.or_else(|| number(facts, PROACTIVENESS));
    if numbers.compaction_extfrag_threshold.is_none() {
        numbers.compaction_extfrag_threshold = number(facts, EXTFRAG_THRESHOLD);
    }
    if number(facts, DEFRAG_MODE) == Some(1) && has_defrag_mode(&policy, facts) {
        policy.defrag_mode = DefragMode::On;
    }
    policy
}

/// Returns the assumptions under these settings, in sentences.
pub(crate) fn assumptions(settings: &[Setting]) -> Vec<String> {
    if settings.is_empty() {
        return Vec::new();
    }
    let all: Vec<String> = settings.iter().map(Setting::to_string).collect();
    let mut sentences = vec![format!(
        "Under {}, the work, its timing and the free memory at the start are as recorded, and per-CPU lists begin with \
         at most their limits. Differences from the recorded kernel are not errors of this replay.",
        all.join(", ")
    )];
    if settings.iter().any(|setting| setting.name == DEFRAG) {
        sentences.push(huge::ASSUMPTION.to_owned());
    }
    sentences
}

/// Returns the recorded value of a setting in its canonical spelling; `None` if the recording lacks it.
pub(crate) fn recorded(facts: &Facts, name: &str) -> Option<String> {
    table::find(name)?.parse(chosen(facts.settings.get(name)?)).ok()
}

/// Returns the number *n* for which the lists of a zone may hold one *n*th of its pages; `None` if the kernel's own
/// rule applies.
fn high_fraction(facts: &Facts) -> Option<u32> {
    number(facts, HIGH_FRACTION).filter(|&fraction| fraction > 0)
}

/// Returns a recorded setting, if it is a number that the kernel accepts.
fn number(facts: &Facts, name: &str) -> Option<u32> {
    table::find(name)?.parse_number(facts.settings.get(name)?.trim())
}

/// Returns the chosen value in a recorded text: the bracketed word of the kernel's list, `always defer [madvise]
/// never`, or else the whole text.
fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text.trim(), |(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_text_round_trips() {
        for text in [
            "vm.min_free_kbytes=65536",
            "vm.defrag_mode=1",
            "vm.lowmem_reserve_ratio=256 256 32 0 0",
            "transparent_hugepage.defrag=defer+madvise",
        ] {
            assert_eq!(text.parse::<Setting>().unwrap().to_string(), text);
        }
        assert!("vm.percpu_pagelist_high_fraction=0".parse::<Setting>().is_ok());
    }

    #[test]
    fn equivalent_numbers_are_equal_settings() {
        let one = "vm.min_free_kbytes=65536".parse::<Setting>();
        assert_eq!(" vm.min_free_kbytes = 065536 ".parse(), one);
        assert_eq!("vm.min_free_kbytes=+65536".parse(), one);
        let ratios = "vm.lowmem_reserve_ratio=256 32".parse::<Setting>();
        assert_eq!("vm.lowmem_reserve_ratio= 256\t032 ".parse(), ratios);
    }

    #[test]
    fn invalid_settings_are_errors_in_one_line() {
        for (text, near) in [
            ("vm.min_free_kbytes", "write NAME=VALUE"),
            ("vm.min_free_kbytes=many", "a whole number from 0"),
            ("vm.min_free_kbytes=-1", "a whole number from 0"),
            ("vm.watermark_scale_factor=0", "from 1 to 3000"),
            ("vm.percpu_pagelist_high_fraction=7", "0, or a whole number from 8 to"),
            ("vm.defrag_mode=2", "from 0 to 1"),
            ("vm.lowmem_reserve_ratio=256 -1", "1 to 5 whole numbers"),
            ("vm.lowmem_reserve_ratio=", "1 to 5 whole numbers"),
            ("transparent_hugepage.enabled=inherit", "one of always, madvise, never"),
            ("vm.compaction_proactiveness=101", "from 0 to 100"),
            ("transparent_hugepage.defrag=sometimes", "always, defer, defer+madvise, madvise, never"),
            ("vm.swappiness=60", "vm.min_free_kbytes, vm.watermark_scale_factor"),
        ] {
            let error = text.parse::<Setting>().expect_err(text);
            assert!(error.contains(near) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn policy_numbers_override_machine_settings() {
        let mut facts = Facts::default();
        let settings = [(HIGH_FRACTION, "1000"), (PROACTIVENESS, "0"), (EXTFRAG_THRESHOLD, "?")];
        facts.settings.extend(settings.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let numbers = heeded(Policy::LINUX_6_12, &facts).numbers;
        assert_eq!((numbers.pcp_high_fraction, numbers.compaction_proactiveness), (Some(1000), Some(0)));
        assert_eq!(numbers.compaction_extfrag_threshold, None);
        let mut own = Policy::LINUX_6_12;
        own.numbers.pcp_high_fraction = Some(8);
        assert_eq!(heeded(own, &facts).numbers.pcp_high_fraction, Some(8));
        facts.settings.insert(HIGH_FRACTION.to_owned(), "0".to_owned());
        assert_eq!(heeded(Policy::LINUX_6_12, &facts).numbers.pcp_high_fraction, None, "the kernel's own rule");
    }

    fn facts_of(release: &str, settings: &[(&str, &str)]) -> Facts {
        let mut facts = Facts { kernel_release: release.to_owned(), ..Facts::default() };
        facts.settings.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        facts
    }

    fn refusal(facts: &Facts, policy: Policy, text: &str) -> Option<String> {
        check(facts, &policy, &[text.parse().unwrap()]).err().map(|error| error.to_string())
    }

    #[test]
    fn defrag_mode_needs_the_rules_of_a_kernel_that_has_it() {
        let [old, first, new] = ["6.12.117", "6.15.3", "7.2.0"].map(|release| facts_of(release, &[(DEFRAG_MODE, "1")]));
        for (facts, policy, is_on) in [
            (&old, Policy::LINUX_6_12, false),
            (&old, Policy::LINUX_6_18, true),
            (&first, Policy::LINUX_6_12, true),
            (&new, Policy::LINUX_7_2, true),
            (&new, Policy::LINUX_6_12, false),
        ] {
            let refused = refusal(facts, policy, "vm.defrag_mode=1");
            assert_eq!(refused.is_none(), is_on, "{refused:?}");
            assert_eq!(heeded(policy, facts).defrag_mode == DefragMode::On, is_on);
            assert!(refused.is_none_or(|sentence| sentence.contains("since Linux 6.15")));
        }
        assert_eq!(heeded(Policy::LINUX_7_2, &facts_of("7.2.0", &[(DEFRAG_MODE, "0")])).defrag_mode, DefragMode::Off);
    }

    #[test]
    fn only_the_recorded_choice_of_huge_page_areas_is_accepted() {
        let facts = facts_of("6.12.117", &[(THP_ENABLED, "always [madvise] never")]);
        let unknown = facts_of("6.12.117", &[]);
        for (facts, value, refused) in [
            (&facts, "madvise", None),
            (&facts, "always", Some("was `madvise`")),
            (&unknown, "always", Some("is not in the recording")),
        ] {
            let sentence = refusal(facts, Policy::LINUX_6_12, &format!("{THP_ENABLED}={value}"));
            assert_eq!(sentence.is_some(), refused.is_some(), "{sentence:?}");
            assert!(sentence.is_none_or(|sentence| sentence.contains(refused.unwrap_or_default())));
        }
    }
}
