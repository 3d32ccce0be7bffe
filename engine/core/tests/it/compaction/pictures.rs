//! Small zones, drawn: what compaction makes of them, page by page, and how many frames it looks at.
//!
//! A row is a pageblock of sixteen frames: `.` is free, `m` a page that moves, `p` one that could but is refused, `u`
//! one that cannot.

use freehold::base::{Gfp, NodeId, Order, Pfn, State};
use freehold::page::Config;
use freehold::platform::Event;

use crate::compaction::{Engine, Mover, config, with_full_machine};

const NODE: NodeId = NodeId(0);
const ROW: Order = Order::new(4);

/// What became of a zone.
struct Outcome {
    after: Vec<String>,
    /// From where to where, in order.
    moves: Vec<(u32, u32)>,
    /// For each batch, frames looked at for pages to move and for free ones, and pages that were set apart.
    scans: Vec<(u32, u32, u32)>,
}

fn frames_drawn_as(frames: &[(u32, char)], letter: char) -> Vec<u32> {
    frames.iter().filter(|(_, drawn)| *drawn == letter).map(|(pfn, _)| *pfn).collect()
}

/// Sets a zone up as `before` draws it, calls `act`, and returns what became of the zone.
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
            engine.free_pages(Pfn::new(pfn), Order::ZERO).expect("it stayed where it was");
        }
    });
    outcome
}

/// Returns the letter of a frame: in a block that can be moved, in one that cannot, or free.
fn letter(engine: &Engine<'_, '_>, pfn: Pfn) -> char {
    match engine.allocated_block(pfn).map(|(head, _)| engine.state(head)) {
        Some(Some(State::Allocated { movable: true, .. })) => 'm',
        Some(_) => 'u',
        None => '.',
    }
}

/// Draws the zone, a row a pageblock.
fn draw(engine: &Engine<'_, '_>, frames: u32) -> Vec<String> {
    let letters: Vec<char> = (0..frames).map(|pfn| letter(engine, Pfn::new(pfn))).collect();
    letters.chunks(ROW.pages() as usize).map(|row| row.iter().collect()).collect()
}

