//! Check of a zone's free lists, and of linked lists in general.

use super::{Census, Violation, counter};
use crate::base::list::List;
use crate::base::{MigrateType, Order, State};
use crate::page::allocator::PageAllocator;
use crate::page::zone::{Zone, ZoneFlag, bit};
use crate::platform::Platform;

impl<P: Platform> PageAllocator<'_, P> {
    pub(super) fn check_free_lists(&self, zone: &Zone<P::Lock>, census: &Census) -> Result<(), Violation> {
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
                    if zone.has_block_at(order, bit(migratetype)) == list.is_empty() {
                        return Err(Violation::Hint { zone: zone.index(), order, migratetype });
                    }
                    by_type[migratetype.index()] += u64::from(linked) * u64::from(order.pages());
                }
            }
            let whole = areas.whole(self.map.pageblock_order());
            if zone.has(ZoneFlag::FewWhole) == (whole < zone.cpus()) {
                Ok(())
            } else {
                Err(Violation::FewWhole { zone: zone.index(), whole })
            }
        })?;
        let all: u64 = by_type.iter().sum();
        let isolated = by_type[MigrateType::Isolate.index()];
        let index = zone.index();
        counter("pages on free lists", index, all, census.free)?;
        counter("free", index, zone.free_pages(), all - isolated)?;
        counter("free_cma", index, zone.free_cma(), by_type[MigrateType::Cma.index()])?;
        counter("free_highatomic", index, zone.free_highatomic(), by_type[MigrateType::HighAtomic.index()])
    }

    /// Walks a list that should have at most `most` blocks. Returns the number of blocks that the links lead through.
    pub(super) fn check_list(
        &self,
        zone: &Zone<P::Lock>,
        list: &List,
        most: u32,
        belongs: impl Fn(State) -> bool,
    ) -> Result<u32, Violation> {
        let (mut linked, mut last) = (0, None);
        for pfn in list.iter(&self.map).take(most as usize + 1) {
            let broken = Violation::Links { zone: zone.index(), counted: most, linked };
            let Some((frame, pageblock)) = self.map.try_frame_and_pageblock(pfn) else { return Err(broken) };
            let state = frame.word().state();
            if !belongs(state) || usize::from(pageblock.zone()) != zone.index() {
                return Err(Violation::WrongList { pfn, state });
            }
            if !list.leads_back(&self.map, pfn) {
                return Err(broken);
            }
            (linked, last) = (linked + 1, Some(pfn));
        }
        if linked > most || last != list.last() {
            return Err(Violation::Links { zone: zone.index(), counted: most, linked });
        }
        Ok(linked)
    }
}
