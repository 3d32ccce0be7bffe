//! Drawings of small zones before and after compaction, with the number of frames that compaction scanned.
//!
//! A row is a pageblock of sixteen frames: `.` is free, `m` a page that moves, `p` a movable page whose move is
//! refused, and `u` an unmovable page.

use freehold::base::{Gfp, NodeId, Order, Pfn, State};
use freehold::page::Config;
use freehold::platform::Event;

use crate::compaction::{Engine, Mover, config, with_full_machine};

const NODE: NodeId = NodeId(0);
const ROW: Order = Order::new(4);

/// Zone after compaction, and the steps of compaction.
struct Outcome {
    after: Vec<String>,
    /// Sources and targets of all moves, in order.
    moves: Vec<(u32, u32)>,
    /// Frames scanned for sources, frames scanned for targets, and isolated pages, for each batch.
    scans: Vec<(u32, u32, u32)>,
}

fn frames_drawn_as(frames: &[(u32, char)], letter: char) -> Vec<u32> {
    frames.iter().filter(|(_, drawn)| *drawn == letter).map(|(pfn, _)| *pfn).collect()
}

/// Sets up a zone as drawn in `before`, calls `act`, and returns the outcome.
fn compact(before: &[impl AsRef<str>], act: impl FnOnce(&Engine<'_, '_>, &Mover)) -> Outcome {
    let config = Config { pageblock_order: ROW, ..config() };
    let mut outcome = Outcome { after: Vec::new(), moves: Vec::new(), scans: Vec::new() };
    with_full_machine(before.len() as u32, &config, |engine, mover| {
        let frames: Vec<(u32, char)> = (0..).zip(before.iter().flat_map(|row| row.as_ref().chars())).collect();
        let isolated = frames_drawn_as(&frames, 'u');
        mover.free(engine, frames_drawn_as(&frames, '.').into_iter().chain(isolated.iter().copied()));
        for &pfn in &isolated {
            assert_eq!(engine.isolate_free_page(Pfn::new(pfn), Order::ZERO, Gfp::KERNEL), Ok(true));
        }
        frames_drawn_as(&frames, 'p').into_iter().for_each(|pfn| mover.pin(pfn));
        engine.platform().events.take();
        act(engine, mover);
        outcome.scans = scans(&engine.platform().events.take());
        outcome.moves = mover.moves.take().iter().map(|moved| (moved.from.raw(), moved.to.raw())).collect();
        outcome.after = draw(engine, frames.len() as u32);
        for pfn in isolated {
            engine.free_pages(Pfn::new(pfn), Order::ZERO).expect("the block must not have moved");
        }
    });
    outcome
}

/// Returns the letter of a frame: in a movable block, in an unmovable block, or free.
fn letter(engine: &Engine<'_, '_>, pfn: Pfn) -> char {
    match engine.allocated_block(pfn).map(|(head, _)| engine.state(head)) {
        Some(Some(State::Allocated { movable: true, .. })) => 'm',
        Some(_) => 'u',
        None => '.',
    }
}

/// Draws the zone, one row per pageblock.
fn draw(engine: &Engine<'_, '_>, frames: u32) -> Vec<String> {
    let letters: Vec<char> = (0..frames).map(|pfn| letter(engine, Pfn::new(pfn))).collect();
    letters.chunks(ROW.pages() as usize).map(|row| row.iter().collect()).collect()
}

fn ask(engine: &Engine<'_, '_>, gfp: Gfp, order: u8) -> Option<u32> {
    let pfn = engine.alloc_pages(gfp, Order::new(order)).ok()?;
    engine.free_pages(pfn, Order::new(order)).expect("the block was just allocated");
    Some(pfn.raw())
}

fn scans(events: &[Event]) -> Vec<(u32, u32, u32)> {
    let mut scans = Vec::new();
    for event in events {
        if let Event::CompactScan { migrate_scanned, free_scanned, isolated, .. } = *event {
            scans.push((migrate_scanned, free_scanned, isolated));
        }
    }
    scans
}

/// A half-full pageblock: three pairs of pages, with single pages in between.
const HALF: &str = "m.mm..m.m..m.mm.";
const FULL: &str = "mmmmmmmmmmmmmmmm";
const NONE: &str = "................";

/// Huge pages are movable requests, for which compaction has a quick search for sources. Unmovable requests have no
/// quick search; with `RETRY_MAYFAIL` compaction may wait.
const THP: Gfp = Gfp::TRANSHUGE.union(Gfp::NORETRY);
const UNMOVABLE: Gfp = Gfp::KERNEL.union(Gfp::RETRY_MAYFAIL);

#[test]
fn fast_search_takes_pairs_from_the_upper_half() {
    let outcome = compact(&[HALF; 12], |engine, _| assert_eq!(ask(engine, THP, 4), Some(0)));
    // One pair in each of four pageblocks, because async compaction takes no page around the ones that it found. The
    // first search goes deep into the list, and takes the first pair in the upper half of the zone.
    let pair = "m.mmmmm.m..m.mm.";
    assert_eq!(outcome.after, [&[NONE], &[HALF; 5][..], &[pair], &[HALF], &[pair; 3], &[HALF]].concat());
    let mut to: Vec<u32> = outcome.moves.iter().map(|&(_, to)| to).collect();
    to.sort_unstable();
    assert_eq!(to, [100, 101, 132, 133, 148, 149, 164, 165]);
    assert_eq!(outcome.scans, [(16, 15, 16)]);
}

