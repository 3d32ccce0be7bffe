//! Release of the recorded kernel: whether it is known, which policy follows its rules, and how it differs from that
//! policy.
//!
//! The engine has the rules of a few kernels, as policies `linux-6.12` and so on. A recording of another kernel can be
//! replayed as well. The engine may then differ from the recorded kernel because that kernel changed and not because
//! the engine is wrong. The differences that affect the numbers are listed with the result.
//!
//! # Design
//!
//! Policy A is by default the rule set that is nearest to the recorded kernel: `linux-6.12`, `linux-6.18` for kernels
//! since 6.16, `linux-7.2` or `linux-7.3`. Rules that the recorded machine never had would make both sides of a
//! comparison guesses. `freehold` is put on the same rules, except for its own changes (`freehold,on=linux-6.18`);
//! otherwise the comparison would also be one of two kernels. Every other B runs as written, so its name states what
//! was compared.

use std::fmt;

/// Major and minor version of a kernel, which determine its behaviour here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    major: u16,
    minor: u16,
}

/// The kernel that the engine follows by default.
pub const PINNED: Release = Release { major: 6, minor: 12 };

/// The policy that is replayed on the rules of the recorded kernel.
const FREEHOLD: &str = "freehold";

/// Kernels whose events are known: from the first release up to, but excluding, the second.
const KNOWN: std::ops::Range<Release> = Release { major: 5, minor: 0 }..Release { major: 8, minor: 0 };

/// A kernel whose rules the engine has.
struct RuleSet {
    /// First kernel for which this rule set is the nearest.
    from: Release,
    kernel: Release,
    /// Name of the policy.
    set: &'static str,
}

/// Rule sets, the latest first. The pinned kernel's rules are the nearest for all older kernels.
const RULE_SETS: [RuleSet; 4] = [
    RuleSet { from: Release { major: 7, minor: 3 }, kernel: Release { major: 7, minor: 3 }, set: "linux-7.3" },
    RuleSet { from: Release { major: 7, minor: 2 }, kernel: Release { major: 7, minor: 2 }, set: "linux-7.2" },
    RuleSet { from: LISTS_KEEP_LONGER, kernel: Release { major: 6, minor: 18 }, set: "linux-6.18" },
    RuleSet { from: KNOWN.start, kernel: PINNED, set: "linux-6.12" },
];

/// A relevant change in a kernel.
struct Change {
    since: Release,
    what: &'static str,
    /// Setting in a policy's name that implements the change alone, if there is one.
    switch: Option<&'static str>,
}

/// First kernel whose per-CPU lists keep blocks of order 1 to 3 for longer.
const LISTS_KEEP_LONGER: Release = Release { major: 6, minor: 16 };

/// First kernel with `vm.defrag_mode`. linux: mm/page_alloc.c:defrag_mode
const DEFRAG_MODE: Release = Release { major: 6, minor: 15 };

/// First kernel on which the size of a pageblock can be chosen at build time. linux: mm/Kconfig:PAGE_BLOCK_MAX_ORDER
pub(crate) const PAGEBLOCKS_OF_CHOICE: Release = Release { major: 6, minor: 16 };

/// First kernel that frees ranges as the largest blocks that fit. linux: mm/page_alloc.c:free_prepared_contig_range
const RANGES_IN_BLOCKS: Release = Release { major: 7, minor: 2 };

