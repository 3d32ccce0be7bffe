//! The proof that nothing is lost: a walk over every frame and every list.
//!
//! It holds the locks of all lists and zones it looks at in turn, so other CPUs may go on, but then counts
//! may differ by what is under way: call it when nothing runs. It proves that
//!
//! - every frame is in exactly one state: a head, inside the block of the head before it, reserved, withheld or absent;
//! - every list holds what its length says, each block once, with a word that names this list;
//! - the zones' counters equal the sums over their lists, the lists' counts theirs;
//! - no two free buddies of one type are left unmerged below pageblock order;
//! - every block's free list is that of its pageblocks' type;
//! - the high-atomic reserve is as large as its pageblocks, isolated ones too (in Linux, one that was isolated leaves
//!   the reserve and stays in its count, so there the two need not agree);
//! - managed pages = free + on per-CPU lists + allocated + claimed + withheld; present ones = these and Reserved ones.

use core::fmt;

use super::PageAllocator;
use super::zone::Zone;
use crate::base::list::List;
use crate::base::pageblock::NO_ZONE;
use crate::base::{CpuId, MigrateType, Order, Pfn, State, ZoneKind};
use crate::page::PCP_LISTS;
use crate::platform::Platform;

/// Zones of 64 nodes.
const ZONES_MAX: usize = 64 * ZoneKind::COUNT;

/// Pages by state, over all zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// On free lists.
    pub free: u64,
    /// On per-CPU lists.
    pub cached: u64,
    /// Owned by somebody.
    pub allocated: u64,
    /// Out of use.
    pub withheld: u64,
    /// In the hands of calls that are under way, or that a panic of the platform's ended.
    pub claimed: u64,
    /// Online, and not given to the allocator.
    pub reserved: u64,
    /// Not online, though there is metadata for them.
    pub absent: u64,
}

/// What is wrong, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A frame is not what the head before it says.
    Inside {
        /// The frame.
        pfn: Pfn,
        /// What it is.
        state: State,
    },
    /// A frame is Interior, but in no block.
    Orphan {
        /// The frame.
        pfn: Pfn,
    },
    /// Two buddies are free, of one type, and not merged.
    Unmerged {
        /// The lower one.
        pfn: Pfn,
        /// Their order.
        order: Order,
    },
    /// A free block is on the list of another type than its pageblock's.
    WrongType {
        /// The block.
        pfn: Pfn,
        /// The type of its list.
        listed: MigrateType,
    },
    /// A pageblock is owned although it is free as a whole, or is on the list of a CPU that does not own it.
    Owner {
        /// Its first frame.
        pfn: Pfn,
    },
    /// A frame on a list has a word that names no, or another, list.
    WrongList {
        /// The frame.
        pfn: Pfn,
        /// What it is.
        state: State,
    },
    /// A list's links do not lead through as many blocks as it should have, or not to its last one.
    Links {
        /// Index of the zone.
        zone: usize,
        /// Blocks that it should have, or more than it can have.
        counted: u32,
        /// Blocks that the links lead through.
        linked: u32,
    },
    /// A counter differs from what it counts.
    Counter {
        /// Which.
        name: &'static str,
        /// Index of the zone.
        zone: usize,
        /// What it says.
        counted: u64,
        /// What there is.
        found: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the allocator is inconsistent: {self:?}")
    }
}

impl core::error::Error for Violation {}

