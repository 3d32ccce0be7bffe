//! The platform's decision about a block that the scanner of sources reaches: it comes before a place is taken for the
//! block, and gets the flags and the effort of the request.

use freehold::base::{Gfp, NodeId, Order};
use freehold::page::Background;
use freehold::platform::CompactEffort;

use crate::compaction::{BLOCK, config, half_of, huge_page, whole_pageblocks, with_full_machine};

/// Readahead of a large folio, which lacks FS. linux: include/linux/pagemap.h:readahead_gfp_mask
const READ_AHEAD: Gfp =
    Gfp::HIGHUSER_MOVABLE.union(Gfp::COMP).union(Gfp::NORETRY).union(Gfp::NOWARN).difference(Gfp::FS);

#[test]
fn request_without_fs_moves_no_page_of_a_file_and_takes_no_target() {
    with_full_machine(8, &config(), |engine, mover| {
        mover.files.set(true);
        mover.free(engine, half_of(0..8));
        assert_eq!(huge_page(engine, READ_AHEAD), None);
        let counts = engine.platform().events.counts();
        assert_eq!((mover.moves.borrow().len(), mover.refused.get()), (0, 0), "no page was isolated");
        assert_eq!(counts.compact_free_scanned, 0, "no free page is taken for a page that stays");
        assert!(counts.compact_migrate_scanned > 0);
        assert!(mover.asked.borrow().iter().all(|asked| asked.gfp == READ_AHEAD && asked.order == Order::ZERO));
    });
}

#[test]
fn request_moves_pages_of_files_with_fs_and_anonymous_pages_without() {
    for (files, gfp) in [(true, READ_AHEAD | Gfp::FS), (false, READ_AHEAD)] {
        with_full_machine(8, &config(), |engine, mover| {
            mover.files.set(files);
            mover.free(engine, half_of(0..8));
            assert!(huge_page(engine, gfp).is_some(), "{gfp:?}");
        });
    }
}

#[test]
fn kcompactd_moves_pages_of_files() {
    with_full_machine(16, &config(), |engine, mover| {
        mover.files.set(true);
        mover.free(engine, half_of(0..16));
        engine.tick_kcompactd(NodeId(0));
        while engine.run_kcompactd(NodeId(0)) == Background::Working {}
        assert!(whole_pageblocks(engine) >= 2);
        assert!(mover.asked.borrow().iter().all(|asked| asked.effort == CompactEffort::SyncLight));
    });
}

/// Returns half of the pages in the second half of each pageblock.
fn second_halves() -> impl Iterator<Item = u32> {
    half_of(0..16).filter(|pfn| pfn % BLOCK >= BLOCK / 2)
}

/// A file's block of an order below the wanted one counts as one scanned frame where it ends the search of a pageblock,
/// since the scanner leaves at its first frame. linux: mm/compaction.c:isolate_migratepages_block
#[test]
fn large_block_that_stays_counts_as_one_scanned_frame() {
    with_full_machine(16, &config(), |engine, mover| {
        mover.files.set(true);
        mover.free(engine, (0..16).flat_map(|block| block * BLOCK..block * BLOCK + BLOCK / 2).chain(second_halves()));
        (0..16).for_each(|block| mover.own_block(engine, block * BLOCK, Order::new(8)));
        assert_eq!(huge_page(engine, READ_AHEAD), None);
        let counts = engine.platform().events.counts();
        assert!((1..BLOCK.into()).contains(&counts.compact_migrate_scanned), "{}", counts.compact_migrate_scanned);
    });
}
