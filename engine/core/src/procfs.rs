//! Texts in Linux's format for existing scripts: buddyinfo, pagetypeinfo, zoneinfo, slabinfo.
//!
//! Each function writes one text from the allocator's current state. Other CPUs continue meanwhile, so the numbers of a
//! text may not agree: each number of free blocks is read under the zone's lock, which is released in between, and
//! counters are read without a lock. As in Linux, only zones with memory are shown. Slabs are counted without a lock.
//!
//! linux: mm/vmstat.c:frag_show_print, pagetypeinfo_showfree_print, zoneinfo_show_print; mm/slab_common.c:cache_show

use core::fmt::{self, Write};

use crate::base::{MigrateType, NodeId, Order};
use crate::page::{PageAllocator, Zone};
use crate::platform::Platform;
use crate::slab::{CpuLocal, SlabAllocator};

/// Writes `/proc/buddyinfo`: free blocks by order.
///
/// # Errors
/// If `out` fails.
pub fn buddyinfo<P: Platform>(allocator: &PageAllocator<'_, P>, out: &mut impl Write) -> fmt::Result {
    for zone in populated(allocator) {
        write!(out, "Node {}, zone {:>8} ", zone.node().0, zone.kind().name())?;
        for order in Order::all() {
            write!(out, "{:6} ", zone.inspect(|areas| areas.area(order).nr_free()))?;
        }
        out.write_char('\n')?;
    }
    Ok(())
}

/// Writes `/proc/pagetypeinfo`: for each node, free blocks by type and order, then pageblocks by type.
///
/// # Errors
/// If `out` fails.
pub fn pagetypeinfo<P: Platform>(allocator: &PageAllocator<'_, P>, out: &mut impl Write) -> fmt::Result {
    for node in (0..allocator.nodes()).map(NodeId) {
        if populated(allocator).any(|zone| zone.node() == node) {
            blocks_by_type_and_order(allocator, node, out)?;
            pageblocks_by_type(allocator, node, out)?;
        }
    }
    Ok(())
}

fn blocks_by_type_and_order<P: Platform>(
    allocator: &PageAllocator<'_, P>,
    node: NodeId,
    out: &mut impl Write,
) -> fmt::Result {
    let block = allocator.map().pageblock_order();
    writeln!(out, "Page block order: {block}\nPages per block:  {}\n", block.pages())?;
    write!(out, "{:<43} ", "Free pages count per migrate type at order")?;
    for order in Order::all() {
        write!(out, "{order:6} ")?;
    }
    out.write_char('\n')?;
    for zone in populated(allocator).filter(|zone| zone.node() == node) {
        for migratetype in MigrateType::ALL {
            let (node, kind) = (zone.node().0, zone.kind().name());
            write!(out, "Node {node:4}, zone {kind:>8}, type {migratetype:>12} ")?;
            for order in Order::all() {
                write!(out, "{:6} ", zone.inspect(|areas| areas.area(order).len(migratetype)))?;
            }
            out.write_char('\n')?;
        }
    }
    Ok(())
}

fn pageblocks_by_type<P: Platform>(
    allocator: &PageAllocator<'_, P>,
    node: NodeId,
    out: &mut impl Write,
) -> fmt::Result {
    write!(out, "\n{:<23}", "Number of blocks type ")?;
    for migratetype in MigrateType::ALL {
        write!(out, "{migratetype:>12} ")?;
    }
    out.write_char('\n')?;
    for zone in populated(allocator).filter(|zone| zone.node() == node) {
        write!(out, "Node {}, zone {:>8} ", node.0, zone.kind().name())?;
        for count in pageblock_counts(allocator, zone) {
            write!(out, "{count:12} ")?;
        }
        out.write_char('\n')?;
    }
    Ok(())
}

/// Returns the number of pageblocks of a zone by migratetype.
pub fn pageblock_counts<P: Platform>(
    allocator: &PageAllocator<'_, P>,
    zone: &Zone<P::Lock>,
) -> [u64; MigrateType::COUNT] {
    let mut counts = [0; MigrateType::COUNT];
    let blocks = allocator.map().pageblocks().map(|pfn| allocator.map().pageblock(pfn));
    for block in blocks.filter(|block| usize::from(block.zone()) == zone.index()) {
        counts[block.migratetype().index()] += 1;
    }
    counts
}

