//! Watermarks, lowmem reserves and per-CPU lists of a machine whose settings were changed, by the engine's own rules.
//!
//! The kernel computes watermarks when a setting is written, from all memory that its zones manage at that time. The
//! watermarks of a machine on which no setting was written may differ by a few pages, since they were computed before
//! the boot process freed its last memory.

use freehold::base::ZoneKind;
use freehold::policy::Numbers;
use freehold::policy::pcp::{self, Limits};
use freehold::policy::watermark::{self, Watermarks};
use freehold_trace::facts::{Facts, PcpFacts, ZoneFacts};

use super::{HIGH_FRACTION, MIN_FREE, RESERVE_RATIO, SCALE_FACTOR, high_fraction, number};

/// Gives the zones of `facts` the watermarks, lowmem reserves and list limits that the kernel would compute from the
/// settings of `facts`. Values that depend on no changed setting keep those of `recorded`. Boosts are not changed.
pub(crate) fn set_up(recorded: &Facts, facts: &mut Facts) {
    let [min_free, scale, lists] =
        [MIN_FREE, SCALE_FACTOR, HIGH_FRACTION].map(|name| number(recorded, name) != number(facts, name));
    if min_free || scale {
        set_marks(facts);
    }
    if min_free || scale || lists {
        set_lists(recorded, facts);
    }
    if ratios(recorded) != ratios(facts) {
        set_reserves(facts);
    }
}

/// Returns the ratios of `vm.lowmem_reserve_ratio` in `text`, followed by those of the recorded setting, or Linux's
/// defaults, for the zones that `text` leaves out. linux: mm/page_alloc.c:lowmem_reserve_ratio_sysctl_handler
pub(crate) fn complete_ratios(text: &str, recorded: Option<&String>) -> String {
    let defaults = watermark::LOWMEM_RESERVE_RATIO.map(|ratio| ratio.to_string()).join(" ");
    let rest = recorded.unwrap_or(&defaults).split_whitespace().skip(text.split_whitespace().count());
    text.split_whitespace().chain(rest).collect::<Vec<_>>().join(" ")
}

/// Returns the ratios of the lowmem reserve, the lowest zone first; `None` if the recording lacks them.
fn ratios(facts: &Facts) -> Option<Vec<u64>> {
    facts.settings.get(RESERVE_RATIO)?.split_whitespace().map(|ratio| ratio.parse().ok()).collect()
}

/// Computes the lowmem reserves. linux: mm/page_alloc.c:setup_per_zone_lowmem_reserve
fn set_reserves(facts: &mut Facts) {
    let Some(ratios) = ratios(facts) else { return };
    let reserves: Vec<Vec<u64>> = facts.zones_start.iter().map(|zone| reserves(facts, zone, &ratios)).collect();
    for (zone, reserves) in facts.zones_start.iter_mut().zip(reserves) {
        zone.protection = reserves;
    }
}

/// Returns the lowmem reserves of a zone; the recorded ones for a zone that the engine does not have or that has no
/// ratio.
fn reserves(facts: &Facts, zone: &ZoneFacts, ratios: &[u64]) -> Vec<u64> {
    let mut reserves = zone.protection.clone();
    let Some(kind) = ZoneKind::from_name(&zone.name) else { return reserves };
    let Some(&ratio) = ratios.get(kind.index()) else { return reserves };
    let mut above = 0;
    for (highest, pages) in reserves.iter_mut().enumerate().skip(kind.index() + 1) {
        above += managed(facts, zone.node, highest);
        *pages = watermark::lowmem_reserve(zone.managed, above, ratio);
    }
    reserves
}

/// Returns the managed pages of the zone with this index on a node; 0 if the engine has no such zone.
fn managed(facts: &Facts, node: u16, index: usize) -> u64 {
    let mut zones = facts.zones_start.iter().filter(|zone| zone.node == node);
    zones
        .find(|zone| ZoneKind::from_name(&zone.name).is_some_and(|kind| kind.index() == index))
        .map_or(0, |zone| zone.managed)
}

