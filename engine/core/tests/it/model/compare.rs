//! Comparison of the engine's state with the reference's: every list in its exact order, and every counter.

use freehold::base::{CpuId, MigrateType, Order, Pfn, State};
use freehold::page::{PCP_LISTS, PageAllocator, Zone, ZoneFlag};

use crate::common::Host;
use crate::model::reference::map::Page;
use crate::model::reference::zone;
use crate::model::reference::{Reference, Tally};

type Engine<'a, 'h> = PageAllocator<'a, Host<'h>>;

/// Returns an error that describes the first difference.
pub(super) fn states(engine: &Engine<'_, '_>, reference: &Reference) -> Result<(), String> {
    for zone in engine.zones() {
        let expected = &reference.zones[zone.index()];
        let name = format!("node {} zone {}", zone.node().0, zone.kind().name());
        counters(zone, expected).map_err(|what| format!("{name}: {what}"))?;
        let (found, expected_few) = (zone.has(ZoneFlag::FewWhole), reference.has_few_whole(zone.index()));
        if found != expected_few {
            return Err(format!("{name}: few whole pageblocks is {found}, the rules say {expected_few}"));
        }
        free_lists(engine, zone, expected).map_err(|what| format!("{name}: {what}"))?;
        for cpu in engine.cpu_ids() {
            let what = per_cpu_lists(engine, cpu, zone, reference);
            let what = what.and_then(|()| estate(engine, cpu, zone, reference));
            what.map_err(|what| format!("{name}, CPU {}: {what}", cpu.0))?;
        }
    }
    let (found, expected) = (counted(engine), reference.tally);
    if found != expected {
        return Err(format!("{found:?} were counted, the rules say {expected:?}"));
    }
    frames(engine, reference)?;
    for pfn in engine.map().pageblocks() {
        let Some(zone) = reference.map.zone(pfn.raw()) else { continue };
        let (found, expected) = (engine.map().pageblock(pfn).migratetype(), reference.map.type_of(pfn.raw()));
        if found != expected {
            return Err(format!("pageblock {pfn} of zone {zone} is {found}, the rules say {expected}"));
        }
        let owner = engine.map().pageblock(pfn).owner().map(CpuId::index);
        let expected = reference.map.owner(pfn.raw());
        if owner != expected {
            return Err(format!("pageblock {pfn} of zone {zone} is CPU {owner:?}'s, the rules say {expected:?}"));
        }
    }
    Ok(())
}

/// Returns the engine's counters of the events that the reference counts.
fn counted(engine: &Engine<'_, '_>) -> Tally {
    let counts = engine.platform().events.counts();
    let stalls = [counts.allocstall_dma, counts.allocstall_dma32, counts.allocstall_normal, counts.allocstall_movable];
    Tally {
        allocstall: stalls.iter().sum(),
        pgscan_direct: counts.pgscan_direct,
        pgsteal_direct: counts.pgsteal_direct,
        pgscan_kswapd: counts.pgscan_kswapd,
        pgsteal_kswapd: counts.pgsteal_kswapd,
        pageoutrun: counts.pageoutrun,
        compact_stall: counts.compact_stall,
        compact_success: counts.compact_success,
        compact_daemon_wake: counts.compact_daemon_wake,
        migrations: counts.migrations,
        migrations_refused: counts.migrations_refused,
        broken_promises: counts.broken_promises,
    }
}

/// Compares the use of each frame.
fn frames(engine: &Engine<'_, '_>, reference: &Reference) -> Result<(), String> {
    let mut at = 0;
    while at < reference.map.end() {
        let state = engine.state(Pfn::new(at));
        let (found, order) = match state {
            Some(State::ZoneFree { order, .. }) => (Page::Free, order),
            Some(State::PcpCached { order, .. }) => (Page::Listed, order),
            Some(State::RemotePending { order }) => (Page::Stacked, order),
            Some(State::Allocated { order, movable, .. }) => (if movable { Page::Movable } else { Page::Fixed }, order),
            _ => (Page::Gone, Order::ZERO),
        };
        for pfn in at..at + order.pages() {
            let expected = reference.map.page(pfn);
            if found != expected {
                return Err(format!("frame {pfn:#x} of {at:#x} {state:?} is {found:?}, the rules say {expected:?}"));
            }
        }
        at += order.pages();
    }
    Ok(())
}

