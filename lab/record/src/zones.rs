//! Zones of the machine, from the texts of `/proc` at the start and the end of the recording.

use std::fs;
use std::path::Path;

use freehold_trace::facts::{Facts, Sample, ZoneFacts};
use freehold_trace::procfs::{ZoneBlocks, parse_buddyinfo, parse_iomem};
use freehold_trace::state::{TypeChange, ZonesAt};

use crate::error::CaptureError;
use crate::machine::Machine;
use crate::observe::Texts;
use crate::run::Run;
use crate::sample::{Reading, Readings};

/// Returns the ranges of memory as frames `[start, end)`.
///
/// # Errors
/// If the kernel does not provide them.
pub(crate) fn ram(machine: &Machine) -> Result<Vec<(u64, u64)>, CaptureError> {
    let path = Path::new("/proc/iomem");
    let text = fs::read_to_string(path).map_err(CaptureError::kernel(path))?;
    let page_size = u32::try_from(machine.page_size).unwrap_or(u32::MAX);
    Ok(parse_iomem(&text, page_size)?)
}

/// Returns a note if the ranges of memory at the end differ from those at the start.
pub(crate) fn ram_note(start: &[(u64, u64)], end: &[(u64, u64)]) -> Option<String> {
    let [before, after] = [start, end].map(|ranges| ranges.iter().map(|(first, end)| end - first).sum::<u64>());
    match after.checked_sub(before) {
        _ if start == end => None,
        Some(added) => Some(format!(
            "{added} pages of memory were added during the recording; they are not in the state at the end"
        )),
        None => Some(format!("{} pages of memory were removed during the recording", before - after)),
    }
}

fn zones_at(texts: &Texts) -> Result<ZonesAt, CaptureError> {
    Ok(ZonesAt::parse(&texts.zoneinfo, &texts.pagetypeinfo)?)
}

/// Zones at the start and at the end.
#[derive(Debug)]
pub(crate) struct Zones {
    /// Zones at the start moment.
    pub start: ZonesAt,
    /// Zones at the end moment.
    pub end: ZonesAt,
}

impl Zones {
    /// Parses the texts of a run.
    ///
    /// # Errors
    /// If they cannot be parsed.
    pub(crate) fn read(run: &Run) -> Result<Zones, CaptureError> {
        Ok(Zones { start: zones_at(run.start.texts())?, end: zones_at(&run.end.texts)? })
    }

    /// Parses the texts of a single moment, which is both start and end.
    ///
    /// # Errors
    /// If they cannot be parsed.
    pub(crate) fn of_one_moment(texts: &Texts) -> Result<Zones, CaptureError> {
        let start = zones_at(texts)?;
        Ok(Zones { end: start.clone(), start })
    }

    /// Computes the counts of pageblocks at the start from those at the end, by undoing `changes`.
    pub(crate) fn undo(&mut self, changes: &[TypeChange]) {
        let order = self.pageblock_order();
        for &TypeChange { pfn, order: taken, before, after } in changes {
            let mut zones = self.start.zones.iter();
            let zone = zones.find(|zone| (zone.start_pfn..zone.start_pfn + zone.spanned).contains(&pfn));
            let Some(zone) = zone else { continue };
            let blocks = 1 << taken.saturating_sub(order).min(20);
            for count in &mut self.start.types.types {
                if (count.node, &count.zone) == (zone.node, &zone.name) {
                    let [gained, lost] = [before, after].map(|kind| if count.migratetype == kind { blocks } else { 0 });
                    count.pageblocks = (count.pageblocks + gained).saturating_sub(lost);
                }
            }
        }
    }

    /// Returns sentences about zones that manage more or fewer pages at the end than at the start.
    pub(crate) fn changes(&self) -> impl Iterator<Item = String> {
        let pairs = self.start.zones.iter().filter_map(|start| {
            let end = self.end.zones.iter().find(|end| (end.node, &end.name) == (start.node, &start.name))?;
            Some((start, end))
        });
        pairs.filter(|(start, end)| start.managed != end.managed).map(|(start, end)| {
            format!(
                "zone {} of node {} managed {} pages at the start and {} at the end: memory was added or initialised, \
                 or a balloon changed its size",
                start.name, start.node, start.managed, end.managed
            )
        })
    }