fn ask(engine: &Engine<'_, '_>, gfp: Gfp, order: u8) -> Option<u32> {
    let pfn = engine.alloc_pages(gfp, Order::new(order)).ok()?;
    engine.free_pages(pfn, Order::new(order)).expect("it was just allocated");
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

/// Half of a pageblock: three pairs, and two single pages in between.
const HALF: &str = "m.mm..m.m..m.mm.";
const FULL: &str = "mmmmmmmmmmmmmmmm";
const NONE: &str = "................";

/// Huge pages are asked for by the movable, who have quick searches; by the unmovable, who have not, they are once
/// compaction may wait.
const THP: Gfp = Gfp::TRANSHUGE.union(Gfp::NORETRY);
const UNMOVABLE: Gfp = Gfp::KERNEL.union(Gfp::RETRY_MAYFAIL);

#[test]
fn a_quick_search_takes_pairs_from_the_upper_half_and_leaves_their_blocks() {
    let outcome = compact(&[HALF; 12], |engine, _| assert_eq!(ask(engine, THP, 4), Some(0)));
    // A pair in each of four pageblocks, since an optimist takes nothing around what it found. The first search is
    // deep, and takes the first pair in the upper half.
    let pair = "m.mmmmm.m..m.mm.";
    assert_eq!(outcome.after, [&[NONE], &[HALF; 5][..], &[pair], &[HALF], &[pair; 3], &[HALF]].concat());
    let mut to: Vec<u32> = outcome.moves.iter().map(|&(_, to)| to).collect();
    to.sort_unstable();
    assert_eq!(to, [100, 101, 132, 133, 148, 149, 164, 165]);
    assert_eq!(outcome.scans, [(16, 15, 16)]);
}

#[test]
fn who_waits_takes_what_is_free_around_a_target_too() {
    for order in [2, 4] {
        let outcome = compact(&[HALF; 12], |engine, _| assert_eq!(ask(engine, UNMOVABLE, order), Some(0)));
        assert_eq!(outcome.after, [&[NONE], &[HALF; 5][..], &[FULL], &[HALF; 5]].concat(), "order {order}");
        // Single pages first, in the order of their frames; then the pairs, cut.
        let moves = [(0, 97), (2, 103), (3, 105), (6, 106), (8, 108), (11, 111), (13, 100), (14, 101)];
        assert_eq!(outcome.moves, moves);
        assert_eq!(outcome.scans, [(16, 24, 16)], "eight looks at the lists, sixteen at the block");
    }
}

#[test]
fn unasked_the_whole_zone_is_scanned_from_both_ends_until_it_is_good_enough() {
    let outcome = compact(&[HALF; 12], |engine, _| engine.tick_kcompactd(NODE));
    // Two of six pageblocks that are free in all: a third is above the fifth that is wanted, a sixth is below.
    assert_eq!(outcome.after, [&[NONE; 2], &[HALF; 8][..], &[FULL; 2]].concat());
    assert_eq!(outcome.scans, [(16, 16, 16), (16, 16, 16)]);
    assert_eq!(outcome.moves[7..9], [(14, 181), (16, 161)]);
}

/// A zone whose first pageblock cannot become whole, because of what is at its fifth frame.
fn with_fifth(fifth: char) -> Vec<String> {
    let first = format!("m.m.{fifth}.m.m.m.m.m.");
    let rest = [FULL, HALF, FULL, FULL, FULL, HALF, HALF, HALF, HALF, FULL];
    std::iter::once(first).chain(rest.map(str::to_owned)).collect()
}

#[test]
fn an_optimist_leaves_a_block_at_the_first_page_that_cannot_move() {
    let before = with_fifth('u');
    let outcome = compact(&before, |engine, _| assert_eq!(ask(engine, THP, 4), Some(32)));
    // The block that a quick search chose is given up at its fifth frame, and nothing of it was moved; the next is half
    // full.
    assert_eq!(outcome.scans, [(5, 0, 0), (16, 35, 28), (17, 36, 16)]);
    // Its targets run out before the last four pages of the second pageblock, and the third is emptied instead.
    assert_eq!(outcome.after[..3], [&before[0], "............mmmm", NONE]);
    assert_eq!(outcome.moves[0], (16, 116));
    assert_eq!(
        outcome.after[6..],
        ["mmmmmmmmm.mm.mmm", "m.mmmmmmmm.mmmm.", "mmmmmmmmmmmm.mm.", "m.mmmmmmm..m.mm.", FULL]
    );
}

#[test]
fn who_waits_moves_what_it_can_around_a_page_that_cannot() {
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
fn unasked_the_scan_of_targets_strides_over_what_is_full() {
    let outcome = compact(&with_fifth('u'), |engine, _| engine.tick_kcompactd(NODE));
    // The last pageblock is full: in the one before it every other frame is looked at, until one is free.
    assert_eq!(outcome.scans, [(16, 31, 15), (16, 32, 32)]);
    assert_eq!(outcome.moves[..7], [(0, 151), (2, 153), (6, 159), (8, 129), (10, 148), (12, 149), (14, 132)]);
    assert_eq!(outcome.after[..2], ["....u...........", NONE]);
    assert_eq!(outcome.after[9], "m.mmmmmmmm.m.mmm");
}

/// What is refused stays, and its target serves the next page.
#[test]
fn a_target_that_was_refused_is_used_for_the_next_page() {
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
fn a_pageblock_that_is_almost_free_is_emptied_with_one_move() {
    let before = [&[".........m......", FULL, FULL], &[HALF; 8][..]].concat();
    for (gfp, scanned) in [(THP, 17), (UNMOVABLE, 16)] {
        let outcome = compact(&before, |engine, _| assert_eq!(ask(engine, gfp, 4), Some(0)));
        // The movable request asks the lists for a source: one look.
        assert_eq!((outcome.moves, outcome.scans), (vec![(9, 84)], vec![(scanned, 7, 3)]));
    }
    let outcome = compact(&before, |engine, _| engine.tick_kcompactd(NODE));
    assert_eq!((outcome.moves, outcome.scans), (vec![(9, 161)], vec![(16, 2, 2)]));
}
