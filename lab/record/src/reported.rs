//! Free pages that the page flags did not show, because free-page reporting held them.
//!
//! A guest reports to its hypervisor the memory that it does not use. The kernel takes whole free blocks off the free
//! lists, a few at a time and without an event, reports them, and puts them back, also without an event. A scan in the
//! meantime sees frames without flags, and compaction's free scanner has the same effect. These frames are free, and a
//! recording must not lose them: a recording of a guest of 24 GiB lost 54,356 pages. linux:
//! mm/page_reporting.c:page_reporting_cycle
//!
//! A frame without flags is not necessarily free, since pages on per-CPU lists and pages of some kernel users have no
//! flags either. But those do not return to the free lists without an event. At the start, a frame without flags was
//! therefore free if its first event took it from the free lists, or if no event named it and it is on the free lists
//! at the end.
//!
//! At the end of a recording there are no later events. There, a frame without flags is free if the events have left it
//! on the free lists, as part of a whole block of an order that is reported. In addition, the zone's own count of free
//! pages must confirm it, because a contiguous range may also be taken without an event, and not be returned.

use freehold_trace::facts::ZoneFacts;
use freehold_trace::snapshot::flag;
use freehold_trace::state::{FirstEvents, Frames};

/// Smallest order that is reported. linux: drivers/virtio/virtio_balloon.c:virtballoon_probe
const ORDER_MIN: u8 = 5;

/// Numbers of pages without flags that were found to be free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedPages {
    /// Pages that an event took from the free lists first.
    pub taken: u64,
    /// Pages that no event named, and that are on the free lists at the end.
    pub returned: u64,
    /// Pages at the end that the events had left on the free lists.
    pub at_end: u64,
}

/// Whether the events are complete. Only then did nothing happen to a frame that no event names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// No event was lost.
    Whole,
    /// Some events were lost.
    Torn,
}

/// Marks frames without flags as free, at the start and at the end, if they were. If events were lost, only marks
/// frames that an event took from the free lists.
pub(crate) fn mark(
    start: &mut Frames,
    end: &mut Frames,
    seen: &mut FirstEvents,
    zones: &[ZoneFacts],
    record: Record,
) -> ReportedPages {
    let mut found = ReportedPages::default();
    let taken: Vec<_> = seen.taken.iter().flat_map(|&(pfn, order)| pfn..pfn + (1 << order)).collect();
    for pfn in taken {
        found.taken += u64::from(start.find_free(pfn));
    }
    if record == Record::Torn {
        return found;
    }
    for pfn in 0..start.words().len() as u64 {
        if seen.is_untouched(pfn) && end.words().get(pfn as usize).is_some_and(|word| word & flag::BUDDY != 0) {
            found.returned += u64::from(start.find_free(pfn));
            seen.find_free(pfn);
        }
    }
    for zone in zones {
        found.at_end += mark_at_end(end, |pfn| seen.is_on_free_lists(pfn), zone);
    }
    found
}

/// Marks blocks of one zone as free at the end, if they have no flags and the events have left them on the free lists.
/// Returns the number of pages; 0 without a mark if the zone's own count of free pages does not confirm at least half
/// of them.
pub(crate) fn mark_at_end(end: &mut Frames, is_on_free_lists: impl Fn(u64) -> bool, zone: &ZoneFacts) -> u64 {
    let size = 1 << ORDER_MIN;
    let first = zone.start_pfn.next_multiple_of(size);
    let limit = (zone.start_pfn + zone.spanned).min(end.words().len() as u64);
    let words = end.words();
    let held: Vec<u64> = (first..limit)
        .step_by(size as usize)
        .filter(|block| block + size <= limit)
        .filter(|block| (*block..block + size).all(|pfn| words[pfn as usize] == 0 && is_on_free_lists(pfn)))
        .collect();
    let pages = held.len() as u64 * size;
    let zone_words = &words[zone.start_pfn.min(limit) as usize..limit as usize];
    let shown = zone_words.iter().filter(|&&word| word & flag::BUDDY != 0).count() as u64;
    // The kernel's count is read directly after the scan, when most of the missing pages have been returned.
    if pages == 0 || zone.free.saturating_sub(shown) < pages / 2 {
        return 0;
    }
    for pfn in held.into_iter().flat_map(|block| block..block + size) {
        end.find_free(pfn);
    }
    pages
}

