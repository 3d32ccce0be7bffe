//! A start as a snapshot: a file like those of `freehold snapshot`, of a machine that was never booted.
//!
//! Its zones, watermarks and limits of lists are those that the engine gives a machine of this size.

use std::path::Path;

use freehold::base::{CpuId, Pfn};
use freehold::page::Zone;
use freehold::platform::host::Solo;
use freehold::platform::{NoProbe, Platform};
use freehold::{PageAllocator, Policy};
use freehold_report::origin::Program;
use freehold_report::progress::Progress;
use freehold_trace::event::{Kind, Row, class};
use freehold_trace::facts::{Facts, PcpFacts, TypeFacts, ZoneFacts};
use freehold_trace::{Error, Writer};

use super::{Figures, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Run, Start, Use};
use crate::machine::Machine;

/// Kernel release in the snapshot, whose rules the layout of the machine follows.
const KERNEL: &str = "6.12.0-freehold";

/// Writes a start for a machine of this shape to a file, and returns the number of its rows. Leaves no file behind if
/// it cannot be written completely.
///
/// # Errors
/// Returns an error if the file cannot be written.
///
/// # Panics
/// Panics if the machine cannot be built.
pub fn write(start: &Start, machine: &Machine, cpus: u16, path: &Path) -> Result<u64, Error> {
    let mut writer = Writer::create(path)?;
    let progress = Progress::counting("writing", start.len() as u64, "pageblocks");
    state_rows(start).try_for_each(|row| {
        progress.advance(u64::from(row.kind == Kind::StartPageblock));
        writer.push(&row)
    })?;
    let rows = writer.rows();
    writer.finish(&facts(start, machine, cpus))?;
    Ok(rows)
}

/// Returns the rows of a start, as in a snapshot.
pub fn state_rows(start: &Start) -> impl Iterator<Item = Row> {
    (0..).zip(start.pageblocks()).flat_map(|(number, pageblock)| {
        let first = number * u64::from(PAGEBLOCK_PAGES);
        let migratetype = pageblock.migratetype as i8;
        let own = Row { pfn: first, migratetype, args: [0, 1, 0], ..Row::new(Kind::StartPageblock) };
        let places = pageblock.runs.iter().scan(first, |next, run| {
            let at = *next;
            *next += u64::from(run.pages());
            Some((at, run))
        });
        std::iter::once(own).chain(places.flat_map(move |(at, run)| rows(at, run, migratetype)))
    })
}

/// Returns the rows of a run: one for each block of free pages, otherwise a single row.
fn rows(at: u64, run: &Run, migratetype: i8) -> impl Iterator<Item = Row> {
    let class = match run.what {
        // A fixed page only counts as allocated; the class of a slab could be read as reclaimable.
        Use::Free | Use::Fixed => 0,
        Use::Reclaimable => class::SLAB,
        Use::Inactive => class::LRU | class::FILE,
        Use::Active => class::LRU | class::FILE | class::ACTIVE,
        Use::Task if run.order == PAGEBLOCK_ORDER => class::LRU | class::ANON | class::THP,
        Use::Task => class::LRU | class::ANON,
    };
    let start = Pfn::new(at as u32);
    let is_free = run.what == Use::Free;
    let free = start.blocks_up_to(start.offset(if is_free { run.pages() } else { 0 }), freehold::base::Order::MAX);
    let free_rows = free.map(move |(pfn, order)| Row {
        pfn: pfn.raw().into(),
        order: order.get(),
        migratetype,
        ..Row::new(Kind::StartFree)
    });
    let allocated =
        Row { pfn: at, order: run.order, args: [run.blocks.into(), class, 0], ..Row::new(Kind::StartAllocated) };
    free_rows.chain((!is_free).then_some(allocated))
}

/// Returns the facts about the machine in a snapshot of a start.
///
/// # Panics
/// Panics if the machine cannot be built.
pub fn facts(start: &Start, machine: &Machine, cpus: u16) -> Facts {
    let described =
        machine.run_released(Solo::<NoProbe>::default(), cpus, Policy::LINUX_6_12, |allocator| zones(allocator, start));
    let zones = described.expect("the machine was checked before");
    Facts {
        writer: Program::this().version(),
        kernel_release: KERNEL.to_owned(),
        machine: "x86_64".to_owned(),
        page_size: 4096,
        pageblock_order: PAGEBLOCK_ORDER,
        cpus,
        ram: zones.iter().map(|zone| (zone.start_pfn, zone.start_pfn + zone.spanned)).collect(),
        pagetypeinfo_start: zones.iter().flat_map(|zone| types(start, zone)).collect(),
        zones_end: zones.clone(),
        zones_start: zones,
        notes: vec!["drawn at random, not recorded on a machine".to_owned()],
        ..Facts::default()
    }
}

/// Returns the zones as the engine lays them out, with the free pages of the start.
fn zones(allocator: &PageAllocator<'_, Solo<NoProbe>>, start: &Start) -> Vec<ZoneFacts> {
    let populated = allocator.zones().iter().filter(|zone| zone.is_populated());
    populated
        .map(|zone| {
            let ((first, end), marks) = (zone.span(), zone.watermarks());
            let pages = (first.raw().into(), u64::from(end.raw()));
            let pcp = allocator.cpu_ids().map(|cpu| list_facts(allocator, zone, cpu));
            ZoneFacts {
                node: zone.node().0.into(),
                name: zone.kind().name().to_owned(),
                start_pfn: pages.0,
                spanned: pages.1 - pages.0,
                present: zone.present(),
                managed: zone.managed(),
                free: part(start, pages).free,
                min: marks.min,
                low: marks.low,
                high: marks.high,
                pcp: pcp.collect(),
                ..ZoneFacts::default()
            }
        })
        .collect()
}

/// Returns the facts about the empty per-CPU list of a zone.
fn list_facts(
    allocator: &PageAllocator<'_, Solo<NoProbe>>,
    zone: &Zone<<Solo<NoProbe> as Platform>::Lock>,
    cpu: CpuId,
) -> PcpFacts {
    let (high, limits) = allocator.pcp(cpu, zone).inspect(|lists| (lists.high(), lists.limits()));
    PcpFacts { cpu: cpu.0, count: 0, high, batch: limits.batch, high_min: limits.high_min, high_max: limits.high_max }
}

/// Returns the figures of the pageblocks between two frames.
fn part(start: &Start, (first, end): (u64, u64)) -> Figures {
    let numbers = first >> PAGEBLOCK_ORDER..end >> PAGEBLOCK_ORDER;
    Figures::from_pageblocks(
        numbers.filter_map(|number| u32::try_from(number).ok()).map(|number| start.pageblock(number)),
    )
}

/// Returns the number of pageblocks of each type in a zone.
fn types<'s>(start: &'s Start, zone: &'s ZoneFacts) -> impl Iterator<Item = TypeFacts> + 's {
    let numbers =
        (zone.start_pfn >> PAGEBLOCK_ORDER) as u32..((zone.start_pfn + zone.spanned) >> PAGEBLOCK_ORDER) as u32;
    freehold::base::MigrateType::ALL.into_iter().map(move |migratetype| TypeFacts {
        node: zone.node,
        zone: zone.name.clone(),
        migratetype: migratetype as i8,
        free: Vec::new(),
        pageblocks: numbers.clone().filter(|&number| start.pageblock(number).migratetype == migratetype).count() as u64,
    })
}
