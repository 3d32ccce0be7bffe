//! Restores the recorded start state in the engine.
//!
//! Pageblock types come first, then allocated blocks, then free ones, and the per-CPU lists last. Each list is filled
//! in the reverse order of use, so that the page that was used first is at the head. A policy that keeps less on its
//! lists passes the rest to the zone with its first frees, as usual.

use freehold::base::{CpuId, Gfp, MigrateType, NodeId, Order, Pfn};
use freehold::page::Mobility;
use freehold_trace::facts::Facts;

use super::cached;
use super::settings::Situation;
use super::survey::{AllocatedBlocks, CachedBlock, Survey};
use super::{Engine, machine};

/// Restores the recorded start state, adjusted to the replay's settings. All frames must be Reserved before the call.
pub(crate) fn restore(engine: &mut Engine<'_>, situation: &Situation<'_>, survey: &Survey) {
    for typed in &survey.pageblocks {
        set_types(engine, typed.pfn, typed.blocks, typed.migratetype);
    }
    survey.allocated.iter().for_each(|owned| take_in_all(engine, owned));
    engine.restore().pass_over_huge_pages();
    survey.free.iter().for_each(|loose| release(engine, loose.pfn, loose.order));
    let mut cached = cached::blocks(situation.recorded, survey);
    let surplus = cached::surplus(situation, &mut cached);
    surplus.iter().for_each(|block| release(engine, block.pfn, block.order));
    for block in &cached {
        adopt(engine, block.pfn, block.order);
    }
    for &pfn in &survey.untouched {
        adopt(engine, pfn, 0);
    }
    machine::restore_watermarks(engine, &situation.facts);
    fill_lists(engine, &cached);
    restore_limits(engine, &situation.facts);
    restore_deferrals(engine, situation.recorded, survey);
}

fn set_types(engine: &Engine<'_>, pfn: u32, blocks: u32, migratetype: i8) {
    let Some(migratetype) = self::migratetype(migratetype) else { return };
    let step = engine.map().pageblock_order().pages();
    for block in 0..blocks {
        let pfn = Pfn::new(pfn + block * step);
        // A recording may name more pageblocks than its zones contain.
        let _ = engine.set_pageblock_type(pfn, migratetype);
    }
}

/// Makes a block free.
fn release(engine: &Engine<'_>, pfn: u32, order: u8) {
    let _ = engine.release(Pfn::new(pfn), Pfn::new(pfn + (1 << order)));
}

/// Adopts blocks as allocated. Single pages are adopted in one call.
fn take_in_all(engine: &Engine<'_>, owned: &AllocatedBlocks) {
    let (mobility, gfp) = match owned.movable {
        true => (Mobility::Movable, Gfp::HIGHUSER_MOVABLE),
        false => (Mobility::Fixed, Gfp::KERNEL),
    };
    let (start, pages) = (Pfn::new(owned.pfn), owned.blocks << owned.order);
    if owned.order > 0 || engine.adopt_each(start, start.offset(pages), mobility).is_err() {
        owned.heads().for_each(|pfn| take_in(engine, pfn, owned.order, mobility, gfp));
    }
}

/// Adopts a block as allocated. A block of several pages becomes compound, since page flags distinguish only compound
/// blocks from single pages and compaction treats it as such. It is released and allocated again at once, while there
/// is no free block with which it could merge.
fn take_in(engine: &Engine<'_>, pfn: u32, order: u8, mobility: Mobility, gfp: Gfp) {
    for (at, piece) in pieces(pfn, order) {
        if piece == Order::ZERO {
            let _ = engine.adopt(at, piece, mobility);
        } else if engine.release(at, at.offset(piece.pages())).is_ok() {
            let _ = engine.isolate_free_page(at, piece, gfp | Gfp::COMP);
        }
    }
}

/// Adopts a block as allocated, for the caller to process further.
fn adopt(engine: &Engine<'_>, pfn: u32, order: u8) {
    for (at, piece) in pieces(pfn, order) {
        let _ = engine.adopt(at, piece, Mobility::Fixed);
    }
}

/// Splits a block into pieces of valid order and alignment. Frames in no zone and frames that were named twice are
/// skipped by the engine's calls.
fn pieces(pfn: u32, order: u8) -> impl Iterator<Item = (Pfn, Order)> {
    let start = Pfn::new(pfn);
    start.blocks_up_to(start.offset(1 << order), Order::MAX)
}

fn fill_lists(engine: &mut Engine<'_>, cached: &[CachedBlock]) {
    for block in cached.iter().rev() {
        let cpu = CpuId(block.cpu % engine.cpus());
        let migratetype = match migratetype(block.migratetype) {
            Some(own @ (MigrateType::Unmovable | MigrateType::Movable | MigrateType::Reclaimable)) => own,
            _ => MigrateType::Movable,
        };
        if let Some(order) = Order::from_u8(block.order) {
            let _ = engine.restore().put_on_pcp(cpu, Pfn::new(block.pfn), order, migratetype);
        }
    }
}

fn migratetype(number: i8) -> Option<MigrateType> {
    MigrateType::ALL.get(usize::try_from(number).ok()?).copied()
}

/// Sets the lists' limits to those of `facts`: the recorded ones, adjusted to the replay's settings.
fn restore_limits(engine: &mut Engine<'_>, facts: &Facts) {
    for (recorded, kind) in machine::zones(facts) {
        for cpu in engine.cpu_ids() {
            let high = recorded.pcp.iter().find(|list| list.cpu == cpu.0).map(|list| list.high);
            engine.restore().set_pcp_high(cpu, NodeId(recorded.node as u8), kind, high);
        }
    }
}

/// Defers compaction in the zones in which the recorded kernel deferred it. A deferral of this length is for huge pages.
fn restore_deferrals(engine: &mut Engine<'_>, recorded: &Facts, survey: &Survey) {
    for (zone, kind) in machine::zones(recorded) {
        if let Some(deferred) = survey.deferred.iter().find(|deferred| deferred.start_pfn == zone.start_pfn) {
            let order = engine.map().pageblock_order();
            engine.restore().resume_deferral(NodeId(zone.node as u8), kind, order, deferred.skipped);
        }
    }
}
