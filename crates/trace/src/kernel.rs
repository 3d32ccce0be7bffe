//! The recorded kernel: whether it is known, and in what it differs from the pinned one.
//!
//! The engine is Linux 6.12. A recording of another kernel can be replayed all the same, but then the engine
//! may differ from the recorded kernel because that kernel changed, not because the engine is wrong. The
//! differences that matter for the numbers are named with the result.

use std::fmt;

/// A kernel's version, as far as it decides about behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    major: u16,
    minor: u16,
}

/// The kernel that the engine follows.
pub const PINNED: Release = Release { major: 6, minor: 12 };

/// Kernels whose events are understood: from the first to before the second.
const KNOWN: std::ops::Range<Release> = Release { major: 5, minor: 0 }..Release { major: 8, minor: 0 };

/// What changed in a kernel, and matters here.
struct Change {
    since: Release,
    what: &'static str,
}

/// Since this one, per-CPU lists keep blocks of order 1 to 3 for longer.
const LISTS_KEEP_LONGER: Release = Release { major: 6, minor: 16 };

/// Since this one, the size of a pageblock can be chosen where the kernel is built. linux: mm/Kconfig:PAGE_BLOCK_MAX_ORDER
pub(crate) const PAGEBLOCKS_OF_CHOICE: Release = Release { major: 6, minor: 16 };

const CHANGES: [Change; 6] = [
    Change { since: Release { major: 6, minor: 7 }, what: "per-CPU lists tune their own size" },
    Change {
        since: Release { major: 6, minor: 10 },
        what: "free pages always lie on the list of their pageblock's type",
    },
    Change {
        since: Release { major: 6, minor: 15 },
        what: "vm.defrag_mode, where set, avoids fallbacks in the slow path too",
    },
    Change {
        since: LISTS_KEEP_LONGER,
        what: "per-CPU lists keep blocks of order 1 to 3 for longer; the policy linux-6.12,pcp.free_high=50 does so too",
    },
    Change { since: Release { major: 6, minor: 17 }, what: "an isolated pageblock keeps its type" },
    Change {
        since: Release { major: 7, minor: 2 },
        what: "atomic requests above order 0 pass empty per-CPU lists by, and drains let go of the zone lock between batches",
    },
];

impl Release {
    /// The version at the front of what `uname -r` prints; `None` if there is none, or it is not known.
    pub fn parse(release: &str) -> Option<Release> {
        let mut parts = release.split(|letter: char| !letter.is_ascii_digit());
        let mut number = || parts.next().and_then(|digits| digits.parse().ok());
        let parsed = Release { major: number()?, minor: number()? };
        KNOWN.contains(&parsed).then_some(parsed)
    }

    /// The policy whose rules come nearest to this kernel's, by name.
    pub fn rules(self) -> &'static str {
        if self >= LISTS_KEEP_LONGER { "linux-6.12,pcp.free_high=50" } else { "linux-6.12" }
    }

    /// The policy of this name on these rules: with the number that they have beside the pinned kernel's, unless it names
    /// one itself.
    pub fn on_rules(self, policy: &str) -> String {
        let number = self.rules().split_once(',').map(|(_, number)| number);
        let is_named = |number: &str| number.split('=').next().is_some_and(|field| policy.contains(field));
        match number {
            Some(number) if !is_named(number) => format!("{policy},{number}"),
            _ => policy.to_owned(),
        }
    }

    /// In what this kernel differs from the pinned one, in sentences; but for what the policy of this name does as it does.
    pub fn differences(self, policy: &str) -> Vec<String> {
        let is_followed = |change: &Change| change.since == LISTS_KEEP_LONGER && policy.contains("pcp.free_high=50");
        let between = |change: &&Change| {
            change.since <= self.max(PINNED) && change.since > self.min(PINNED) && !is_followed(change)
        };
        let sentence = |change: &Change| {
            if self > PINNED {
                format!(
                    "Linux {self} differs from {PINNED}, which is replayed: since {}, {}.",
                    change.since, change.what
                )
            } else {
                format!(
                    "Linux {self} differs from {PINNED}, which is replayed: only since {}, {}.",
                    change.since, change.what
                )
            }
        };
        CHANGES.iter().filter(between).map(sentence).collect()
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_off_what_uname_prints() {
        assert_eq!(Release::parse("6.12.117-cloud-amd64"), Some(PINNED));
        assert_eq!(Release::parse("6.18-rc1"), Some(Release { major: 6, minor: 18 }));
    }

    #[test]
    fn what_is_no_known_linux_is_refused() {
        for release in ["", "unknown", "v6.12", "6", "14.1-RELEASE", "2.6.32", "99999999999.1"] {
            assert_eq!(Release::parse(release), None, "{release}");
        }
    }

    #[test]
    fn rules_are_those_of_the_nearest_kernel_that_the_engine_has() {
        let of = |text| Release::parse(text).unwrap().rules();
        assert_eq!(["6.8.0", "6.12.1", "6.15.9"].map(of), ["linux-6.12"; 3]);
        assert_eq!(["6.16.0", "6.18.5", "7.1"].map(of), ["linux-6.12,pcp.free_high=50"; 3]);
    }

    #[test]
    fn a_policy_keeps_the_number_of_the_rules_unless_it_names_one() {
        let on = |release, policy| Release::parse(release).unwrap().on_rules(policy);
        assert_eq!(on("6.12.1", "freehold"), "freehold");
        assert_eq!(on("6.18.5", "freehold,pcp=off"), "freehold,pcp=off,pcp.free_high=50");
        assert_eq!(on("6.18.5", "freehold,pcp.free_high=9"), "freehold,pcp.free_high=9");
    }

    #[test]
    fn differences_lie_between_the_two_kernels() {
        let of = |text| Release::parse(text).unwrap().differences("linux-6.12");
        assert!(of("6.12.1").is_empty());
        let newer = of("6.18.5");
        assert_eq!(newer.len(), 3);
        assert!(newer[2].contains("isolated"));
        let older = of("6.8.0");
        assert_eq!(older.len(), 1);
        assert!(older[0].contains("only since 6.10"));
    }
}
