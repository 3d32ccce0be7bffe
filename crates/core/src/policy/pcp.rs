//! How many pages a per-CPU list holds and moves: Linux's auto-tuning as arithmetic on plain numbers.
//!
//! `high` is the list's limit, moved between `high_min` and `high_max` by what happens: refills raise it,
//! reclaim, shortage and time lower it. `batch` is the unit of movement; `alloc_factor` doubles it for a CPU that keeps
//! allocating; `free_count` remembers what was freed lately, so that a CPU that keeps freeing gives back more at
//! once. All quantities are base pages.
//!
//! linux: mm/page_alloc.c:zone_batchsize, zone_highsize, nr_pcp_alloc, nr_pcp_high, nr_pcp_free

use super::Numbers;
use crate::base::Order;

/// Largest power of two by which `batch` is scaled. linux: CONFIG_PCP_BATCH_SCALE_MAX
pub const BATCH_SCALE_MAX: u32 = 5;
/// Largest batch: what is scaled and summed from it fits into 32 bits.
const BATCH_MAX: u32 = 1 << 20;
/// Smallest fraction that may be asked for. linux: MIN_PERCPU_PAGELIST_HIGH_FRACTION
pub const HIGH_FRACTION_MIN: u32 = 8;

/// What a list's limits are computed from.
#[derive(Clone, Copy, Debug)]
pub struct ZoneFacts {
    /// Pages that the zone manages.
    pub managed: u64,
    /// The zone's low watermark, in pages.
    pub low: u64,
    /// CPUs of its node, or all CPUs if the node has none.
    pub cpus: u32,
}

/// Limits between which a list is tuned, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pages that a refill or a drain moves at once.
    pub batch: u32,
    /// `high` does not fall below this.
    pub high_min: u32,
    /// `high` does not rise above this.
    pub high_max: u32,
}

/// Moving parts of a list that the decisions read and write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Pages on the CPU's lists for the zone.
    pub count: u32,
    /// The limit now, within those that are fixed.
    pub high: u32,
    /// Doublings of `batch` for refills.
    pub alloc_factor: u32,
    /// Pages freed lately, halved by each allocation. linux: pcp->free_count
    pub free_count: u32,
}

/// How short of memory the zone is, as lists heed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// Free pages are below the high watermark. linux: ZONE_BELOW_HIGH
    pub below_high: bool,
    /// kswapd works on the zone. linux: ZONE_RECLAIM_ACTIVE
    pub reclaim_active: bool,
}

/// Why a free drains the CPU's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Blocks of order 1 to 3 are being freed without being allocated: give them all back. linux: free_high
    HighOrderFrees,
    /// The list has more pages than its limit.
    Full,
}

impl Limits {
    /// Lists that hold nothing: a refill brings one block, a free gives it back.
    pub const NONE: Limits = Limits { batch: 1, high_min: 0, high_max: 0 };

    /// The limits of a zone's lists, by Linux's rule unless a number says otherwise.
    pub fn of(facts: ZoneFacts, page_size: u32, numbers: &Numbers) -> Limits {
        let batch = numbers.pcp_batch.unwrap_or_else(|| default_batch(facts.managed, page_size)).clamp(1, BATCH_MAX);
        let floor = u64::from(batch) * 4;
        let share = |pages: u64| (pages / u64::from(facts.cpus.max(1))).max(floor).min(u64::from(u32::MAX / 4)) as u32;
        match numbers.pcp_high_fraction {
            Some(fraction) => {
                let high = share(facts.managed / u64::from(fraction.max(HIGH_FRACTION_MIN)));
                Limits { batch, high_min: high, high_max: high }
            }
            None => {
                let high_min = share(facts.low);
                Limits { batch, high_min, high_max: share(facts.managed / u64::from(HIGH_FRACTION_MIN)) }
            }
        }
    }

    /// Pages that must have been freed lately before blocks of order 1 to 3 are all given back.
    pub fn high_order_frees(&self, numbers: &Numbers) -> u32 {
        let percent = u64::from(numbers.pcp_free_high.unwrap_or(0));
        (u64::from(self.batch) + u64::from(self.high_min) * percent / 100).try_into().unwrap_or(u32::MAX)
    }

    /// The limit nearest to `high` that is allowed.
    pub fn clamp(&self, high: u32) -> u32 {
        high.max(self.high_min).min(self.high_max)
    }

    /// Whether a limit is one that lists can have: a decay may leave it above `high_max` for a while, by what is on the
    /// lists then, and nothing leaves it below both ends, which on a small zone may be the wrong way round, as in Linux.
    pub fn allows(&self, high: u32) -> bool {
        high >= self.high_min.min(self.high_max)
    }

    fn is_tuned(&self) -> bool {
        self.high_min != self.high_max
    }
}

/// A quarter of a thousandth of the zone, at most 256 KiB a quarter, rounded so that it is one less than a
/// power of two.
fn default_batch(managed: u64, page_size: u32) -> u32 {
    let ceiling = (1 << 20) / u64::from(page_size);
    let quarter = ((managed >> 10).min(ceiling) / 4).max(1) as u32;
    (1 << (quarter + quarter / 2).ilog2()) - 1
}

