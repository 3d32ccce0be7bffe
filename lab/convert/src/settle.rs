//! Start state, combined from the known state of memory and the first event on each frame.
//!
//! The events take precedence, because they are of the recorded machine and time. Frames without events have the state
//! in a file, or the one drawn at random. If the file has no events of blocks that leave the free lists, blocks that
//! are allocated first are taken from the free lists and not from per-CPU lists.
//!
//! # Design
//!
//! A trace of another tool contains no start state. The start state therefore combines, for each frame and in this
//! order: the state that its first event implies, the state that a file contains, and a random state. A drawn machine
//! and a snapshot are the same data, so the import treats both alike. The command joins this crate with the drawing in
//! `lab/sim`, on which this crate does not depend. The rows of flags, zones and events are made by the recorder's own
//! code (`freehold_trace::state`). Each guess is a sentence in the facts, and every replay prints it.

use std::convert::Infallible;

use freehold_trace::event::{Kind, Row};
use freehold_trace::facts::{TypeFacts, ZoneFacts};
use freehold_trace::procfs::PageTypeInfo;
use freehold_trace::snapshot::{Moment, flag};
use freehold_trace::state::{FirstEvents, Frames, StateRows, Votes, ZonesAt};

use crate::machine::Machine;
use crate::records::MIGRATETYPES;
use crate::start::MemoryState;

/// Whether the file has events of blocks that leave the free lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departures {
    /// The file has these events.
    Recorded,
    /// These events were not recorded.
    Missing,
}

/// The start state of a recording.
#[derive(Debug, Default)]
pub(crate) struct StartState {
    pub rows: Vec<Row>,
    pub zones: Vec<ZoneFacts>,
    pub types: Vec<TypeFacts>,
    /// Pages with flags in the known state whose first event shows their state at the start (first field), and those of
    /// them whose flags show another state (second field).
    pub checked: u64,
    pub contradicted: u64,
}

/// Computes the start state. `zones` are those of the machine, with their known contents. Cost: some ten nanoseconds
/// for each frame of the machine.
pub(crate) fn settle(
    known: MemoryState,
    zones: Vec<ZoneFacts>,
    machine: &Machine,
    first_events: &mut FirstEvents,
    votes: &Votes,
    departures: Departures,
) -> StartState {
    let order = machine.pageblock_order;
    if departures == Departures::Missing {
        let cached = std::mem::take(&mut first_events.cached);
        first_events.taken.extend(cached.into_iter().map(|block| (block.pfn, block.order)));
    }
    let words = within(known.words, machine);
    let (checked, contradicted) = contradictions(&words, first_events);
    let mut frames = Frames::from_words(cleared(words, first_events), order);
    for (pfn, order) in first_events.taken.clone() {
        (pfn..pfn + (1 << order)).for_each(|pfn| frames.replace(pfn, flag::BUDDY));
    }
    let counted = machine.types.as_ref().map(|types| &types.types).or(Some(&known.facts.pagetypeinfo_start));
    let mut shown: Vec<TypeFacts> = counted.filter(|types| !types.is_empty()).cloned().unwrap_or_else(|| lists(&zones));
    // A drawn machine has fewer orders than one with larger pages.
    let orders = usize::from(machine.order_max) + 1;
    for types in shown.iter_mut().filter(|types| types.free.len() < orders) {
        types.free.resize(orders, 0);
    }
    let info = PageTypeInfo { pageblock_order: order, migratetypes: MIGRATETYPES.to_vec(), types: shown };
    let at = ZonesAt { zones, types: info };
    let state = StateRows::new(Moment::Start, 0, frames, votes.first(), &at).preferring(&known.types);
    let types = recounted(&at, &state);
    let mut rows = Vec::new();
    let Ok(()) = state.for_each(&first_events.cached, &first_events.allocated, |row| {
        rows.push(row);
        Ok::<(), Infallible>(())
    });
    let zones = at.zones.into_iter().map(|zone| ZoneFacts { free: free_in(&zone, &rows), ..zone }).collect();
    StartState { rows, zones, types, checked, contradicted }
}

