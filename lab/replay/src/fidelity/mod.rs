//! Fidelity: comparison of the engine under the pinned kernel's policy with the recorded kernel.
//!
//! The measures at the end are free pages, free blocks by order, whole pageblocks, the unusable free index, pages on
//! per-CPU lists and high-atomic pageblocks. The measures over the whole recording are the blocks taken from free
//! lists, the blocks drained from per-CPU lists, failed requests, fallbacks, and pages of ranges that went to a per-CPU
//! list. Such a page counts only if a later drain or allocation shows it. Bounds are tighter where the recorded kernel
//! is the pinned one. A row without a bound is informative. Under [`ReclaimMode::Model`], the engine's reclaim and
//! compaction are also compared with the recorded counters of `/proc/vmstat` ([`pressure`]), and direct reclaims and
//! failed requests with the recorded events, by mechanism ([`mechanisms`]).

mod mechanisms;
mod pressure;

use freehold::base::{MigrateType, Order};
use freehold::procfs;
use freehold::stats::Counts;
use freehold_trace::event::migratetype;
use freehold_trace::facts::Facts;

use super::counts::{STALLS, free_blocks, pages_from, stalls, vmstat_delta};
use super::player::Tally;
use super::survey::Survey;
use super::{Engine, HUGE, ReclaimMode};
use crate::report::course::Stalls;
use crate::report::fidelity::{FidelityMeasure, FidelityRow};

/// Release prefix of the kernel whose rules the engine follows.
const PINNED: &str = "6.12.";

/// Largest relative errors that count as faithful.
struct Bounds {
    moved_blocks: f64,
    large_blocks: f64,
}

/// State of a replay at its end, and the recorded facts.
pub(crate) struct Ending<'e, 'm> {
    pub(crate) engine: &'e Engine<'m>,
    pub(crate) facts: &'e Facts,
    pub(crate) survey: &'e Survey,
    pub(crate) counts: Counts,
    pub(crate) tally: Tally,
    pub(crate) stalls: Option<&'e Stalls>,
    pub(crate) reclaim: ReclaimMode,
}

impl Ending<'_, '_> {
    /// Compares the replay with the recorded kernel, in every measure that is known of both.
    pub(crate) fn fidelity(&self) -> Vec<FidelityRow> {
        let bounds = Bounds::for_release(&self.facts.kernel_release);
        let rows = FidelityMeasure::list().filter_map(|measure| {
            let [recorded, replayed] = self.values(measure)?;
            let events = measure.events().and_then(|events| self.values(events));
            Some(FidelityRow::new(measure, recorded, replayed, bounds.bound(measure)).with_events(events))
        });
        rows.collect()
    }

    /// Returns the recorded and the replayed value; `None` where one of them is not known.
    fn values(&self, measure: FidelityMeasure) -> Option<[f64; 2]> {
        let Ending { survey, counts, tally, .. } = self;
        let values = match measure {
            FidelityMeasure::FreePages => self.free_pages(0)?,
            FidelityMeasure::FreePagesOrder4Up => self.free_pages(4)?,
            FidelityMeasure::FreePageblocks => self.free_pages(HUGE)?.map(|pages| pages >> HUGE),
            FidelityMeasure::UnusableFreeIndexOrder9 => return self.unusable_free_index(),
            FidelityMeasure::FreeBlocks(order) => {
                self.has_end_state().then(|| [self.recorded_free(order), free_blocks(self.engine, order)])?
            }
            FidelityMeasure::BlocksTaken => [survey.zone_locked, counts.zone_locked_blocks],
            FidelityMeasure::BlocksDrained => [survey.pcpu_drain, counts.pcp_drain_blocks],
            FidelityMeasure::PagesOnPerCpuLists => [recorded_on_lists(self.facts), on_lists(self.engine)],
            FidelityMeasure::Failures => [survey.failures, tally.failed],
            FidelityMeasure::FailuresInBoth => [survey.failures, tally.failed_in_both],
            FidelityMeasure::FallbackClaims => [survey.claims, counts.fallback_claims],
            FidelityMeasure::FallbackSteals => [survey.steals, counts.fallback_steals],
            FidelityMeasure::HighatomicPageblocks => self.highatomic_pageblocks()?,
            FidelityMeasure::BlocksFromReserve => [survey.from_reserve, counts.highatomic_from_reserve],
            FidelityMeasure::RangePagesListed => [survey.together_listed, tally.together_listed],
            FidelityMeasure::HugePagesServed => {
                self.decides_reclaim().then_some([survey.huge_served, tally.huge_served])?
            }
            FidelityMeasure::AllocStalls => self.decides_reclaim().then(|| self.alloc_stalls())??,
            FidelityMeasure::Vmstat(counter) => {
                let recorded = self.decides_reclaim().then(|| vmstat_delta(self.facts, counter.name()))??;
                [recorded, pressure::replayed(counter, counts)]
            }
            FidelityMeasure::Mechanism(measure) => self.mechanism(measure)?,
            FidelityMeasure::StallTime => {
                self.stalls.map(|stalls| [stalls.recorded.total / 1000, stalls.replayed.total / 1000])?
            }
            FidelityMeasure::StallP99 => {
                self.stalls.map(|stalls| [stalls.recorded.p99 / 1000, stalls.replayed.p99 / 1000])?
            }
        };
        Some(values.map(|value| value as f64))
    }

