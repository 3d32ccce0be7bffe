//! Parsers of the kernel's texts that are read every second: the counters of zones, and pressure.
//!
//! From `/proc/zoneinfo` only changing numbers are kept, and the lists of all CPUs are summed up, so that a sample
//! takes a few hundred bytes on any machine. No text is an error: a counter that a kernel lacks is missing from the
//! result.

use super::zone_head;

/// Counters of one zone at one time, by name, in the kernel's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneCounters<'text> {
    /// Number of the NUMA node.
    pub node: u16,
    /// Name of the zone, such as `Normal`.
    pub zone: &'text str,
    /// `free`, `boost`, `min`, `low`, `high`, `managed` (in pages, the watermarks without the boost), the kernel's
    /// counters `nr_...` under their own names, and `pcp_count`, `pcp_high`, `pcp_batch`: sums over the lists of all
    /// CPUs.
    pub counters: Vec<(&'text str, u64)>,
}

/// Lines of a zone's first part that are kept: the start of the line, and the name of the counter.
const MARKS: [(&str, &str); 6] = [
    ("pages free", "free"),
    ("boost", "boost"),
    ("min", "min"),
    ("low", "low"),
    ("high", "high"),
    ("managed", "managed"),
];
/// Lines of a CPU's lists that are summed up: the start of the line, and the name of the sum.
const LISTS: [(&str, &str); 3] = [("count:", "pcp_count"), ("high:", "pcp_high"), ("batch:", "pcp_batch")];
/// Counter with the same value as `free`, which is left out.
const TWICE: &str = "nr_free_pages";

/// Parses the text of `/proc/zoneinfo` and returns the counters of every zone that has pages.
pub fn zone_counters(text: &str) -> Vec<ZoneCounters<'_>> {
    let mut zones: Vec<ZoneCounters<'_>> = Vec::new();
    let mut is_zone = false;
    for line in text.lines() {
        if let Some((node, zone, _)) = zone_head(line) {
            zones.push(ZoneCounters { node, zone, counters: Vec::new() });
            is_zone = false;
        } else if let Some(zone) = zones.last_mut() {
            // Lines before the first line about the zone are about its node.
            is_zone |= line.trim_start().starts_with(MARKS[0].0);
            if is_zone {
                zone.take(line.trim());
            }
        }
    }
    zones.retain(|zone| zone.get("managed").is_some_and(|managed| managed > 0));
    zones.iter_mut().for_each(ZoneCounters::take_off_boost);
    zones
}

impl<'text> ZoneCounters<'text> {
    /// Returns a counter by its name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|(found, _)| *found == name).map(|&(_, value)| value)
    }

    fn take(&mut self, line: &'text str) {
        let Some((key, value)) = line.rsplit_once(char::is_whitespace) else { return };
        let (key, Ok(value)) = (key.trim_end(), value.parse::<u64>()) else { return };
        if let Some(sum) = find_name(&LISTS, key) {
            match self.counters.iter_mut().find(|(name, _)| *name == sum) {
                Some((_, total)) => *total = total.saturating_add(value),
                None => self.counters.push((sum, value)),
            }
        } else if let Some(mark) = find_name(&MARKS, key) {
            self.counters.push((mark, value));
        } else if key.starts_with("nr_") && key != TWICE {
            self.counters.push((key, value));
        }
    }

    /// Subtracts the boost from the watermarks, since the kernel shows them with the boost added. linux:
    /// include/linux/mmzone.h:wmark_pages
    fn take_off_boost(&mut self) {
        let boost = self.get("boost").unwrap_or(0);
        for (_, value) in self.counters.iter_mut().filter(|(name, _)| matches!(*name, "min" | "low" | "high")) {
            *value = value.saturating_sub(boost);
        }
    }
}

/// Returns the name of a counter in a table.
fn find_name(names: &[(&str, &'static str)], key: &str) -> Option<&'static str> {
    names.iter().find(|(begins, _)| *begins == key).map(|&(_, name)| name)
}

/// Parses a text of `/proc/pressure`: for `some` and `full`, the microseconds that tasks stalled since the machine
/// started.
pub fn pressure_totals(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (kind, values) = line.split_once(' ')?;
        let total = values.split_whitespace().find_map(|value| value.strip_prefix("total="))?;
        Some((kind, total.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::ZONEINFO;
    use super::*;

    #[test]
    fn zone_counters_sum_all_cpus_of_populated_zones() {
        let zones = zone_counters(ZONEINFO);
        assert_eq!(zones.iter().map(|zone| (zone.node, zone.zone)).collect::<Vec<_>>(), [(0, "DMA")]);
        let marks = [("free", 3840), ("boost", 3), ("min", 54), ("low", 68), ("high", 82), ("managed", 3840)];
        let rest = [("nr_free_cma", 2), ("pcp_count", 16), ("pcp_high", 8), ("pcp_batch", 1)];
        assert_eq!(zones[0].counters, [&marks[..], &rest].concat());
        assert!(zone_counters("").is_empty() && zone_counters("Node 0, zone DMA\n pages free many\n").is_empty());
    }

    #[test]
    fn pressure_totals_are_parsed() {
        let text = "some avg10=0.15 avg60=0.16 avg300=0.48 total=243088858\nfull avg10=0 total=7\nodd\nlate total=x\n";
        assert_eq!(pressure_totals(text).collect::<Vec<_>>(), [("some", 243_088_858), ("full", 7)]);
    }

    #[test]
    fn zone_counters_of_this_machine_are_parsed() {
        let Ok(text) = std::fs::read_to_string("/proc/zoneinfo") else { return };
        let zones = zone_counters(&text);
        assert!(
            zones.iter().all(|zone| zone.get("pcp_count").is_some() && zone.get("nr_zone_inactive_file").is_some())
        );
    }
}