/// Returns the free pages of a zone, according to the rows.
fn free_in(zone: &ZoneFacts, rows: &[Row]) -> u64 {
    let frames = zone.start_pfn..zone.start_pfn + zone.spanned;
    let free = rows.iter().filter(|row| row.kind == Kind::StartFree && frames.contains(&row.pfn));
    free.map(|row| 1 << row.order).sum()
}

/// Returns the words of the machine's frames: [`flag::NOPAGE`] if there is no memory, and 0 (unknown) for memory that
/// is in no file.
fn within(mut words: Vec<u32>, machine: &Machine) -> Vec<u32> {
    let known = words.len();
    words.resize(machine.frames() as usize, 0);
    let all = words.len();
    let mut next = 0;
    for &(start, end) in &machine.ram {
        let (start, end) = (start.min(all as u64) as usize, end.min(all as u64) as usize);
        words[next.min(start)..start].fill(flag::NOPAGE);
        // Memory that exists but is missing in the file.
        words[start..end.min(known).max(start)]
            .iter_mut()
            .filter(|word| **word == flag::NOPAGE)
            .for_each(|word| *word = 0);
        next = end.max(next);
    }
    words[next..].fill(flag::NOPAGE);
    words
}

/// Returns the number of pages with flags whose state the first events show, and the number of those whose flags
/// contradict that state.
fn contradictions(words: &[u32], first_events: &FirstEvents) -> (u64, u64) {
    let (mut checked, mut contradicted) = (0, 0);
    for &(pfn, order) in &first_events.taken {
        for word in shown(words, pfn, order) {
            checked += 1;
            contradicted += u64::from(word & flag::BUDDY == 0);
        }
    }
    for block in &first_events.allocated {
        for word in shown(words, block.pfn, block.order) {
            checked += 1;
            contradicted += u64::from(word & flag::BUDDY != 0);
        }
    }
    for block in &first_events.cached {
        let shown_count = shown(words, block.pfn, block.order).count() as u64;
        checked += shown_count;
        contradicted += shown_count;
    }
    (checked, contradicted)
}

/// Returns the nonzero words of a block's frames.
fn shown(words: &[u32], pfn: u64, order: u8) -> impl Iterator<Item = u32> {
    let first = (pfn as usize).min(words.len());
    let end = (first + (1 << order)).min(words.len());
    words[first..end].iter().copied().filter(|word| *word != 0)
}

/// Returns the words, with 0 for the frames that events name. A compound page with such a frame is split into single
/// pages.
fn cleared(mut words: Vec<u32>, first_events: &FirstEvents) -> Vec<u32> {
    let mut next = 0;
    while next < words.len() {
        let head = words[next];
        let is_head = head & flag::COMPOUND_HEAD != 0;
        let tails = words[next + 1..].iter().take_while(|word| is_head && **word & flag::COMPOUND_TAIL != 0).count();
        let block = next..next + 1 + tails;
        if block.clone().any(|pfn| first_events.is_touched(pfn as u64)) {
            for pfn in block.clone() {
                words[pfn] = if first_events.is_touched(pfn as u64) { 0 } else { head & !flag::COMPOUND_HEAD };
            }
        }
        next = block.end;
    }
    words
}

/// Returns an entry for each zone, without counts of pageblocks.
fn lists(zones: &[ZoneFacts]) -> Vec<TypeFacts> {
    zones.iter().map(|zone| TypeFacts { node: zone.node, zone: zone.name.clone(), ..TypeFacts::default() }).collect()
}

