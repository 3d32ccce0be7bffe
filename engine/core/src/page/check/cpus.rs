//! Check of per-CPU state: lists, stacks and fragments.

use super::{Census, Violation, counter};
use crate::base::{CpuId, MigrateType, State};
use crate::page::allocator::PageAllocator;
use crate::page::percpu::{PCP_LISTS, Pcp, PcpLists};
use crate::page::zone::Zone;
use crate::platform::Platform;

impl<P: Platform> PageAllocator<'_, P> {
    pub(super) fn check_pcps(&self, zone: &Zone<P::Lock>, census: &Census) -> Result<(), Violation> {
        let (mut all, mut listed) = (0, 0);
        for cpu in self.cpu_ids() {
            let pcp = self.pcp_at(cpu, zone);
            all += pcp.inspect(|lists| self.check_pcp(zone, lists, cpu))?;
            all += self.check_stack(zone, pcp)?;
            listed += self.check_fragments(zone, cpu)?;
            let (high, limits) = pcp.inspect(|lists| (lists.high(), lists.limits()));
            if !limits.allows(high) || !limits.allows(pcp.remote_frees_limit()) {
                return Err(Violation::Limit { zone: zone.index(), cpu });
            }
        }
        let pageblocks = self.map.pageblocks().map(|block| self.map.pageblock(block));
        let in_zone = pageblocks.filter(|pageblock| usize::from(pageblock.zone()) == zone.index());
        let marked = in_zone.filter(|pageblock| pageblock.is_listed()).count();
        counter("listed pageblocks", zone.index(), marked as u64, listed)?;
        counter("pages on per-CPU lists", zone.index(), all, census.cached)
    }

    fn check_pcp(&self, zone: &Zone<P::Lock>, lists: &PcpLists, cpu: CpuId) -> Result<u64, Violation> {
        let mut pages = 0;
        for index in 0..PCP_LISTS {
            let list = lists.list(index);
            let linked = self.check_list(zone, list, lists.count(), |state| {
                matches!(state, State::PcpCached { list, cpu: holder, .. } if usize::from(list) == index && holder == cpu)
            })?;
            let blocks = list.iter(&self.map).take(linked as usize);
            pages += blocks.map(|pfn| u64::from(self.map.frame(pfn).word().order().pages())).sum::<u64>();
        }
        counter("count", zone.index(), u64::from(lists.count()), pages)?;
        Ok(pages)
    }

    /// Checks a CPU's stack. Returns the number of pages on it.
    fn check_stack(&self, zone: &Zone<P::Lock>, pcp: &Pcp<P::Lock>) -> Result<u64, Violation> {
        let (counted, mut pages) = (pcp.stack().pages(), 0);
        for (pfn, word) in pcp.stack().iter(&self.map).take(counted as usize + 1) {
            let State::RemotePending { order } = word.state() else {
                return Err(Violation::WrongList { pfn, state: word.state() });
            };
            if usize::from(self.map.pageblock(pfn).zone()) != zone.index() {
                return Err(Violation::WrongList { pfn, state: word.state() });
            }
            pages += u64::from(order.pages());
        }
        counter("pages on the stack", zone.index(), u64::from(counted), pages)?;
        Ok(pages)
    }

    /// Checks the lists of a CPU's fragments. Returns the number of pageblocks on them.
    fn check_fragments(&self, zone: &Zone<P::Lock>, cpu: CpuId) -> Result<u64, Violation> {
        let most = self.map.pageblocks().count();
        let mut listed = 0;
        for migratetype in MigrateType::ALL.into_iter().take(MigrateType::PCP_COUNT) {
            let (fragments, mut linked) = (self.fragments(cpu, zone).list(migratetype), 0);
            for block in fragments.iter(&self.map).take(most + 1) {
                linked += 1;
                let found = self.map.try_frame_and_pageblock(block).filter(|_| linked as usize <= most);
                let broken = Violation::Links { zone: zone.index(), counted: most as u32, linked };
                let Some((_, pageblock)) = found else { return Err(broken) };
                let is_own = pageblock.owner() == Some(cpu) && usize::from(pageblock.zone()) == zone.index();
                if !is_own || pageblock.migratetype() != migratetype {
                    return Err(Violation::Owner { pfn: block });
                }
                if !fragments.leads_back(&self.map, block) {
                    return Err(broken);
                }
            }
            listed += u64::from(linked);
        }
        Ok(listed)
    }
}