/// Writes the part of `/proc/zoneinfo` that the engine has: watermarks, sizes, reserves, per-CPU lists.
///
/// # Errors
/// If `out` fails.
pub fn zoneinfo<P: Platform>(allocator: &PageAllocator<'_, P>, out: &mut impl Write) -> fmt::Result {
    for zone in populated(allocator) {
        let marks = zone.watermarks();
        let (start, end) = zone.span();
        writeln!(out, "Node {}, zone {:>8}", zone.node().0, zone.kind().name())?;
        writeln!(out, "  pages free     {}", zone.free_pages())?;
        let rows = [
            ("boost", zone.boost()),
            ("min", marks.min),
            ("low", marks.low),
            ("high", marks.high),
            ("promo", marks.promo),
            ("spanned", u64::from(end.raw() - start.raw())),
            ("present", zone.present()),
            ("managed", zone.managed()),
            ("cma", zone.cma()),
        ];
        for (name, pages) in rows {
            writeln!(out, "        {name:<8} {pages}")?;
        }
        protection(zone, out)?;
        writeln!(out, "      nr_free_pages {}", zone.free_pages())?;
        writeln!(out, "      nr_free_cma  {}", zone.free_cma())?;
        pagesets(allocator, zone, out)?;
        writeln!(out, "  start_pfn:           {}", start.raw())?;
        writeln!(out, "  reserved_highatomic: {}", zone.reserved_highatomic())?;
    }
    Ok(())
}

fn protection<L>(zone: &Zone<L>, out: &mut impl Write) -> fmt::Result {
    write!(out, "        protection: (")?;
    for (index, kind) in crate::base::ZoneKind::ALL.into_iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(out, "{comma}{}", zone.lowmem_reserve(kind))?;
    }
    writeln!(out, ")")
}

fn pagesets<P: Platform>(allocator: &PageAllocator<'_, P>, zone: &Zone<P::Lock>, out: &mut impl Write) -> fmt::Result {
    writeln!(out, "  pagesets")?;
    for cpu in allocator.cpu_ids() {
        let (count, high, limits) =
            allocator.pcp(cpu, zone).inspect(|lists| (lists.count(), lists.high(), lists.limits()));
        writeln!(out, "    cpu: {}", cpu.0)?;
        writeln!(out, "              count:    {count}")?;
        writeln!(out, "              high:     {high}")?;
        writeln!(out, "              batch:    {}", limits.batch)?;
        writeln!(out, "              high_min: {}", limits.high_min)?;
        writeln!(out, "              high_max: {}", limits.high_max)?;
    }
    Ok(())
}

/// Writes `/proc/slabinfo`, version 2.1: the objects and slabs of each cache, by cache number. Objects in a CPU's lists
/// or in a sheaf count as active. The tunables belong to an allocator that Linux has removed, and are 0 as in Linux.
///
/// # Errors
/// If `out` fails.
pub fn slabinfo<P: Platform, C: CpuLocal>(slab: &SlabAllocator<'_, '_, P, C>, out: &mut impl Write) -> fmt::Result {
    out.write_str("slabinfo - version: 2.1\n")?;
    out.write_str("# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>")?;
    out.write_str(" : tunables <limit> <batchcount> <sharedfactor>")?;
    out.write_str(" : slabdata <active_slabs> <num_slabs> <sharedavail>\n")?;
    let mut written = Ok(());
    slab.usage(|cache, usage| {
        let (name, layout, slabs) = (cache.name.as_str(), &cache.layout, usage.slabs);
        let pages = layout.order.pages();
        written = written
            .and_then(|()| write!(out, "{name:<17} {:6} {:6} {:6} ", usage.active, usage.objects, layout.size))
            .and_then(|()| write!(out, "{:4} {pages:4} : tunables {:4} {:4} {:4}", layout.objects, 0, 0, 0))
            .and_then(|()| writeln!(out, " : slabdata {slabs:6} {slabs:6} {:6}", 0));
    });
    written
}

fn populated<'a, P: Platform>(allocator: &'a PageAllocator<'_, P>) -> impl Iterator<Item = &'a Zone<P::Lock>> {
    allocator.zones().iter().filter(|zone| zone.is_populated())
}