impl<P: Platform> PageAllocator<'_, P> {
    /// Walks everything; says what there is, or the first thing that is wrong. Cost: a few steps a frame.
    ///
    /// # Errors
    /// See [`Violation`].
    pub fn check(&self) -> Result<Census, Violation> {
        let mut sum = Census::default();
        let mut per_zone = [Census::default(); ZONES_MAX];
        self.walk_frames(&mut sum, &mut per_zone)?;
        let reserved = self.reserved_blocks();
        for zone in self.zones {
            let census = &per_zone[zone.index()];
            let blocks = u64::from(reserved[zone.index()]);
            counter("reserved_highatomic", zone.index(), zone.reserved_highatomic(), blocks * self.pageblock_pages())?;
            self.check_free_lists(zone, census)?;
            self.check_pcps(zone, census)?;
            let found = census.free + census.cached + census.allocated + census.withheld + census.claimed;
            counter("managed", zone.index(), zone.managed(), found)?;
            counter("present", zone.index(), zone.present(), found + census.reserved)?;
        }
        Ok(sum)
    }

    /// Pageblocks of the high-atomic reserve, by zone.
    fn reserved_blocks(&self) -> [u32; ZONES_MAX] {
        let mut blocks = [0; ZONES_MAX];
        for pageblock in self.map.pageblocks().map(|block| self.map.pageblock(block)) {
            let of_zone = blocks.get_mut(usize::from(pageblock.zone()));
            if let Some(count) = of_zone.filter(|_| pageblock.lasting_migratetype() == MigrateType::HighAtomic) {
                *count += 1;
            }
        }
        blocks
    }

    fn walk_frames(&self, sum: &mut Census, per_zone: &mut [Census]) -> Result<(), Violation> {
        for section in self.map.present_sections() {
            let (mut at, end) = (section.start, section.end);
            while at < end {
                let pfn = Pfn::new(at as u32);
                let zone = self.map.pageblock(pfn).zone();
                let pages = if zone == NO_ZONE { self.check_hole(pfn)? } else { self.check_head(pfn)? };
                for census in core::iter::once(&mut *sum).chain(per_zone.get_mut(usize::from(zone))) {
                    census.count(self.map.frame(pfn).word().state(), pages);
                }
                at += u64::from(pages);
            }
        }
        Ok(())
    }

    /// Checks that a pageblock of no zone was never used; says how many pages it has.
    fn check_hole(&self, block: Pfn) -> Result<u32, Violation> {
        let pages = self.map.pageblock_order().pages();
        let mut words = (0..pages).map(|page| Pfn::new(block.raw() + page)).map(|at| (at, self.map.frame(at).word()));
        let stray = words.find(|(_, word)| !word.is_absent());
        stray.map_or(Ok(pages), |(pfn, word)| Err(Violation::Inside { pfn, state: word.state() }))
    }

    /// Checks one head and the frames behind it; says how many pages it stands for.
    fn check_head(&self, pfn: Pfn) -> Result<u32, Violation> {
        let order = match self.map.frame(pfn).word().state() {
            State::Absent | State::Reserved | State::Withheld => return Ok(1),
            State::Interior => return Err(Violation::Orphan { pfn }),
            State::ZoneFree { order, migratetype } => {
                self.check_free(pfn, order, migratetype)?;
                order
            }
            State::PcpCached { order, .. }
            | State::RemotePending { order }
            | State::Allocated { order, .. }
            | State::Claimed { order } => order,
        };
        if !pfn.is_aligned(order) {
            return Err(Violation::Inside { pfn, state: self.map.frame(pfn).word().state() });
        }
        let inside = pfn.offset(1).up_to(pfn.offset(order.pages()));
        let stray = inside.map(|at| (at, self.map.frame(at).word())).find(|(_, word)| !word.is_interior());
        stray.map_or(Ok(order.pages()), |(pfn, word)| Err(Violation::Inside { pfn, state: word.state() }))
    }

    fn check_free(&self, pfn: Pfn, order: Order, migratetype: MigrateType) -> Result<(), Violation> {
        let pageblocks = || pfn.blocks_up_to(pfn.offset(order.pages()), self.map.pageblock_order());
        let is_whole = order >= self.map.pageblock_order();
        if let Some((block, _)) =
            pageblocks().find(|&(block, _)| is_whole && self.map.pageblock(block).owner().is_some())
        {
            return Err(Violation::Owner { pfn: block });
        }
        let around = self.map.pageblock(pfn);
        if !is_whole && around.owner().is_some() && !around.is_listed() {
            return Err(Violation::Owner { pfn });
        }
        if pageblocks().any(|(block, _)| self.map.pageblock(block).migratetype() != migratetype) {
            return Err(Violation::WrongType { pfn, listed: migratetype });
        }
        let twin = State::ZoneFree { order, migratetype };
        if order < self.map.pageblock_order() && self.state(pfn.buddy(order)) == Some(twin) {
            return Err(Violation::Unmerged { pfn, order });
        }
        Ok(())
    }

    fn check_free_lists(&self, zone: &Zone<P::Lock>, census: &Census) -> Result<(), Violation> {
        let mut by_type = [0_u64; MigrateType::COUNT];
        zone.inspect(|areas| {
            for order in Order::all() {
                for migratetype in MigrateType::ALL {
                    let area = areas.area(order);
                    let named = State::ZoneFree { order, migratetype };
                    let (counted, list) = (area.len(migratetype), area.list(migratetype));
                    let linked = self.check_list(zone, list, counted, |state| state == named)?;
                    if linked != counted {
                        return Err(Violation::Links { zone: zone.index(), counted, linked });
                    }
                    by_type[migratetype.index()] += u64::from(linked) * u64::from(order.pages());
                }
            }
            Ok(())
        })?;
        let all: u64 = by_type.iter().sum();
        let isolated = by_type[MigrateType::Isolate.index()];
        let index = zone.index();
        counter("pages on free lists", index, all, census.free)?;
        counter("free", index, zone.free_pages(), all - isolated)?;
        counter("free_cma", index, zone.free_cma(), by_type[MigrateType::Cma.index()])?;
        counter("free_highatomic", index, zone.free_highatomic(), by_type[MigrateType::HighAtomic.index()])
    }

    fn check_pcps(&self, zone: &Zone<P::Lock>, census: &Census) -> Result<(), Violation> {
        let mut all = 0;
        for cpu in self.cpu_ids() {
            let pcp = self.pcp_at(cpu, zone);
            all += pcp.inspect(|lists| self.check_pcp(zone, lists, cpu))?;
            all += self.check_home(zone, pcp, cpu)?;
        }
        counter("pages on per-CPU lists", zone.index(), all, census.cached)
    }

    fn check_pcp(&self, zone: &Zone<P::Lock>, lists: &super::PcpLists, cpu: CpuId) -> Result<u64, Violation> {
        let mut pages = 0;
        for index in 0..PCP_LISTS {
            let list = lists.list(index);
            let linked = self.check_list(zone, list, lists.count(), |state| {
                matches!(state, State::PcpCached { list, cpu: holder, .. } if usize::from(list) == index && holder == cpu)
            })?;
            let size = |pfn| u64::from(self.map.frame(pfn).word().order().pages());
            pages += list.iter(&self.map).take(linked as usize).map(size).sum::<u64>();
        }
        counter("count", zone.index(), u64::from(lists.count()), pages)?;
        Ok(pages)
    }

    /// Checks a CPU's stack, and its list of blocks owned in part; says how many pages are on the stack.
    fn check_home(&self, zone: &Zone<P::Lock>, pcp: &super::Pcp<P::Lock>, cpu: CpuId) -> Result<u64, Violation> {
        let mut pages = 0;
        for (pfn, word) in pcp.stack().iter(&self.map) {
            let State::RemotePending { order } = word.state() else {
                return Err(Violation::WrongList { pfn, state: word.state() });
            };
            pages += u64::from(order.pages());
        }
        counter("pages on the stack", zone.index(), u64::from(pcp.stack().pages()), pages)?;
        for (migratetype, fragments) in MigrateType::ALL.into_iter().zip(pcp.fragments()) {
            for block in fragments.iter(&self.map) {
                let pageblock = self.map.pageblock(block);
                if pageblock.owner() != Some(cpu) || pageblock.migratetype() != migratetype {
                    return Err(Violation::Owner { pfn: block });
                }
            }
        }
        Ok(pages)
    }

    /// Walks a list that should have `most` blocks or fewer; says how many the links lead through.
    fn check_list(
        &self,
        zone: &Zone<P::Lock>,
        list: &List,
        most: u32,
        belongs: impl Fn(State) -> bool,
    ) -> Result<u32, Violation> {
        let (mut linked, mut last) = (0, None);
        for pfn in list.iter(&self.map).take(most as usize + 1) {
            let state = self.map.frame(pfn).word().state();
            if !belongs(state) || usize::from(self.map.pageblock(pfn).zone()) != zone.index() {
                return Err(Violation::WrongList { pfn, state });
            }
            (linked, last) = (linked + 1, Some(pfn));
        }
        if linked > most || last != list.last() {
            return Err(Violation::Links { zone: zone.index(), counted: most, linked });
        }
        Ok(linked)
    }
}

impl Census {
    fn count(&mut self, state: State, pages: u32) {
        *match state {
            State::ZoneFree { .. } => &mut self.free,
            State::PcpCached { .. } | State::RemotePending { .. } => &mut self.cached,
            State::Allocated { .. } => &mut self.allocated,
            State::Withheld => &mut self.withheld,
            State::Claimed { .. } => &mut self.claimed,
            State::Reserved => &mut self.reserved,
            State::Absent | State::Interior => &mut self.absent,
        } += u64::from(pages);
    }
}

fn counter(name: &'static str, zone: usize, counted: u64, found: u64) -> Result<(), Violation> {
    if counted == found { Ok(()) } else { Err(Violation::Counter { name, zone, counted, found }) }
}