#[test]
fn sync_compaction_also_takes_free_pages_around_a_target() {
    for order in [2, 4] {
        let outcome = compact(&[HALF; 12], |engine, _| assert_eq!(ask(engine, UNMOVABLE, order), Some(0)));
        assert_eq!(outcome.after, [&[NONE], &[HALF; 5][..], &[FULL], &[HALF; 5]].concat(), "order {order}");
        // Single pages first, in the order of their frames; then the pairs, split.
        let moves = [(0, 97), (2, 103), (3, 105), (6, 106), (8, 108), (11, 111), (13, 100), (14, 101)];
        assert_eq!(outcome.moves, moves);
        assert_eq!(outcome.scans, [(16, 24, 16)], "eight reads from the lists and sixteen of the block");
    }
}

#[test]
fn proactive_scan_covers_the_zone_until_the_low_mark() {
    let outcome = compact(&[HALF; 12], |engine, _| engine.tick_kcompactd(NODE));
    // Two of the six pageblocks' worth of free memory become whole. One third in whole pageblocks is above the required
    // fifth; one sixth is below.
    assert_eq!(outcome.after, [&[NONE; 2], &[HALF; 8][..], &[FULL; 2]].concat());
    assert_eq!(outcome.scans, [(16, 16, 16), (16, 16, 16)]);
    assert_eq!(outcome.moves[7..9], [(14, 181), (16, 161)]);
}

/// A zone whose first pageblock has a special page at its fifth frame, which prevents the pageblock from becoming
/// whole.
fn with_fifth(fifth: char) -> Vec<String> {
    let first = format!("m.m.{fifth}.m.m.m.m.m.");
    let rest = [FULL, HALF, FULL, FULL, FULL, HALF, HALF, HALF, HALF, FULL];
    std::iter::once(first).chain(rest.map(str::to_owned)).collect()
}

#[test]
fn async_compaction_leaves_a_block_at_an_unmovable_page() {
    let before = with_fifth('u');
    let outcome = compact(&before, |engine, _| assert_eq!(ask(engine, THP, 4), Some(32)));
    // Compaction gives up the source block that the quick search chose at its fifth frame, without moving any of its
    // pages. The next source is half full.
    assert_eq!(outcome.scans, [(5, 0, 0), (16, 35, 28), (17, 36, 16)]);
    // The targets run out before the last four pages of the second pageblock are moved. The third pageblock is emptied
    // instead.
    assert_eq!(outcome.after[..3], [&before[0], "............mmmm", NONE]);
    assert_eq!(outcome.moves[0], (16, 116));
    assert_eq!(
        outcome.after[6..],
        ["mmmmmmmmm.mm.mmm", "m.mmmmmmmm.mmmm.", "mmmmmmmmmmmm.mm.", "m.mmmmmmm..m.mm.", FULL]
    );
}

#[test]
fn sync_compaction_moves_pages_around_an_unmovable_page() {
    let before = with_fifth('u');
    for order in [2, 4] {
        let outcome = compact(&before, |engine, _| {
            assert_eq!(ask(engine, UNMOVABLE, order), Some(if order == 2 { 0 } else { 16 }));
        });
        assert_eq!(outcome.after[0], "....u...........");
        assert_eq!(outcome.after[7], "mmmmmmmmmmmmmmm.");
        let scans = [(16, 17, 14), (16, 37, 32)];
        assert_eq!(outcome.scans, scans[..if order == 2 { 1 } else { 2 }]);
    }
}

#[test]
fn proactive_target_scan_strides_over_full_pageblocks() {
    let outcome = compact(&with_fifth('u'), |engine, _| engine.tick_kcompactd(NODE));
    // The last pageblock is full. In the pageblock before it, the scan looks at every other frame until it finds a free
    // one.
    assert_eq!(outcome.scans, [(16, 31, 15), (16, 32, 32)]);
    assert_eq!(outcome.moves[..7], [(0, 151), (2, 153), (6, 159), (8, 129), (10, 148), (12, 149), (14, 132)]);
    assert_eq!(outcome.after[..2], ["....u...........", NONE]);
    assert_eq!(outcome.after[9], "m.mmmmmmmm.m.mmm");
}

/// A page whose move is refused stays, and its target is used for the next page.
#[test]
fn refused_target_is_reused_for_the_next_page() {
    let before = with_fifth('p');
    for (gfp, scans, seventh) in
        [(THP, [(16, 11, 16), (17, 35, 31)], (14, 100)), (UNMOVABLE, [(16, 20, 16), (16, 34, 31)], (14, 116))]
    {
        let outcome = compact(&before, |engine, _| assert_eq!(ask(engine, gfp, 4), Some(16)));
        assert_eq!(outcome.after[..3], ["....m...........", NONE, HALF]);
        assert_eq!((outcome.moves[6], outcome.scans), (seventh, scans.to_vec()));
    }
    let outcome = compact(&before, |engine, _| engine.tick_kcompactd(NODE));
    assert_eq!((outcome.moves[6], outcome.scans), ((14, 132), vec![(16, 31, 16), (16, 32, 32)]));
}

#[test]
fn almost_free_pageblock_is_emptied_with_one_move() {
    let before = [&[".........m......", FULL, FULL], &[HALF; 8][..]].concat();
    for (gfp, scanned) in [(THP, 17), (UNMOVABLE, 16)] {
        let outcome = compact(&before, |engine, _| assert_eq!(ask(engine, gfp, 4), Some(0)));
        // The movable request searches the free lists for a source, which costs one scanned frame.
        assert_eq!((outcome.moves, outcome.scans), (vec![(9, 84)], vec![(scanned, 7, 3)]));
    }
    let outcome = compact(&before, |engine, _| engine.tick_kcompactd(NODE));
    assert_eq!((outcome.moves, outcome.scans), (vec![(9, 161)], vec![(16, 2, 2)]));
}