#[cfg(test)]
mod tests {
    use freehold_trace::event::{Kind, Row};

    use super::*;

    const SIZE: usize = 1 << ORDER_MIN;

    fn event(kind: Kind, pfn: u64, order: u8) -> Row {
        Row { pfn, order, migratetype: 1, ..Row::new(kind) }
    }

    fn zone(frames: usize, free: u64) -> [ZoneFacts; 1] {
        [ZoneFacts { spanned: frames as u64, free, ..ZoneFacts::default() }]
    }

    /// Marks the frames of a start state without flags, given the events and the flags at the end.
    fn marked(end: &[u32], events: &[Row], free: u64, record: Record) -> (ReportedPages, Vec<u32>, Vec<u32>) {
        let words = vec![0; end.len()];
        let mut seen = FirstEvents::new(&words, 9);
        events.iter().for_each(|row| seen.observe(row));
        let (mut start, mut end) = (Frames::from_words(words, 9), Frames::from_words(end.to_vec(), 9));
        let zones = zone(end.words().len(), free);
        let found = mark(&mut start, &mut end, &mut seen, &zones, record);
        (found, start.into_words(), end.into_words())
    }

    #[test]
    fn frames_returned_silently_were_free() {
        let mut end = vec![flag::BUDDY; 16];
        end[12..].fill(0);
        let events = [event(Kind::Free, 0, 2), event(Kind::PcpuDrain, 4, 0), event(Kind::Alloc, 5, 0)];
        let (found, start, _) = marked(&end, &events, 0, Record::Whole);
        assert_eq!(found, ReportedPages { returned: 6, ..ReportedPages::default() });
        assert!((0..16).all(|pfn| (start[pfn] == flag::BUDDY) == (6..12).contains(&pfn)), "{start:?}");
    }

    #[test]
    fn frames_taken_from_the_lists_by_an_event_were_free() {
        let end = vec![flag::LRU; 16];
        let events = [event(Kind::ZoneLocked, 0, 2), event(Kind::Alloc, 0, 2), event(Kind::ExtFrag, 8, 0)];
        let (found, start, _) = marked(&end, &events, 0, Record::Whole);
        assert_eq!(found, ReportedPages { taken: 5, ..ReportedPages::default() });
        assert!((0..16).all(|pfn| (start[pfn] == flag::BUDDY) == (pfn < 4 || pfn == 8)), "{start:?}");
    }

    #[test]
    fn lost_events_prevent_silent_return_inference() {
        let (found, ..) = marked(&[flag::BUDDY; 16], &[event(Kind::ZoneLocked, 0, 0)], 0, Record::Torn);
        assert_eq!(found, ReportedPages { taken: 1, ..ReportedPages::default() });
    }

    #[test]
    fn kernel_pages_without_flags_stay_unknown() {
        let (found, start, end) = marked(&[0; 64], &[], 64, Record::Whole);
        assert_eq!((found, start, end), (ReportedPages::default(), vec![0; 64], vec![0; 64]));
    }

    #[test]
    fn blocks_left_on_the_lists_are_free_at_the_end() {
        let mut end = vec![0; 4 * SIZE];
        end[..SIZE].fill(flag::BUDDY);
        // The second block is drained, the third is taken again, and the fourth is unknown.
        let events = [
            event(Kind::Free, SIZE as u64, ORDER_MIN),
            event(Kind::Free, 2 * SIZE as u64, ORDER_MIN),
            event(Kind::ZoneLocked, 2 * SIZE as u64, 0),
        ];
        let (found, _, words) = marked(&end, &events, 2 * SIZE as u64, Record::Whole);
        assert_eq!(found.at_end, SIZE as u64);
        assert_eq!(words.iter().position(|&word| word == 0), Some(2 * SIZE));
        let (found, ..) = marked(&end, &events, SIZE as u64, Record::Whole);
        assert_eq!(found.at_end, 0, "the kernel's count says that they were taken");
    }
}
