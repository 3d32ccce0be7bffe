//! Shared parts of the tests: a seeded stream of numbers, and small recordings made from it.

pub(crate) mod plain;

use std::path::Path;

use freehold_trace::event::{NO_MIGRATETYPE, NO_PFN, class, migratetype};
use freehold_trace::facts::Task;
use freehold_trace::{Error, Facts, Kind, Reader, Row, Writer};

/// SplitMix64 generator: the same seed gives the same numbers on every machine.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Returns facts that fit [`rows`].
pub(crate) fn facts() -> Facts {
    Facts {
        writer: "test".to_owned(),
        kernel_release: "6.12.0".to_owned(),
        page_size: 4096,
        pageblock_order: 9,
        cpus: 4,
        tasks: ["", "cc", "ld"].map(|name| Task { pid: 7, name: name.to_owned() }).to_vec(),
        ..Facts::default()
    }
}

/// Returns the rows of a valid recording with this many events between a start and an end state.
pub(crate) fn rows(seed: u64, events: usize) -> Vec<Row> {
    let mut numbers = Numbers(seed);
    let mut rows = vec![
        Row { pfn: 0x100, order: 3, migratetype: migratetype::MOVABLE, ..Row::new(Kind::StartFree) },
        Row { pfn: 0x200, order: 0, args: [17, class::ANON | class::LRU, 0], ..Row::new(Kind::StartAllocated) },
        Row { pfn: 0x240, args: [3, 0, 0], ..Row::new(Kind::StartUnknown) },
        Row { pfn: 0, migratetype: migratetype::UNMOVABLE, args: [1, 2, 0], ..Row::new(Kind::StartPageblock) },
    ];
    let mut time = 0;
    rows.extend((0..events).map(|_| {
        time += numbers.below(4000);
        event(&mut numbers, time)
    }));
    rows.push(Row { time, pfn: 0x100, order: 2, ..Row::new(Kind::EndFree) });
    rows
}

fn event(numbers: &mut Numbers, time: u64) -> Row {
    let place = Row { time, cpu: numbers.below(4) as u16, task: numbers.below(3) as u32, ..Row::new(Kind::Free) };
    let pfn = numbers.below(1 << 20);
    match numbers.below(8) {
        0..=3 => Row { kind: Kind::Alloc, pfn, gfp: 0x0010_0cca, migratetype: migratetype::MOVABLE, ..place },
        4 => Row { kind: Kind::Alloc, pfn: NO_PFN, order: 9, gfp: u32::MAX, migratetype: NO_MIGRATETYPE, ..place },
        5 => Row { kind: Kind::ExtFrag, pfn, args: [4, 1, 0], ..place },
        6 => Row { kind: Kind::AllocVmapArea, args: [i64::MAX, i64::MIN, -1], ..place },
        _ => Row { pfn, order: numbers.below(4) as u8, ..place },
    }
}

/// Writes a recording.
pub(crate) fn write(path: &Path, rows: &[Row], facts: &Facts) -> Result<(), Error> {
    let mut writer = Writer::create(path)?;
    for row in rows {
        writer.push(row)?;
    }
    writer.finish(facts)
}

/// Reads a recording to its end.
pub(crate) fn read(path: &Path) -> Result<(Facts, Vec<Row>), Error> {
    let reader = Reader::open(path)?;
    let rows = reader.rows().collect::<Result<_, _>>()?;
    Ok((reader.facts().clone(), rows))
}
