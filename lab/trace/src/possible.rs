//! Checks whether the facts of a recording are possible for a machine, and its rows for a recording.
//!
//! Most rules are Linux's own: a machine that breaks one of them could not boot. The others hold for every recording
//! that has a start state. Missing facts are an error only if no command could work without them.
//!
//! # Design
//!
//! The reader refuses impossible recordings in one place for every command: this module checks the facts, `check` each
//! row against the facts, and `lives` the rows against each other. Texts of a file are kept as they are, and are
//! escaped where they are printed (`freehold_report::terminal`).

use crate::bounds;
use crate::check::PFN_LIMIT;
use crate::event::{Kind, Section};
use crate::facts::{Facts, ZoneFacts};
use crate::kernel::{PAGEBLOCKS_OF_CHOICE, Release};

/// Section of `FORMAT.md` with these rules.
const SECTION: &str = "Consistency rules";

/// Page sizes that Linux supports, from the smallest to the largest, in bytes. linux:
/// arch/hexagon/Kconfig:PAGE_SIZE_256KB
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 4096..=262_144;

/// Returns the first contradiction as a clause, and the section of `FORMAT.md` with the rule; `None` if there is none.
pub(crate) fn contradiction(facts: &Facts) -> Option<(String, &'static str)> {
    let rules = [units, pageblocks, zones, zone_sizes, overlaps, pageblock_counts, start_state, stacks];
    rules.iter().find_map(|rule| rule(facts)).map(|reason| (reason, SECTION))
}

fn units(facts: &Facts) -> Option<String> {
    let size = facts.page_size;
    if !size.is_power_of_two() || !PAGE_SIZES.contains(&size) {
        return Some(format!("`page_size` is {size}, but must be from 4096 to 262144, a power of two"));
    }
    if facts.cpus == 0 {
        return Some("there is no CPU (`cpus` is 0)".to_owned());
    }
    let mut kinds = facts.rows.iter().filter(|(_, rows)| **rows > 0).map(|(code, _)| Kind::from_code((*code).into()));
    let is_snapshot = kinds.all(|kind| kind.is_some_and(|kind| kind.section() == Section::Start));
    (facts.duration == 0 && !is_snapshot)
        .then(|| "`duration` is 0 ns, but there are other rows than those of the start state".to_owned())
}

/// Checks the order of a pageblock. linux: include/linux/pageblock-flags.h:pageblock_order
fn pageblocks(facts: &Facts) -> Option<String> {
    let (order, most) = (facts.pageblock_order, bounds::order_max(facts));
    if order == 0 || order > most {
        return Some(format!(
            "`pageblock_order` is {order}, but must be from 1 to {most}, the highest order of the kernel"
        ));
    }
    let chosen = Release::parse(&facts.kernel_release).is_none_or(|release| release >= PAGEBLOCKS_OF_CHOICE);
    let is_usual = matches!(order, 9 | 10) || facts.machine != "x86_64" || chosen;
    (!is_usual).then(|| {
        format!("`pageblock_order` is {order}, but must be 9 or 10 on x86_64 before Linux {PAGEBLOCKS_OF_CHOICE}")
    })
}

fn stacks(facts: &Facts) -> Option<String> {
    facts.stacks.as_ref()?.contradiction(facts.tasks.len())
}

fn zones(facts: &Facts) -> Option<String> {
    let has_memory = facts.zones_start.iter().any(|zone| zone.spanned > 0 && zone.present > 0);
    (!has_memory).then(|| "there is no zone with memory (`zones_start`)".to_owned())
}

fn all_zones(facts: &Facts) -> impl Iterator<Item = &ZoneFacts> {
    facts.zones_start.iter().chain(&facts.zones_end)
}

fn zone_sizes(facts: &Facts) -> Option<String> {
    all_zones(facts).find_map(|zone| {
        let ZoneFacts { node, name, start_pfn, spanned, present, managed, min, low, high, .. } = zone;
        if start_pfn.checked_add(*spanned).is_none_or(|end| end > PFN_LIMIT) {
            return Some(format!("zone {name} of node {node} ends beyond frame 2^52"));
        }
        if present > spanned || managed > present {
            return Some(format!(
                "zone {name} of node {node} has {managed} `managed`, {present} `present` and {spanned} `spanned` pages, \
                 but each number must be at most the next"
            ));
        }
        (min > low || low > high)
            .then(|| format!("zone {name} of node {node} has the watermarks {min}, {low}, {high}, which must ascend"))
    })
}

/// Checks that zones of one node do not overlap.
fn overlaps(facts: &Facts) -> Option<String> {
    let zones: Vec<&ZoneFacts> = facts.zones_start.iter().filter(|zone| zone.spanned > 0).collect();
    for (index, one) in zones.iter().enumerate() {
        for other in zones[index + 1..].iter().filter(|other| other.node == one.node) {
            let end = (one.start_pfn + one.spanned, other.start_pfn + other.spanned);
            if other.start_pfn < end.0 && one.start_pfn < end.1 {
                let (node, one, other) = (one.node, &one.name, &other.name);
                return Some(format!("zones {one} and {other} of node {node} have frames in common"));
            }
        }
    }
    None
}

/// Checks that a zone's managed pages fit in the pageblocks that the kernel counted.
fn pageblock_counts(facts: &Facts) -> Option<String> {
    facts.zones_start.iter().find_map(|zone| {
        let lists = facts.pagetypeinfo_start.iter().filter(|list| list.node == zone.node && list.zone == zone.name);
        let blocks = lists.map(|list| list.pageblocks).fold(0, u64::saturating_add);
        let pages = blocks.saturating_mul(1 << facts.pageblock_order);
        (blocks > 0 && pages < zone.managed).then(|| {
            format!(
                "zone {} has {} `managed` pages, but its {blocks} pageblocks of order {} have only {pages} pages",
                zone.name, zone.managed, facts.pageblock_order
            )
        })
    })
}

/// Checks that the start state has a free block. A machine without free blocks could not record, so a recording without
/// them has no start state.
fn start_state(facts: &Facts) -> Option<String> {
    let rows = facts.rows.get(&(Kind::StartFree as u8)).copied().unwrap_or(0);
    (rows == 0).then(|| "there is no start state: no row has a free block (kind 64)".to_owned())
}