const CHANGES: [Change; 10] = [
    Change { since: Release { major: 6, minor: 7 }, what: "per-CPU lists adjust their size", switch: None },
    Change {
        since: Release { major: 6, minor: 10 },
        what: "free pages are always on the list of their pageblock's type",
        switch: None,
    },
    Change {
        since: DEFRAG_MODE,
        what: "vm.defrag_mode, if on, also avoids fallbacks in the slow path, and reclaim for large blocks continues \
               longer before compaction",
        switch: None,
    },
    Change {
        since: LISTS_KEEP_LONGER,
        what: "per-CPU lists keep blocks of order 1 to 3 for longer; the policy linux-6.12,pcp.free_high=50 does so too",
        switch: Some("pcp.free_high=50"),
    },
    Change { since: Release { major: 6, minor: 17 }, what: "an isolated pageblock keeps its type", switch: None },
    Change {
        since: Release { major: 6, minor: 18 },
        what: "on machines with several nodes, requests skip a node whose kswapd is awake",
        switch: Some("kswapd.nodes=spared"),
    },
    Change {
        since: Release { major: 6, minor: 19 },
        what: "a full per-CPU list is drained in batches, and the zone lock is released between batches",
        switch: Some("pcp.drain=batched"),
    },
    Change {
        since: Release { major: 7, minor: 0 },
        what: "requests for huge pages reclaim once if compaction had no room",
        switch: Some("retry=one-round"),
    },
    Change {
        since: RANGES_IN_BLOCKS,
        what: "atomic requests above order 0 bypass empty per-CPU lists, and ranges are freed as the largest blocks",
        switch: None,
    },
    Change {
        since: Release { major: 7, minor: 3 },
        what: "atomic requests also use the reserve above the low watermark",
        switch: Some("highatomic=reuse-first"),
    },
];

impl Release {
    /// Parses the version at the start of the output of `uname -r`; `None` if there is none, or it is not known.
    pub fn parse(release: &str) -> Option<Release> {
        let mut parts = release.split(|letter: char| !letter.is_ascii_digit());
        let (major, minor) = (parts.next()?, parts.next()?);
        let parsed = Release { major: major.parse().ok()?, minor: minor.parse().ok()? };
        KNOWN.contains(&parsed).then_some(parsed)
    }

    /// Returns whether this kernel frees the pages of a range as the largest blocks that fit, and not one by one.
    pub fn frees_ranges_in_blocks(self) -> bool {
        self >= RANGES_IN_BLOCKS
    }

    /// Returns whether this kernel is the first one with `vm.defrag_mode`. Its nearest rules are those of a kernel
    /// without that setting.
    pub fn is_first_with_defrag_mode(self) -> bool {
        self == DEFRAG_MODE
    }

    /// Returns the name of the policy whose rules are nearest to this kernel's.
    pub fn rules(self) -> &'static str {
        let nearest = RULE_SETS.iter().find(|followed| self >= followed.from);
        nearest.map_or(RULE_SETS[RULE_SETS.len() - 1].set, |followed| followed.set)
    }

    /// Returns the name of `freehold` on the rules that are nearest to this kernel's, with its own changes:
    /// `freehold,on=linux-6.18`. The name stays as it is for any other policy, for a policy that already names its
    /// rules, and if the nearest rules are those of [`PINNED`], which `freehold` follows by default.
    pub fn on_rules(self, policy: &str) -> String {
        let rules = self.rules();
        let (set, changes) = policy.split_at(policy.find(',').unwrap_or(policy.len()));
        if set != FREEHOLD || changes.contains(",on=") || rules == RULE_SETS[RULE_SETS.len() - 1].set {
            return policy.to_owned();
        }
        format!("{set},on={rules}{changes}")
    }

    /// Returns the differences between this kernel and the one whose rules the policy of this name follows, in
    /// sentences. Changes that the policy implements are left out.
    pub fn differences(self, policy: &str) -> Vec<String> {
        let replayed = followed_by(policy);
        let (newer, older) = match self > replayed {
            true => (format!("{self} (recorded)"), format!("{replayed} (replayed)")),
            false => (format!("{replayed} (replayed)"), format!("{self} (recorded)")),
        };
        CHANGES
            .iter()
            .filter(|change| change.since <= self.max(replayed) && change.since > self.min(replayed))
            .filter(|change| !change.switch.is_some_and(|switch| policy.contains(switch)))
            .map(|Change { since, what, .. }| {
                format!("Linux {newer} has a change that {older} does not have: since {since}, {what}.")
            })
            .collect()
    }
}

