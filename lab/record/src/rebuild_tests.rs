//! Tests of rebuilding start states from generated events, for which the true state is known.

use freehold_trace::event::migratetype;

use super::*;

/// Size of a machine with pageblocks of 2^4 frames, so that rare paths are common.
const FRAMES: usize = 512;
const PAGEBLOCK_ORDER: u8 = 4;

fn event(kind: Kind, pfn: u64, order: u8) -> Row {
    Row { pfn, order, cpu: 3, migratetype: migratetype::MOVABLE, ..Row::new(kind) }
}

/// SplitMix64 generator: the same seed gives the same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// True state of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Listed,
    Cached,
    /// Part of a block of this order.
    Allocated(u8),
}

/// A naive machine with aligned blocks that are allocated, freed and drained, each with Linux's events.
struct Machine {
    frames: Vec<Truth>,
    numbers: Numbers,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        let mut machine = Machine { frames: vec![Truth::Listed; FRAMES], numbers: Numbers(seed) };
        for _ in 0..4 * FRAMES {
            machine.step();
        }
        machine
    }

    fn fill(&mut self, pfn: u64, order: u8, truth: Truth) {
        self.frames[pfn as usize..(pfn + (1 << order)) as usize].fill(truth);
    }

    fn is(&self, pfn: u64, order: u8, truth: Truth) -> bool {
        self.frames[pfn as usize..(pfn + (1 << order)) as usize].iter().all(|&frame| frame == truth)
    }

    /// Changes a random block, and returns the events that Linux would fire.
    fn step(&mut self) -> Vec<Row> {
        let order = self.numbers.below(6) as u8;
        let pfn = (self.numbers.below(FRAMES as u64) >> order) << order;
        let fits = fits_percpu_lists(order, PAGEBLOCK_ORDER);
        if let Truth::Allocated(order) = self.frames[pfn as usize] {
            let pfn = (pfn >> order) << order;
            // Sometimes a block is split first, and freed page by page.
            let pieces = if self.numbers.below(4) == 0 { 0 } else { order };
            let fits = fits_percpu_lists(pieces, PAGEBLOCK_ORDER);
            self.fill(pfn, order, if fits { Truth::Cached } else { Truth::Listed });
            let heads = (pfn..pfn + (1 << order)).step_by(1 << pieces);
            return heads.map(|head| event(Kind::Free, head, pieces)).collect();
        }
        if self.is(pfn, order, Truth::Cached) {
            let drains = self.numbers.below(2) == 0;
            if drains {
                self.fill(pfn, order, Truth::Listed);
                return (pfn..pfn + (1 << order)).map(|frame| event(Kind::PcpuDrain, frame, 0)).collect();
            }
            if order > 0 {
                return Vec::new();
            }
            self.fill(pfn, 0, Truth::Allocated(0));
            return vec![event(Kind::Alloc, pfn, 0)];
        }
        if !self.is(pfn, order, Truth::Listed) {
            return Vec::new();
        }
        let taken = event(Kind::ZoneLocked, pfn, order);
        if fits && self.numbers.below(3) == 0 {
            self.fill(pfn, order, Truth::Cached);
            return vec![taken];
        }
        self.fill(pfn, order, Truth::Allocated(order));
        vec![taken, event(Kind::Alloc, pfn, order)]
    }

    /// Returns the result of a scan.
    fn scan(&self) -> Frames {
        let mut words = Vec::with_capacity(FRAMES);
        while words.len() < FRAMES {
            match self.frames[words.len()] {
                Truth::Listed => words.push(flag::BUDDY),
                Truth::Cached => words.push(0),
                Truth::Allocated(0) => words.push(flag::LRU),
                Truth::Allocated(order) => {
                    words.push(flag::LRU | flag::COMPOUND_HEAD);
                    words.extend(vec![flag::COMPOUND_TAIL; (1 << order) - 1]);
                }
            }
        }
        Frames::from_words(words, PAGEBLOCK_ORDER)
    }
}

fn rebuilt(events: &[Row], end: &Frames) -> Rebuilder {
    let mut rebuilt = Rebuilder::new(FRAMES, PAGEBLOCK_ORDER);
    events.iter().for_each(|row| rebuilt.observe(row));
    rebuilt.compare(end);
    rebuilt
}

/// Returns the number of frames whose rebuilt state differs from the true state.
fn wrong(rebuilt: &Rebuilder, end: &Frames, truth: &[Truth]) -> usize {
    let start = rebuilt.words(end);
    let mut told: Vec<Truth> = start
        .words()
        .iter()
        .map(|&word| match word {
            0 => Truth::Cached,
            word if word & flag::BUDDY != 0 => Truth::Listed,
            _ => Truth::Allocated(0),
        })
        .collect();
    for block in &rebuilt.allocated {
        told[block.pfn as usize..(block.pfn + (1 << block.order)) as usize].fill(Truth::Allocated(0));
    }
    told.iter()
        .zip(truth)
        .filter(|(told, truth)| match truth {
            Truth::Allocated(_) => !matches!(told, Truth::Allocated(_)),
            _ => told != truth,
        })
        .count()
}

