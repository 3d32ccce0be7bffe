//! Parsers of the kernel's texts about memory, which return [`Facts`](crate::Facts).
//!
//! `/proc/zoneinfo`, `/proc/buddyinfo`, `/proc/pagetypeinfo`, `/proc/vmstat`, `/proc/iomem` and `/proc/pressure` gain
//! lines from release to release. The parsers find known lines by their names and ignore others. An error is returned
//! only if a text lacks a required part. [`counters`] parses the texts that are read every second, and [`caches`] the
//! slab caches.

pub mod caches;
pub mod counters;

use crate::event::{NO_MIGRATETYPE, migratetype};
use crate::facts::{PcpFacts, TypeFacts, ZoneFacts};

/// Error of parsing a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcError {
    /// A line that should hold numbers.
    #[error("cannot parse the line `{line}` of {file}; report it with the kernel's release")]
    BadLine {
        /// Name of the file below `/proc`.
        file: &'static str,
        /// The line that cannot be parsed.
        line: String,
    },
    /// The file lacks a required part.
    #[error("{file} {lacks}; run as root, on a Linux kernel that shows its contents")]
    Lacking {
        /// Name of the file below `/proc`.
        file: &'static str,
        /// Missing part, as a phrase.
        lacks: &'static str,
    },
}

fn bad(file: &'static str, line: &str) -> ProcError {
    ProcError::BadLine { file, line: line.chars().take(200).collect() }
}

/// Free blocks of a zone by order: a line of `/proc/buddyinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneBlocks {
    /// Number of the NUMA node.
    pub node: u16,
    /// Name of the zone, such as `Normal`.
    pub zone: String,
    /// Number of free blocks of each order, from 0 up.
    pub free: Vec<u64>,
}

/// Parses `Node N, zone NAME`. Also returns the rest of the line.
fn zone_head(line: &str) -> Option<(u16, &str, &str)> {
    let (node, rest) = line.trim_start().strip_prefix("Node")?.split_once(',')?;
    let rest = rest.trim_start().strip_prefix("zone")?.trim_start();
    let end = rest.find([' ', ',', '\t']).unwrap_or(rest.len());
    Some((node.trim().parse().ok()?, &rest[..end], rest[end..].trim_start_matches(',').trim()))
}

fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split_whitespace().map(|number| number.parse().ok()).collect()
}

/// Parses `/proc/buddyinfo`.
///
/// # Errors
/// [`ProcError`] if there is no zone, or a line is not understood.
pub fn parse_buddyinfo(text: &str) -> Result<Vec<ZoneBlocks>, ProcError> {
    const FILE: &str = "buddyinfo";
    let mut zones = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        zones.push(zone_blocks(line).ok_or_else(|| bad(FILE, line))?);
    }
    if zones.is_empty() { Err(ProcError::Lacking { file: FILE, lacks: "contains no zone" }) } else { Ok(zones) }
}

fn zone_blocks(line: &str) -> Option<ZoneBlocks> {
    let (node, zone, counts) = zone_head(line)?;
    Some(ZoneBlocks { node, zone: zone.to_owned(), free: numbers(counts)? })
}

/// Parses `/proc/zoneinfo`. Zones without pages are left out, as in `/proc/buddyinfo`. The kernel shows watermarks with
/// the boost added; here the boost is subtracted. linux: include/linux/mmzone.h:wmark_pages
///
/// # Errors
/// [`ProcError`] if there is no zone with pages, or a number cannot be parsed.
pub fn parse_zoneinfo(text: &str) -> Result<Vec<ZoneFacts>, ProcError> {
    const FILE: &str = "zoneinfo";
    let mut zones: Vec<ZoneFacts> = Vec::new();
    for line in text.lines() {
        if let Some((node, name, _)) = zone_head(line) {
            zones.push(ZoneFacts { node, name: name.to_owned(), ..ZoneFacts::default() });
        } else if let Some(zone) = zones.last_mut() {
            zone_line(zone, line.trim()).ok_or_else(|| bad(FILE, line))?;
        }
    }
    zones.retain(|zone| zone.present > 0);
    for zone in &mut zones {
        let boost = zone.boost;
        for mark in [&mut zone.min, &mut zone.low, &mut zone.high] {
            *mark = mark.saturating_sub(boost);
        }
    }
    if zones.is_empty() {
        Err(ProcError::Lacking { file: FILE, lacks: "contains no zone with pages" })
    } else {
        Ok(zones)
    }
}