/// Returns the number of pageblocks of each type in each zone, in the settled state.
fn recounted(at: &ZonesAt, state: &StateRows) -> Vec<TypeFacts> {
    let orders = usize::from(at.order_max()) + 1;
    let order = at.types.pageblock_order;
    let mut types = Vec::new();
    for zone in &at.zones {
        let (first, end) = (zone.start_pfn >> order, (zone.start_pfn + zone.spanned).div_ceil(1 << order));
        let counts = state.pageblocks().counts(first..end);
        types.extend(MIGRATETYPES.into_iter().zip(counts).map(|(migratetype, pageblocks)| TypeFacts {
            node: zone.node,
            zone: zone.name.clone(),
            migratetype,
            free: vec![0; orders],
            pageblocks,
        }));
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(end: u64) -> Machine {
        Machine { pageblock_order: 3, order_max: 10, ram: vec![(0, end)], ..Machine::default() }
    }

    fn settle_events(words: Vec<u32>, events: &[Row], departures: Departures) -> StartState {
        let machine = machine(words.len() as u64);
        let zone = ZoneFacts { spanned: words.len() as u64, present: 16, managed: 16, ..ZoneFacts::default() };
        let mut first_events = FirstEvents::new(&[], 3);
        first_events.reach(words.len());
        let mut votes = Votes::new(3);
        events.iter().for_each(|row| {
            first_events.observe(row);
            votes.observe(row);
        });
        let known = MemoryState { words, types: vec![2; 4], ..MemoryState::default() };
        settle(known, vec![zone], &machine, &mut first_events, &votes, departures)
    }

    fn described(settled: &StartState) -> Vec<(Kind, u64, u8, i64)> {
        settled.rows.iter().map(|row| (row.kind, row.pfn, row.order, row.args[0])).collect()
    }

    #[test]
    fn events_override_the_shown_state() {
        let mut words = vec![flag::BUDDY; 16];
        words[8..12].fill(flag::COMPOUND_TAIL);
        words[8] = flag::COMPOUND_HEAD | flag::LRU;
        // One page that was free by the file was in use, and one of the compound page was on a per-CPU list.
        let events = [(Kind::Free, 0), (Kind::Alloc, 9), (Kind::ZoneLocked, 4)].map(|(kind, pfn)| Row {
            pfn,
            migratetype: 0,
            ..Row::new(kind)
        });
        let result = settle_events(words, &events, Departures::Recorded);
        let expected = [
            (Kind::StartPageblock, 0, 0, 1),
            (Kind::StartPageblock, 8, 0, 2),
            (Kind::StartUnknown, 9, 0, 1),
            (Kind::StartAllocated, 0, 0, 1),
            (Kind::StartFree, 1, 0, 0),
            (Kind::StartFree, 2, 1, 0),
            (Kind::StartFree, 4, 2, 0),
            (Kind::StartAllocated, 8, 0, 1),
            (Kind::StartAllocated, 10, 0, 2),
            (Kind::StartFree, 12, 2, 0),
        ];
        assert_eq!(described(&result), expected);
        assert_eq!((result.checked, result.contradicted), (3, 2));
        assert_eq!(result.types.iter().map(|types| types.pageblocks).collect::<Vec<_>>(), [1, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn without_departures_allocated_pages_were_free() {
        let event = Row { pfn: 3, ..Row::new(Kind::Alloc) };
        let result = settle_events(vec![0; 16], &[event], Departures::Missing);
        assert!(described(&result).contains(&(Kind::StartFree, 3, 0, 0)), "{:?}", described(&result));
    }

    #[test]
    fn words_are_limited_to_the_memory() {
        let machine = Machine { ram: vec![(2, 4), (6, 9)], ..machine(0) };
        let words = within(vec![flag::LRU, flag::LRU, flag::LRU, flag::NOPAGE, flag::LRU], &machine);
        let none = flag::NOPAGE;
        let rest = [none; 7];
        assert_eq!(words, [&[none, none, flag::LRU, 0, none, none, 0, 0, 0][..], &rest].concat());
    }
}