/// Computes the watermarks. linux: mm/page_alloc.c:__setup_per_zone_wmarks
fn set_marks(facts: &mut Facts) {
    let min_pages = min_pages(facts);
    let scale = number(facts, SCALE_FACTOR).unwrap_or(watermark::SCALE_FACTOR);
    let lowmem = low(facts).map(|zone| zone.managed).sum();
    for zone in &mut facts.zones_start {
        let Some(kind) = ZoneKind::from_name(&zone.name) else { continue };
        let marks = Watermarks::compute(kind, zone.managed, min_pages, lowmem, scale);
        (zone.min, zone.low, zone.high) = (marks.min, marks.low, marks.high);
    }
}

/// Returns the number of pages that are kept free: by the setting, or the sum of the zones' min watermarks if the
/// recording lacks the setting.
fn min_pages(facts: &Facts) -> u64 {
    let kib = u64::from(facts.page_size.max(1024)) / 1024;
    match number(facts, MIN_FREE) {
        Some(set) => u64::from(set) / kib,
        None => low(facts).map(|zone| zone.min).sum(),
    }
}

/// Returns the zones among which the pages of `vm.min_free_kbytes` are divided: all but Movable.
fn low(facts: &Facts) -> impl Iterator<Item = &ZoneFacts> {
    facts
        .zones_start
        .iter()
        .filter(|zone| ZoneKind::from_name(&zone.name).is_some_and(|kind| kind != ZoneKind::Movable))
}

/// Sets the limits of the lists. A list at its old lowest limit gets the new lowest limit. Other lists keep their
/// limit, clamped to the new range. linux: mm/page_alloc.c:pageset_update
fn set_lists(recorded: &Facts, facts: &mut Facts) {
    let before: Vec<Limits> = recorded.zones_start.iter().map(|zone| limits(recorded, zone)).collect();
    let after: Vec<Limits> = facts.zones_start.iter().map(|zone| limits(facts, zone)).collect();
    for (zone, (before, after)) in facts.zones_start.iter_mut().zip(before.into_iter().zip(after)) {
        zone.pcp.iter_mut().for_each(|list| move_limit(list, before, after));
    }
}

fn move_limit(list: &mut PcpFacts, before: Limits, after: Limits) {
    let at_start = list.high <= before.high_min;
    list.high = if at_start { after.high_min } else { after.clamp(list.high) };
    (list.batch, list.high_min, list.high_max) = (after.batch, after.high_min, after.high_max);
}