/// Handles a line of a zone's text; `None` if the line is known but has no number.
fn zone_line(zone: &mut ZoneFacts, line: &str) -> Option<()> {
    if let Some(list) = line.strip_prefix("protection:") {
        let list = list.trim().trim_start_matches('(').trim_end_matches(')');
        zone.protection = list.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
        return Some(());
    }
    let Some((key, value)) = line.rsplit_once(char::is_whitespace) else {
        return Some(());
    };
    let place = match key.trim_end() {
        "pages free" => &mut zone.free,
        "boost" => &mut zone.boost,
        "min" => &mut zone.min,
        "low" => &mut zone.low,
        "high" => &mut zone.high,
        "spanned" => &mut zone.spanned,
        "present" => &mut zone.present,
        "managed" => &mut zone.managed,
        "nr_free_cma" => &mut zone.free_cma,
        "start_pfn:" => &mut zone.start_pfn,
        "reserved_highatomic" | "nr_reserved_highatomic" => zone.reserved_highatomic.insert(0),
        other => return pcp_line(zone, other, value),
    };
    *place = value.parse().ok()?;
    Some(())
}

/// Handles a line of the `pagesets` part.
fn pcp_line(zone: &mut ZoneFacts, key: &str, value: &str) -> Option<()> {
    if key == "cpu:" {
        zone.pcp.push(PcpFacts { cpu: value.parse().ok()?, ..PcpFacts::default() });
        return Some(());
    }
    let Some(pcp) = zone.pcp.last_mut() else {
        return Some(());
    };
    let place = match key {
        "count:" => &mut pcp.count,
        "high:" => &mut pcp.high,
        "batch:" => &mut pcp.batch,
        "high_min:" => &mut pcp.high_min,
        "high_max:" => &mut pcp.high_max,
        _ => return Some(()),
    };
    *place = value.parse().ok()?;
    Some(())
}

/// The contents of `/proc/pagetypeinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageTypeInfo {
    /// Order of a pageblock according to the file.
    pub pageblock_order: u8,
    /// The recording's number for each of the kernel's migratetypes, in the kernel's order.
    pub migratetypes: Vec<i8>,
    /// Each type of each zone, in the numbering of a recording.
    pub types: Vec<TypeFacts>,
}

const PAGETYPEINFO: &str = "pagetypeinfo";

/// Returns the recording's number of each of the kernel's migratetypes. `/proc/pagetypeinfo` names them in the kernel's
/// order, in the heading of the pageblock counts. An unknown name becomes [`NO_MIGRATETYPE`].
///
/// # Errors
/// [`ProcError::Lacking`] if there is no such heading.
pub fn migratetype_numbers(text: &str) -> Result<Vec<i8>, ProcError> {
    let heading = text.lines().find_map(|line| line.trim().strip_prefix("Number of blocks type"));
    let names = heading.ok_or(ProcError::Lacking { file: PAGETYPEINFO, lacks: "contains no migratetypes" })?;
    Ok(names.split_whitespace().map(migratetype_number).collect())
}

fn migratetype_number(name: &str) -> i8 {
    match name {
        "Unmovable" => migratetype::UNMOVABLE,
        "Movable" => migratetype::MOVABLE,
        "Reclaimable" => migratetype::RECLAIMABLE,
        "HighAtomic" => migratetype::HIGHATOMIC,
        "CMA" => migratetype::CMA,
        "Isolate" => migratetype::ISOLATE,
        _ => NO_MIGRATETYPE,
    }
}