/// Returns the kernel whose rules a policy has, apart from its own changes.
fn followed_by(policy: &str) -> Release {
    let names = policy.split(',').map(|part| part.strip_prefix("on=").unwrap_or(part));
    let mut rule_sets = names.filter_map(|name| RULE_SETS.iter().find(|rules| rules.set == name));
    rule_sets.next_back().map_or(PINNED, |rules| rules.kernel)
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
    fn kernel_releases_are_parsed() {
        assert_eq!(Release::parse("6.12.117-cloud-amd64"), Some(PINNED));
        assert_eq!(Release::parse("6.18-rc1"), Some(Release { major: 6, minor: 18 }));
    }

    #[test]
    fn unknown_releases_are_rejected() {
        for release in ["", "unknown", "v6.12", "6", "14.1-RELEASE", "2.6.32", "99999999999.1"] {
            assert_eq!(Release::parse(release), None, "{release}");
        }
    }

    fn rules_of(release: &str) -> &'static str {
        Release::parse(release).unwrap().rules()
    }

    fn policy_on(release: &str, policy: &str) -> String {
        Release::parse(release).unwrap().on_rules(policy)
    }

    fn differences(release: &str, policy: &str) -> Vec<String> {
        Release::parse(release).unwrap().differences(policy)
    }

    #[test]
    fn rules_are_those_of_the_nearest_kernel() {
        assert_eq!(["5.10.1", "6.8.0", "6.12.1", "6.15.9"].map(rules_of), ["linux-6.12"; 4]);
        assert_eq!(["6.16.0", "6.18.5", "7.1"].map(rules_of), ["linux-6.18"; 3]);
        assert_eq!(["7.2.13", "7.3.4", "7.9"].map(rules_of), ["linux-7.2", "linux-7.3", "linux-7.3"]);
    }

    #[test]
    fn only_freehold_is_moved_to_the_recorded_rules() {
        assert_eq!(policy_on("6.12.1", "freehold"), "freehold");
        assert_eq!(policy_on("6.18.5", "freehold"), "freehold,on=linux-6.18");
        assert_eq!(policy_on("7.2.13", "freehold,pcp=off"), "freehold,on=linux-7.2,pcp=off");
        for said in ["freehold,on=linux-6.12", "linux-6.12,pcp.batch=31", "linux-7.3,pcp=merge", "linux-6.18"] {
            assert_eq!(policy_on("7.2.13", said), said);
        }
    }

    #[test]
    fn differences_are_listed_between_two_kernels() {
        assert!(differences("6.12.1", "linux-6.12").is_empty());
        let newer = differences("6.18.5", "linux-6.12");
        assert_eq!(newer.len(), 4);
        assert!(newer[2].contains("isolated"));
        assert_eq!(differences("6.18.5", "freehold,pcp.free_high=50").len(), 3);
        let older = differences("6.8.0", "linux-6.12");
        assert_eq!(older.len(), 1);
        assert!(
            older[0].contains("6.12 (replayed) has a change that 6.8 (recorded) does not have: since 6.10"),
            "{older:?}"
        );
    }

    #[test]
    fn recording_of_a_replayed_kernel_has_no_differences() {
        for (release, policy) in [("6.18.44", "linux-6.18"), ("7.2.13", "freehold,on=linux-7.2"), ("7.3", "linux-7.3")]
        {
            assert!(differences(release, policy).is_empty(), "{release} {policy}");
        }
        let between = differences("7.0.3", "linux-6.18");
        assert_eq!(between.len(), 2);
        assert!(between[0].contains("has a change that 6.18 (replayed) does not have: since 6.19"), "{between:?}");
        let before = differences("6.16.2", "linux-6.18");
        assert!(before.iter().all(|sentence| sentence.contains("(recorded) does not have: since 6.1")), "{before:?}");
    }
}