/// Computes the limits of the lists of a zone, by Linux's rule.
fn limits(facts: &Facts, zone: &ZoneFacts) -> Limits {
    let nodes = facts.zones_start.iter().map(|zone| u32::from(zone.node) + 1).max().unwrap_or(1);
    // CPUs are assigned to nodes in turn, as on the replayed machine.
    let cpus = u32::from(facts.cpus).saturating_sub(u32::from(zone.node)).div_ceil(nodes);
    let of = pcp::ZoneFacts { managed: zone.managed, low: zone.low, cpus };
    let numbers = Numbers { pcp_high_fraction: high_fraction(facts), ..Numbers::default() };
    Limits::for_zone(of, facts.page_size.max(1024).next_power_of_two(), &numbers)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use freehold_trace::Reader;

    use super::super::{Setting, Situation};
    use super::*;

    /// Returns the facts of a bundled recording. Format 1 adds the boost to the watermarks, so it is subtracted.
    fn bundled(name: &str) -> Facts {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings").join(name);
        let mut facts = Reader::open(&path).unwrap().facts().clone();
        for zone in facts.zones_start.iter_mut().filter(|_| facts.format == 1) {
            let boost = zone.boost;
            [&mut zone.min, &mut zone.low, &mut zone.high].into_iter().for_each(|mark| *mark -= boost);
        }
        facts
    }

    fn marks(facts: &Facts) -> Vec<[u64; 3]> {
        facts.zones_start.iter().filter(|zone| zone.managed > 0).map(|zone| [zone.min, zone.low, zone.high]).collect()
    }

    #[test]
    fn recorded_settings_give_the_recorded_watermarks() {
        // The guest of the last recording freed 12 MiB of boot memory after its watermarks were computed.
        for (name, late) in [
            ("build.parquet", 0),
            ("pressure.parquet", 0),
            ("oracle-pressure.parquet", 0),
            ("oracle-calm.parquet", 3072),
        ] {
            let recorded = bundled(name);
            let mut computed = recorded.clone();
            computed.zones_start[1].managed -= late;
            set_marks(&mut computed);
            assert_eq!(marks(&computed), marks(&recorded), "{name}");
        }
    }

    #[test]
    fn recorded_ratios_give_the_recorded_reserves() {
        // The guests of the other recordings freed boot memory after their reserves were computed.
        for name in ["build.parquet", "pressure.parquet"] {
            let recorded = bundled(name);
            let mut computed = recorded.clone();
            computed.zones_start.iter_mut().for_each(|zone| zone.protection.iter_mut().for_each(|pages| *pages = 7));
            set_reserves(&mut computed);
            for (computed, recorded) in computed.zones_start.iter().zip(&recorded.zones_start) {
                let above = ZoneKind::from_name(&recorded.name).map_or(0, |kind| kind.index() + 1);
                let [computed, recorded] = [computed, recorded].map(|zone| zone.protection.iter().skip(above));
                assert!(computed.eq(recorded), "{name}");
            }
        }
    }

    #[test]
    fn lowmem_ratio_changes_only_the_given_zones() {
        let facts = bundled("pressure.parquet");
        let changed = under(&facts, "vm.lowmem_reserve_ratio=0 32");
        assert_eq!(changed.settings[RESERVE_RATIO], "0 32 32 0 0");
        let [before, after] = [&facts, &changed].map(|facts| &facts.zones_start);
        assert!(before[0].protection[2] > 0 && after[0].protection[1..].iter().all(|pages| *pages == 0));
        assert_eq!(after[1].protection[2], after[2].managed / 32);
        assert_eq!((marks(&changed), &after[2]), (marks(&facts), &before[2]));
    }

    #[test]
    fn recorded_settings_give_the_recorded_limits() {
        for name in ["build.parquet", "pressure.parquet", "oracle-pressure.parquet", "oracle-calm.parquet"] {
            let facts = bundled(name);
            for zone in facts.zones_start.iter().filter(|zone| zone.managed > 0) {
                let limits = limits(&facts, zone);
                for list in &zone.pcp {
                    assert_eq!(list.batch, limits.batch, "{name} {}", zone.name);
                    // Linux 6.12 does not show these limits.
                    if list.high_max > 0 {
                        assert_eq!((list.high_min, list.high_max), (limits.high_min, limits.high_max), "{name}");
                    }
                }
            }
        }
    }

    fn under(facts: &Facts, setting: &str) -> Facts {
        let setting: Setting = setting.parse().unwrap();
        Situation::new(facts, &[setting]).facts.into_owned()
    }

    #[test]
    fn recorded_setting_changes_nothing() {
        let facts = bundled("oracle-calm.parquet");
        assert_eq!(under(&facts, "vm.min_free_kbytes=45056"), facts);
    }

    #[test]
    fn larger_settings_keep_more_pages_free() {
        let facts = bundled("pressure.parquet");
        let changed = under(&facts, "vm.min_free_kbytes=135168");
        for (before, after) in marks(&facts).into_iter().zip(marks(&changed)) {
            assert!((2 * before[0]..=2 * before[0] + 1).contains(&after[0]), "{before:?} {after:?}");
        }
        let wide = under(&facts, "vm.watermark_scale_factor=200");
        let zone = &wide.zones_start[2];
        assert_eq!((zone.min, zone.low - zone.min), (14_769, zone.managed * 200 / 10_000));
        assert_eq!(zone.pcp[0].high, zone.low as u32 / 2, "the list was at its lowest limit");
    }

    #[test]
    fn high_fraction_sets_the_list_limits() {
        let facts = bundled("pressure.parquet");
        let changed = under(&facts, "vm.percpu_pagelist_high_fraction=1000");
        assert_eq!(marks(&changed), marks(&facts));
        let (zone, list) = (&changed.zones_start[2], &changed.zones_start[2].pcp[0]);
        let share = (zone.managed / 1000 / 2) as u32;
        assert_eq!((list.high, list.high_min, list.high_max), (share, share, share));
    }
}