/// Blocks of `order` that a refill takes from the zone.
pub fn refill_blocks(tuning: &mut Tuning, limits: &Limits, order: Order, pressure: Pressure) -> u32 {
    let mut high = limits.clamp(tuning.high);
    tuning.high = high;
    if high < limits.batch {
        return 1;
    }
    let mut pages = if order > Order::ZERO { limits.batch } else { limits.batch << tuning.alloc_factor };
    if limits.is_tuned() && !pressure.below_high {
        high = (high + pages).min(limits.high_max);
        tuning.high = high;
    }
    if order == Order::ZERO {
        let room = high.saturating_sub(tuning.count).saturating_sub(limits.batch).max(limits.batch);
        if pages <= room && tuning.alloc_factor < BATCH_SCALE_MAX {
            tuning.alloc_factor += 1;
        }
        pages = pages.min(room);
    }
    if pages > 1 { (pages >> order.get()).max(2) } else { pages }
}

/// Whether a list, in a zone without worries, is so far from its limit that a free changes nothing: [`limit`] would
/// leave the limit as it is, and the list below it.
#[inline]
pub fn has_room(tuning: &Tuning) -> bool {
    tuning.count < tuning.high
}

/// Pages the list may hold at this moment: a free that finds it so full, or fuller, drains.
pub fn limit(tuning: &mut Tuning, limits: &Limits, pressure: Pressure, cause: Cause) -> u32 {
    let high = limits.clamp(tuning.high);
    tuning.high = high;
    if high == 0 {
        return 0;
    }
    let lower = |high: u32, by: u32| high.saturating_sub(by).max(limits.high_min);
    let recent = tuning.free_count.max(limits.batch);
    if cause == Cause::HighOrderFrees {
        tuning.high = lower(high, limits.batch << BATCH_SCALE_MAX);
        return 0;
    }
    if pressure.reclaim_active {
        tuning.high = lower(high, recent);
        return (limits.batch << 2).min(tuning.high);
    }
    if !limits.is_tuned() {
        return high;
    }
    if pressure.below_high {
        tuning.high = lower(high, recent);
        return tuning.count.max(limits.high_min);
    }
    let wanted = tuning.free_count + limits.batch;
    if tuning.count >= high && high < wanted {
        tuning.high = limits.clamp(wanted);
    }
    high
}

/// Pages that a drain gives back, when the limit was `high`.
pub fn drain_pages(tuning: &Tuning, limits: &Limits, high: u32, cause: Cause) -> u32 {
    if cause == Cause::HighOrderFrees {
        return tuning.count.min(limits.batch << BATCH_SCALE_MAX);
    }
    if high < limits.batch {
        return 1;
    }
    tuning.free_count.max(limits.batch).min(high - limits.batch)
}

/// What one tick of idle time does to the limit; returns the pages to give back.
pub fn decay(tuning: &mut Tuning, limits: &Limits) -> u32 {
    if tuning.high > limits.high_min {
        let by_count = tuning.count.saturating_sub(limits.batch << BATCH_SCALE_MAX);
        tuning.high = by_count.max(tuning.high - (tuning.high >> 3)).max(limits.high_min);
    }
    tuning.count.saturating_sub(tuning.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Pressure = Pressure { below_high: false, reclaim_active: false };

    #[test]
    fn batch_of_a_large_zone_is_63() {
        assert_eq!(default_batch(262_144, 4096), 63);
        assert_eq!(default_batch(6_000_000, 4096), 63);
        assert_eq!(default_batch(3840, 4096), 0, "a DMA zone: clamped to 1 by `of`");
    }

    #[test]
    fn refills_grow_while_a_cpu_only_allocates() {
        let limits = Limits { batch: 63, high_min: 252, high_max: 100_000 };
        let mut tuning = Tuning { high: 252, ..Tuning::default() };
        let taken: [u32; 7] = core::array::from_fn(|_| refill_blocks(&mut tuning, &limits, Order::ZERO, CALM));
        assert_eq!(taken, [63, 126, 252, 504, 1008, 2016, 2016]);
    }

    #[test]
    fn shortage_lowers_the_limit_and_stops_growth() {
        let limits = Limits { batch: 63, high_min: 252, high_max: 100_000 };
        let mut tuning = Tuning { high: 5000, count: 5000, free_count: 10, ..Tuning::default() };
        let short = Pressure { below_high: true, reclaim_active: false };
        assert_eq!(limit(&mut tuning, &limits, short, Cause::Full), 5000);
        assert_eq!(tuning.high, 4937);
    }

    #[test]
    fn without_lists_a_free_drains_at_once() {
        let mut tuning = Tuning { count: 1, ..Tuning::default() };
        assert_eq!(limit(&mut tuning, &Limits::NONE, CALM, Cause::Full), 0);
        assert_eq!(drain_pages(&tuning, &Limits::NONE, 0, Cause::Full), 1);
    }
}