fn counters<L>(zone: &Zone<L>, expected: &zone::Zone) -> Result<(), String> {
    let pairs = [
        ("free", zone.free_pages(), expected.nr_free()),
        ("boost", zone.boost(), expected.boost),
        ("reserved_highatomic", zone.reserved_highatomic(), expected.reserved_highatomic),
        ("below high", u64::from(zone.has(ZoneFlag::BelowHigh)), i64::from(expected.below_high)),
        ("near high", u64::from(zone.has(ZoneFlag::NearHigh)), i64::from(expected.is_near_high())),
        ("boosted", u64::from(zone.has(ZoneFlag::BoostedWatermark)), i64::from(expected.boosted)),
    ];
    match pairs.into_iter().find(|&(_, found, expected)| found as i64 != expected) {
        Some((name, found, expected)) => Err(format!("{name} is {found}, the rules say {expected}")),
        None => Ok(()),
    }
}

fn free_lists(
    engine: &Engine<'_, '_>,
    zone: &Zone<<Host<'_> as freehold::platform::Platform>::Lock>,
    expected: &zone::Zone,
) -> Result<(), String> {
    zone.inspect(|areas| {
        for order in Order::all() {
            for migratetype in MigrateType::ALL {
                let list = areas.area(order).list(migratetype);
                let expected = &expected.lists[order.index()][migratetype.index()];
                if !list.iter(engine.map()).map(Pfn::raw).eq(expected.iter().copied()) {
                    let found: Vec<Pfn> = list.iter(engine.map()).collect();
                    return Err(format!("order {order} {migratetype} is {found:?}, the rules say {expected:x?}"));
                }
            }
        }
        Ok(())
    })
}

fn per_cpu_lists(
    engine: &Engine<'_, '_>,
    cpu: CpuId,
    zone: &Zone<<Host<'_> as freehold::platform::Platform>::Lock>,
    reference: &Reference,
) -> Result<(), String> {
    let expected = &reference.lists[cpu.index()][zone.index()];
    engine.pcp(cpu, zone).inspect(|lists| {
        if i64::from(lists.high()) != expected.high {
            return Err(format!("high is {}, the rules say {}", lists.high(), expected.high));
        }
        for index in 0..PCP_LISTS {
            let found = lists.list(index).iter(engine.map()).map(Pfn::raw);
            let expected = expected.lists.get(index).into_iter().flatten().copied();
            if !found.eq(expected.clone()) {
                let found: Vec<Pfn> = lists.list(index).iter(engine.map()).collect();
                let expected: Vec<Pfn> = expected.map(Pfn::new).collect();
                return Err(format!("list {index} is {found:?}, the rules say {expected:?}"));
            }
        }
        Ok(())
    })
}

/// Compares the pages on a CPU's stack, and the CPU's pageblocks that have pages in the zone.
fn estate(
    engine: &Engine<'_, '_>,
    cpu: CpuId,
    zone: &Zone<<Host<'_> as freehold::platform::Platform>::Lock>,
    reference: &Reference,
) -> Result<(), String> {
    let (found, expected) = (engine.pcp(cpu, zone).waiting(), reference.lists[cpu.index()][zone.index()].stacked());
    if i64::from(found) != expected {
        return Err(format!("{found} pages wait on the stack, the rules say {expected}"));
    }
    for migratetype in MigrateType::ALL.into_iter().take(MigrateType::PCP_COUNT) {
        let found: Vec<u32> = engine.fragments(cpu, zone).list(migratetype).iter(engine.map()).map(Pfn::raw).collect();
        let expected = reference.map.parts_of(cpu.index(), zone.index(), migratetype);
        if found != expected {
            return Err(format!("{migratetype} blocks in part are {found:x?}, the rules say {expected:x?}"));
        }
    }
    Ok(())
}