    /// Returns the order of a pageblock.
    pub(crate) fn pageblock_order(&self) -> u8 {
        self.start.types.pageblock_order
    }

    /// Adds the zones and the samples of a run to `facts`.
    ///
    /// # Errors
    /// If buddyinfo cannot be parsed.
    pub(crate) fn describe(self, samples: &Readings, moment: u64, facts: &mut Facts) -> Result<(), CaptureError> {
        facts.pageblock_order = self.pageblock_order();
        facts.samples = align(samples, moment, &self.start.zones)?;
        facts.vmstat_names = samples.names.clone();
        facts.pressure_names = samples.pressure_names.clone();
        facts.zone_counter_names = samples.zone_names.clone();
        facts.zones_start = self.start.zones;
        facts.zones_end = self.end.zones;
        facts.pagetypeinfo_start = self.start.types.types;
        facts.pagetypeinfo_end = self.end.types.types;
        Ok(())
    }
}

/// Returns the samples with times relative to `moment`, and the lines of buddyinfo in the order of `zones`.
fn align(samples: &Readings, moment: u64, zones: &[ZoneFacts]) -> Result<Vec<Sample>, CaptureError> {
    samples
        .all
        .iter()
        .map(|reading| {
            let lines = parse_buddyinfo(&reading.buddyinfo)?;
            Ok(Sample {
                time: reading.time.saturating_sub(moment),
                vmstat: reading.vmstat.clone(),
                buddyinfo: zones.iter().map(|zone| free_blocks(&lines, zone)).collect(),
                pressure: reading.pressure.clone(),
                zones: zones.iter().map(|zone| zone_counters(samples, reading, zone)).collect(),
            })
        })
        .collect()
}

/// Returns the free blocks of a zone by order; empty if buddyinfo has no line for it.
fn free_blocks(lines: &[ZoneBlocks], zone: &ZoneFacts) -> Vec<u64> {
    let line = lines.iter().find(|line| line.node == zone.node && line.zone == zone.name);
    line.map_or_else(Vec::new, |line| line.free.clone())
}

/// Returns the counters of a zone in a reading.
fn zone_counters(samples: &Readings, reading: &Reading, zone: &ZoneFacts) -> Vec<u64> {
    samples.place(zone).and_then(|place| reading.zones.get(place)).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use freehold_trace::procfs::PageTypeInfo;

    use super::*;

    #[test]
    fn changed_memory_is_noted() {
        let start = [(0, 100), (200, 300)];
        assert_eq!(ram_note(&start, &start), None);
        let added = ram_note(&start, &[(0, 100), (200, 428)]).unwrap();
        assert!(added.starts_with("128 pages of memory were added"), "{added}");
        let removed = ram_note(&start, &[(0, 100)]).unwrap();
        assert!(removed.starts_with("100 pages of memory were removed"), "{removed}");
    }

    /// Returns zones with these names and numbers of managed pages.
    fn zones_with(managed: &[(&str, u64)]) -> ZonesAt {
        let zones =
            managed.iter().map(|&(name, managed)| ZoneFacts { name: name.to_owned(), managed, ..ZoneFacts::default() });
        ZonesAt { zones: zones.collect(), types: PageTypeInfo::default() }
    }

    #[test]
    fn changed_zone_size_is_noted() {
        let start = zones_with(&[("DMA", 10), ("Normal", 100)]);
        let zones = Zones { start, end: zones_with(&[("DMA", 10), ("Normal", 90), ("Movable", 5)]) };
        let notes: Vec<_> = zones.changes().collect();
        assert!(
            notes.len() == 1 && notes[0].contains("Normal of node 0 managed 100 pages at the start and 90"),
            "{notes:?}"
        );
    }
}