#[test]
fn rebuilding_restores_the_start_state() {
    for seed in 0..200 {
        let mut machine = Machine::new(seed);
        let truth = machine.frames.clone();
        let steps = machine.numbers.below(2000);
        let events: Vec<Row> = (0..steps).flat_map(|_| machine.step()).collect();
        let end = machine.scan();
        let rebuilt = rebuilt(&events, &end);
        assert_eq!(wrong(&rebuilt, &end, &truth), 0, "seed {seed}, {} events", events.len());
        let Tally { taken_silently, returned_silently, ended_otherwise, .. } = rebuilt.tally;
        assert_eq!((taken_silently, returned_silently, ended_otherwise), (0, 0, 0), "seed {seed}");
    }
}

/// A block at the start has the order of its free, unless it is freed in pieces.
#[test]
fn rebuilt_blocks_have_the_order_of_their_free() {
    let end = Frames::from_words(vec![flag::BUDDY; FRAMES], PAGEBLOCK_ORDER);
    let rebuilt = rebuilt(&[event(Kind::Free, 8, 3), event(Kind::Free, 32, 0), event(Kind::Free, 33, 0)], &end);
    let told: Vec<_> = rebuilt.allocated.iter().map(|block| (block.pfn, block.order)).collect();
    assert_eq!(told, [(8, 3), (32, 0), (33, 0)]);
}

/// Free neighbours without events are part of the block that a later event takes.
#[test]
fn rest_of_a_partly_known_block_is_rebuilt_by_frame() {
    let end = Frames::from_words(vec![flag::LRU; FRAMES], PAGEBLOCK_ORDER);
    let events = [
        event(Kind::Free, 0, 0),
        event(Kind::PcpuDrain, 0, 0),
        event(Kind::ZoneLocked, 0, 3),
        event(Kind::Alloc, 0, 3),
    ];
    let rebuilt = rebuilt(&events, &end);
    let start = rebuilt.words(&end);
    assert_eq!(start.words()[..9], [0, 1, 1, 1, 1, 1, 1, 1, 2].map(|what| [0, flag::BUDDY, flag::LRU][what]));
    assert_eq!((rebuilt.allocated.len(), rebuilt.tally.told), (1, 8));
}

#[test]
fn contradictions_by_silent_events_are_counted() {
    let mut words = vec![flag::LRU; FRAMES];
    words[..8].fill(flag::BUDDY);
    let end = Frames::from_words(words, PAGEBLOCK_ORDER);
    let events = [
        // A bulk allocation: the page leaves the lists, and is freed without an allocation event.
        event(Kind::ZoneLocked, 40, 0),
        event(Kind::Free, 40, 0),
        event(Kind::Alloc, 40, 0),
        // A page that is freed silently.
        event(Kind::Alloc, 41, 0),
        event(Kind::Alloc, 41, 0),
        // In use by the events, and free in the scan.
        event(Kind::Alloc, 2, 0),
        // On the free lists by the events, and in use in the scan.
        event(Kind::Free, 64, 5),
        Row { args: [12, 1, 0], ..Row::new(Kind::CompactionMigrate) },
    ];
    let Tally { taken_silently, returned_silently, ended_otherwise, moved, .. } = rebuilt(&events, &end).tally;
    assert_eq!((taken_silently, returned_silently, ended_otherwise, moved), (1, 1, 1 + 32, 12));
}

/// The harness detects a rebuilder that omits events, or undoes them in the wrong order.
#[test]
fn planted_rebuild_errors_are_detected() {
    let (mut without_frees, mut last_event_first, mut lost) = (0, 0, 0);
    for seed in 0..20 {
        let mut machine = Machine::new(seed);
        let truth = machine.frames.clone();
        let events: Vec<Row> = (0..500).flat_map(|_| machine.step()).collect();
        let end = machine.scan();
        let kept: Vec<Row> = events.iter().filter(|row| row.kind != Kind::Free).copied().collect();
        without_frees += wrong(&rebuilt(&kept, &end), &end, &truth);
        let turned: Vec<Row> = events.iter().rev().copied().collect();
        last_event_first += wrong(&rebuilt(&turned, &end), &end, &truth);
        lost += wrong(&rebuilt(&events[events.len() / 2..], &end), &end, &truth);
    }
    assert!(without_frees > 100 && last_event_first > 100 && lost > 100);
}

#[test]
fn invalid_events_are_skipped() {
    let end = Frames::from_words(vec![flag::BUDDY; FRAMES], PAGEBLOCK_ORDER);
    let events = [
        event(Kind::Alloc, NO_PFN, 0),
        event(Kind::Free, 1 << 50, 3),
        event(Kind::Free, FRAMES as u64 - 1, 63),
        event(Kind::KswapdWake, 0, 0),
    ];
    assert_eq!(rebuilt(&events, &end).tally.told, 1);
}