    fn decides_reclaim(&self) -> bool {
        self.reclaim == ReclaimMode::Model
    }

    fn has_end_state(&self) -> bool {
        !self.survey.end_free.is_empty()
    }

    /// Returns the number of free blocks of `order` that the kernel had at the end.
    fn recorded_free(&self, order: Order) -> u64 {
        self.survey.end_free.get(order.index()).copied().unwrap_or(0)
    }

    /// Returns the recorded and the replayed free pages in blocks of order `from` and above.
    fn free_pages(&self, from: u8) -> Option<[u64; 2]> {
        let recorded = pages_from(Order::new(from), |order| self.recorded_free(order));
        let replayed = pages_from(Order::new(from), |order| free_blocks(self.engine, order));
        self.has_end_state().then_some([recorded, replayed])
    }

    fn unusable_free_index(&self) -> Option<[f64; 2]> {
        let ([recorded, replayed], [recorded_huge, replayed_huge]) = (self.free_pages(0)?, self.free_pages(HUGE)?);
        Some([(recorded, recorded_huge), (replayed, replayed_huge)].map(|(all, huge)| unusable(all, huge)))
    }

    fn highatomic_pageblocks(&self) -> Option<[u64; 2]> {
        let rows = self.facts.pagetypeinfo_end.iter().filter(|row| row.migratetype == migratetype::HIGHATOMIC);
        let mut rows = rows.peekable();
        rows.peek()?;
        Some([rows.map(|row| row.pageblocks).sum(), pageblocks(self.engine, MigrateType::HighAtomic)])
    }

    fn alloc_stalls(&self) -> Option<[u64; 2]> {
        let recorded: Vec<u64> = STALLS.iter().filter_map(|name| vmstat_delta(self.facts, name)).collect();
        (!recorded.is_empty()).then(|| [recorded.iter().sum(), stalls(&self.counts)])
    }
}

impl Bounds {
    fn for_release(release: &str) -> Bounds {
        if release.starts_with(PINNED) {
            Bounds { moved_blocks: 0.05, large_blocks: 0.10 }
        } else {
            Bounds { moved_blocks: 0.15, large_blocks: 0.15 }
        }
    }

    /// Returns the largest relative error of `measure` that counts as faithful; `None` for an informative measure.
    fn bound(&self, measure: FidelityMeasure) -> Option<f64> {
        match measure {
            FidelityMeasure::FreePages => Some(0.01),
            FidelityMeasure::FreePagesOrder4Up => Some(self.large_blocks),
            FidelityMeasure::FreeBlocks(order) => (order.get() >= 4).then_some(self.large_blocks),
            FidelityMeasure::BlocksTaken | FidelityMeasure::BlocksDrained => Some(self.moved_blocks),
            FidelityMeasure::Failures => Some(0.05),
            FidelityMeasure::HighatomicPageblocks => Some(0.0),
            FidelityMeasure::FreePageblocks
            | FidelityMeasure::UnusableFreeIndexOrder9
            | FidelityMeasure::PagesOnPerCpuLists
            | FidelityMeasure::FailuresInBoth
            | FidelityMeasure::FallbackClaims
            | FidelityMeasure::FallbackSteals
            | FidelityMeasure::BlocksFromReserve
            | FidelityMeasure::RangePagesListed
            | FidelityMeasure::HugePagesServed
            | FidelityMeasure::AllocStalls
            | FidelityMeasure::Vmstat(_)
            | FidelityMeasure::Mechanism(_)
            | FidelityMeasure::StallTime
            | FidelityMeasure::StallP99 => None,
        }
    }
}

/// Returns the share of the free pages that is in blocks too small for a huge page.
fn unusable(free: u64, huge: u64) -> f64 {
    1.0 - huge as f64 / free.max(1) as f64
}

fn recorded_on_lists(facts: &Facts) -> u64 {
    facts.zones_end.iter().flat_map(|zone| &zone.pcp).map(|list| u64::from(list.count)).sum()
}

/// Returns the number of pages on all per-CPU lists.
fn on_lists(engine: &Engine<'_>) -> u64 {
    let zones = engine.zones().iter();
    let lists = zones.flat_map(|zone| engine.cpu_ids().map(move |cpu| engine.pcp(cpu, zone)));
    lists.map(|list| u64::from(list.inspect(|lists| lists.count()))).sum()
}

/// Returns the number of pageblocks of one type, over all zones.
pub(crate) fn pageblocks(engine: &Engine<'_>, migratetype: MigrateType) -> u64 {
    let zones = engine.zones().iter().filter(|zone| zone.is_populated());
    zones.map(|zone| procfs::pageblock_counts(engine, zone)[migratetype.index()]).sum()
}
