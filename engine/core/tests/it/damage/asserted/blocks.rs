//! Damage to pageblocks: type, zone, owner and isolation, and the table that leads to pageblocks.

use freehold::base::{CpuId, MigrateType, Pfn};
use freehold::page::damage::{Field, SectionPart};

use super::Row;
use crate::damage::stage::{MOVABLE, PAGEBLOCK, Stage};

/// Requests a pageblock that contains a page whose move is refused, and damages one of the pageblock's fields during
/// the request.
fn isolate_meanwhile(stage: &'static Stage, meddle: fn(&Stage)) {
    let page = stage.take(0);
    assert_eq!(page, Pfn::new(0), "the scene needs a page of the first pageblock");
    stage.spoil_when_asked(meddle);
    want_first(stage);
    stage.free(page, 0);
}

fn want_first(stage: &Stage) {
    let wanted = Pfn::new(0)..Pfn::new(PAGEBLOCK);
    if stage.engine.alloc_contig_range(wanted.clone(), MOVABLE).is_ok() {
        stage.engine.free_contig_range(wanted).expect("the test holds these pages");
    }
}

fn spoil_first(stage: &Stage, field: Field, value: u32) {
    stage.spoil(|damage| damage.set_pageblock(Pfn::new(0), field, value));
}

/// Frees a page of a pageblock after one field of the pageblock was damaged.
fn free_into(stage: &'static Stage, field: Field, value: u32) {
    let page = stage.take(0);
    stage.spoil(|damage| damage.set_pageblock(page, field, value));
    stage.free(page, 0);
}

pub(super) const ROWS: &[Row] = &[
    Row::listed("number of a type", "pageblock: 9 is not the number of a migratetype", |stage| {
        free_into(stage, Field::MigrateType, 9);
    }),
    Row::bare(
        "number of a zone that there is not",
        "zones: a pageblock belongs to zone 77, but there are 4",
        |stage| {
            free_into(stage, Field::Zone, 77);
        },
    ),
    Row::bare("number of another zone", "zone: 1 pages are free, but only 0 are managed", |stage| {
        free_into(stage, Field::Zone, 1);
    }),
    Row::bare("zone of a free block", "zone: frame 0x0 belongs to zone 1, but is on the lists of zone 2", |stage| {
        spoil_first(stage, Field::Zone, 1);
        stage.take(10);
    }),
    Row::listed("owner that there is not", "per-CPU lists: CPU 8 does not exist; there are 2", |stage| {
        free_into(stage, Field::Owner, 9);
    }),
    Row::owned(
        "owner of a whole pageblock",
        "pageblock: owned by CPU 1, but the new owner is Some(CpuId(0))",
        |stage| {
            spoil_first(stage, Field::Owner, 2);
            stage.take(0);
        },
    ),
    Row::bare("isolated, and not for Isolate", "pageblock: isolated 3 times, but its type is Movable", |stage| {
        spoil_first(stage, Field::Isolations, 3);
        want_first(stage);
    }),
    Row::bare("for Isolate, and not isolated", "pageblock: isolated 0 times, but its type is Isolate", |stage| {
        spoil_first(stage, Field::MigrateType, MigrateType::Isolate as u32);
        stage.spoil(|damage| damage.set_pageblock(Pfn::new(0), Field::Kept, 1));
        want_first(stage);
    }),
    Row::bare("count of isolations, while isolated", "pageblock: isolated 0 times, so no isolation can end", |stage| {
        isolate_meanwhile(stage, |stage| spoil_first(stage, Field::Isolations, 0));
    }),
    Row::bare("type, while isolated", "pageblock: isolated 1 times, but its type is Movable", |stage| {
        isolate_meanwhile(stage, |stage| spoil_first(stage, Field::MigrateType, MigrateType::Movable as u32));
    }),
    Row::bare("kept type, while isolated", "pageblock: the saved type 7 is not a type that requests have", |stage| {
        isolate_meanwhile(stage, |stage| spoil_first(stage, Field::Kept, 7));
    }),
    Row::bare(
        "zone, while isolated",
        "isolation: pageblock 0x0 belongs to zone 1, but is isolated in zone 2",
        |stage| {
            isolate_meanwhile(stage, |stage| spoil_first(stage, Field::Zone, 1));
        },
    ),
    Row::owned("link to the pageblock before", "block list: pageblock 0x200 is not after 0x5", |stage| {
        stage.two_fragments();
        stage.spoil(|damage| damage.set_pageblock(Pfn::new(PAGEBLOCK), Field::Prev, 5));
        stage.engine.cpu_dead(CpuId(0));
    }),
    Row::owned("link to the pageblock after", "block list: pageblock 0x0 is not before 0x5", |stage| {
        stage.two_fragments();
        stage.spoil(|damage| damage.set_pageblock(Pfn::new(0), Field::Next, 5));
        stage.engine.cpu_dead(CpuId(0));
    }),
    Row::owned("ends of the pageblocks owned in part", "block list: pageblock 0x0 is not before 0xffffffff", |stage| {
        stage.two_fragments();
        let second = Some(Pfn::new(PAGEBLOCK));
        stage.spoil(|damage| damage.set_fragments(CpuId(0), stage.zone(), MigrateType::Movable, second, second));
        stage.engine.cpu_dead(CpuId(0));
    }),
    Row::owned(
        "a pageblock that looks like one on no list",
        "block list: the tail, pageblock 0x0, has a successor",
        |stage| {
            stage.two_fragments();
            spoil_first(stage, Field::Next, u32::MAX - 2);
            stage.take(0);
            stage.engine.drain_pages_zone(CpuId(0), stage.zone());
        },
    ),
    Row::owned(
        "owner of a pageblock owned in part",
        "fragments: pageblock Some(0x0) is on the list of CPU 0",
        |stage| {
            stage.two_fragments();
            spoil_first(stage, Field::Owner, 0);
            stage.take(0);
        },
    ),
    Row::owned(
        "owner of a pageblock whose type changes",
        "fragments: pageblock 0x0 has no owner, but is on the list",
        |stage| {
            let pages = stage.two_fragments();
            spoil_first(stage, Field::Owner, 0);
            want_first(stage);
            pages.into_iter().for_each(|page| stage.free(page, 0));
        },
    ),
    Row::bare("pageblocks of a section", "memory map: frame 0x0 was published before its pageblock", |stage| {
        let page = stage.take(0);
        stage.spoil(|damage| damage.set_section(0, SectionPart::Pageblocks));
        stage.free(page, 0);
    }),
    Row::bare("frames of a section", "not aligned", |stage| {
        let page = stage.take(0);
        stage.spoil(|damage| damage.set_section(0, SectionPart::Frames));
        assert!(stage.engine.state(page).is_some());
    }),
];
