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

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use freehold::Policy;
use freehold_trace::facts::Facts;

pub(crate) use huge::HugeRequests;

/// `vm.min_free_kbytes`, in KiB.
pub(crate) const MIN_FREE: &str = "vm.min_free_kbytes";
/// `vm.watermark_scale_factor`, in 1/10000 of a zone.
pub(crate) const SCALE_FACTOR: &str = "vm.watermark_scale_factor";
/// `vm.percpu_pagelist_high_fraction`; 0 selects the kernel's own rule.
pub(crate) const HIGH_FRACTION: &str = "vm.percpu_pagelist_high_fraction";
/// `vm.watermark_boost_factor`, in 1/10000 of the high watermark.
pub(crate) const BOOST_FACTOR: &str = "vm.watermark_boost_factor";
/// `vm.compaction_proactiveness`, 0 to 100.
pub(crate) const PROACTIVENESS: &str = "vm.compaction_proactiveness";
/// `vm.extfrag_threshold`, a fragmentation index.
pub(crate) const EXTFRAG_THRESHOLD: &str = "vm.extfrag_threshold";
/// `transparent_hugepage.defrag`, a word.
pub(crate) const DEFRAG: &str = "transparent_hugepage.defrag";

/// Largest number that a kernel setting can have.
const INT_MAX: u32 = i32::MAX as u32;

/// A setting that a replay can change.
struct KnownSetting {
    name: &'static str,
    /// Range of the numbers that the kernel accepts; `None` if the values are words.
    numbers: Option<(u32, u32)>,
}

/// Settings that a replay can change. linux: mm/page_alloc.c:page_alloc_sysctl_table, mm/compaction.c:vm_compaction,
/// mm/huge_memory.c:defrag_store
const KNOWN: [KnownSetting; 7] = [
    KnownSetting { name: MIN_FREE, numbers: Some((0, INT_MAX)) },
    KnownSetting { name: SCALE_FACTOR, numbers: Some((1, 3000)) },
    KnownSetting { name: HIGH_FRACTION, numbers: Some((0, INT_MAX)) },
    KnownSetting { name: BOOST_FACTOR, numbers: Some((0, INT_MAX)) },
    KnownSetting { name: PROACTIVENESS, numbers: Some((0, 100)) },
    KnownSetting { name: EXTFRAG_THRESHOLD, numbers: Some((0, 1000)) },
    KnownSetting { name: DEFRAG, numbers: None },
];

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
        let known = KNOWN.iter().find(|known| known.name == name).ok_or_else(|| {
            format!("a replay cannot change `{name}`; it can change {}", names().collect::<Vec<_>>().join(", "))
        })?;
        Ok(Setting { name: known.name, value: known.value(value)? })
    }
}

impl KnownSetting {
    /// Returns a valid value in its canonical spelling.
    fn value(&self, text: &str) -> Result<String, String> {
        let KnownSetting { name, numbers } = self;
        let Some((min, max)) = *numbers else {
            let words = huge::WORDS.join(", ");
            return match huge::WORDS.contains(&text) {
                true => Ok(text.to_owned()),
                false => Err(format!("`{name}` cannot be `{text}`; give one of {words}")),
            };
        };
        // linux: mm/page_alloc.c:percpu_pagelist_high_fraction_sysctl_handler
        let (least, but) = if *name == HIGH_FRACTION { (8, ", but not from 1 to 7") } else { (0, "") };
        match text.parse::<u32>() {
            Ok(number) if (min..=max).contains(&number) && (number == 0 || number >= least) => Ok(number.to_string()),
            _ => Err(format!("`{name}` cannot be `{text}`; give a whole number from {min} to {max}{but}")),
        }
    }
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
            facts.settings.extend(settings.iter().map(|setting| (setting.name.to_owned(), setting.value.clone())));
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

/// Returns the names of the settings that a replay can change.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.name)
}

/// Returns the recorded value of a setting in its canonical spelling; `None` if the recording lacks it.
pub(crate) fn recorded(facts: &Facts, name: &str) -> Option<String> {
    if name == DEFRAG { huge::chosen(facts).map(str::to_owned) } else { number(facts, name).map(|set| set.to_string()) }
}

/// Returns the number *n* for which the lists of a zone may hold one *n*th of its pages; `None` if the kernel's own
/// rule applies.
fn high_fraction(facts: &Facts) -> Option<u32> {
    number(facts, HIGH_FRACTION).filter(|&fraction| fraction > 0)
}

/// Returns a recorded setting, if it is a number that the kernel accepts.
fn number(facts: &Facts, name: &str) -> Option<u32> {
    let (min, max) = KNOWN.iter().find(|known| known.name == name)?.numbers?;
    facts.settings.get(name)?.trim().parse().ok().filter(|number| (min..=max).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_text_round_trips() {
        for text in ["vm.min_free_kbytes=65536", "transparent_hugepage.defrag=defer+madvise"] {
            assert_eq!(text.parse::<Setting>().unwrap().to_string(), text);
        }
        assert!("vm.percpu_pagelist_high_fraction=0".parse::<Setting>().is_ok());
    }

    #[test]
    fn equivalent_numbers_are_equal_settings() {
        let one = "vm.min_free_kbytes=65536".parse::<Setting>();
        assert_eq!(" vm.min_free_kbytes = 065536 ".parse(), one);
        assert_eq!("vm.min_free_kbytes=+65536".parse(), one);
    }

    #[test]
    fn invalid_settings_are_errors_in_one_line() {
        for (text, near) in [
            ("vm.min_free_kbytes", "write NAME=VALUE"),
            ("vm.min_free_kbytes=many", "a whole number from 0"),
            ("vm.min_free_kbytes=-1", "a whole number from 0"),
            ("vm.watermark_scale_factor=0", "from 1 to 3000"),
            ("vm.percpu_pagelist_high_fraction=7", "but not from 1 to 7"),
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
}