/// Parses `/proc/pagetypeinfo`.
///
/// # Errors
/// [`ProcError`] if the pageblock order or the migratetypes are missing, or a count cannot be parsed.
pub fn parse_pagetypeinfo(text: &str) -> Result<PageTypeInfo, ProcError> {
    let migratetypes = migratetype_numbers(text)?;
    let order = text.lines().find_map(|line| line.strip_prefix("Page block order:"));
    let lacks = "does not contain the pageblock order";
    let pageblock_order = order
        .and_then(|order| order.trim().parse().ok())
        .filter(|&order| order < 64)
        .ok_or(ProcError::Lacking { file: PAGETYPEINFO, lacks })?;
    let mut info = PageTypeInfo { pageblock_order, migratetypes, types: Vec::new() };
    for line in text.lines() {
        let Some((node, zone, rest)) = zone_head(line) else {
            continue;
        };
        let taken = match rest.strip_prefix("type") {
            Some(free) => free_line(&mut info, node, zone, free),
            None => count_line(&mut info, node, zone, rest),
        };
        taken.ok_or_else(|| bad(PAGETYPEINFO, line))?;
    }
    Ok(info)
}

/// Handles a line of free blocks: the type's name and its counts by order. The kernel writes `>` before a count that it
/// stopped.
fn free_line(info: &mut PageTypeInfo, node: u16, zone: &str, line: &str) -> Option<()> {
    let (name, counts) = line.trim_start().split_once(char::is_whitespace)?;
    let free = numbers(&counts.replace('>', " "))?;
    let migratetype = migratetype_number(name);
    info.types.push(TypeFacts { node, zone: zone.to_owned(), migratetype, free, pageblocks: 0 });
    Some(())
}

/// Handles a line of pageblock counts, one for each migratetype.
fn count_line(info: &mut PageTypeInfo, node: u16, zone: &str, line: &str) -> Option<()> {
    for (count, &migratetype) in numbers(line)?.into_iter().zip(&info.migratetypes) {
        let mut types = info.types.iter_mut();
        let same = types.find(|facts| (facts.node, &*facts.zone, facts.migratetype) == (node, zone, migratetype));
        if let Some(facts) = same {
            facts.pageblocks = count;
        }
    }
    Some(())
}

/// Parses `/proc/vmstat`: names and values, in the kernel's order.
///
/// # Errors
/// [`ProcError::BadLine`] if a line is not a name and a number.
pub fn parse_vmstat(text: &str) -> Result<(Vec<String>, Vec<u64>), ProcError> {
    text.lines().map(|line| counter(line).ok_or_else(|| bad("vmstat", line))).collect()
}

fn counter(line: &str) -> Option<(String, u64)> {
    let (name, value) = line.split_once(' ')?;
    Some((name.to_owned(), value.trim().parse().ok()?))
}

/// Parses `/proc/iomem`: the ranges of `System RAM` as page frames, `[start, end)`, in order. A page that is only
/// partly RAM is left out.
///
/// # Errors
/// [`ProcError::Lacking`] if there is no such range, or the kernel hides the addresses; [`ProcError::BadLine`] if a
/// range cannot be parsed.
pub fn parse_iomem(text: &str, page_size: u32) -> Result<Vec<(u64, u64)>, ProcError> {
    const FILE: &str = "iomem";
    let page_size = u64::from(page_size.max(1));
    let mut ranges = Vec::new();
    let mut is_hidden = false;
    for line in text.lines() {
        let Some((range, name)) = line.trim().split_once(" : ") else {
            continue;
        };
        if !name.starts_with("System RAM") {
            continue;
        }
        let (start, last) = parse_range(range).ok_or_else(|| bad(FILE, line))?;
        is_hidden |= last == 0;
        let frames = (start.div_ceil(page_size), last.saturating_add(1) / page_size);
        if frames.0 < frames.1 {
            ranges.push(frames);
        }
    }
    let lacks = if is_hidden { "hides its addresses" } else { "contains no System RAM" };
    if ranges.is_empty() { Err(ProcError::Lacking { file: FILE, lacks }) } else { Ok(ranges) }
}

fn parse_range(range: &str) -> Option<(u64, u64)> {
    let (start, last) = range.split_once('-')?;
    Some((u64::from_str_radix(start.trim(), 16).ok()?, u64::from_str_radix(last.trim(), 16).ok()?))
}

#[cfg(test)]
#[path = "procfs_tests.rs"]
mod tests;
