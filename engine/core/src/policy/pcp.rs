//! Sizes of per-CPU lists and of the transfers to and from them: Linux's auto-tuning as arithmetic on plain numbers.
//!
//! `high` is the list's limit. It varies between `high_min` and `high_max`: refills raise it; reclaim, memory shortage
//! and idle time lower it. `batch` is the unit of transfer. `alloc_factor` doubles the refills of a CPU that keeps
//! allocating. `free_count` sums recent frees, so that a CPU that keeps freeing returns more pages in one drain. All
//! quantities are in base pages.
//!
//! linux: mm/page_alloc.c:zone_batchsize, zone_highsize, nr_pcp_alloc, nr_pcp_high, nr_pcp_free

use super::{DrainPolicy, Numbers};
use crate::base::Order;

/// Largest power of two by which `batch` is scaled. linux: CONFIG_PCP_BATCH_SCALE_MAX
pub const BATCH_SCALE_MAX: u32 = 5;
/// Largest batch; it is small enough that scaled values and sums fit into 32 bits.
const BATCH_MAX: u32 = 1 << 20;
/// Smallest allowed value of the high fraction. linux: MIN_PERCPU_PAGELIST_HIGH_FRACTION
pub const HIGH_FRACTION_MIN: u32 = 8;

/// Inputs for the limits of a list.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct ZoneFacts {
    /// Pages that the zone manages.
    pub managed: u64,
    /// Low watermark of the zone, in pages.
    pub low: u64,
    /// Number of CPUs of the node, or of all CPUs if the node has none.
    pub cpus: u32,
}

/// Limits for the tuning of a list, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Limits {
    /// Pages that a refill or a drain moves in one step.
    pub batch: u32,
    /// Lower limit of `high`.
    pub high_min: u32,
    /// Upper limit of `high`.
    pub high_max: u32,
}

/// State of a list that the decisions read and update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct Tuning {
    /// Pages on the CPU's lists for the zone.
    pub count: u32,
    /// Current limit of the lists.
    pub high: u32,
    /// Number of doublings of `batch` for refills.
    pub alloc_factor: u32,
    /// Recently freed pages, halved by each allocation. linux: pcp->free_count
    pub free_count: u32,
}

/// Memory shortage of the zone, as far as lists react to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Pressure {
    /// Whether free pages are below the high watermark. linux: ZONE_BELOW_HIGH
    pub below_high: bool,
    /// Whether kswapd works on the zone. linux: ZONE_RECLAIM_ACTIVE
    pub reclaim_active: bool,
}

/// Reason for which a free drains the CPU's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Cause {
    /// Blocks of order 1 to 3 are freed without being allocated: all of them are returned. linux: free_high
    HighOrderFrees,
    /// The lists have as many pages as their limit, or more.
    Full,
}

impl Limits {
    /// Limits of lists that hold nothing: a refill brings one block, and a free returns it at once.
    pub const NONE: Limits = Limits { batch: 1, high_min: 0, high_max: 0 };

    /// Returns the limits of a zone's lists, by Linux's rules unless `numbers` overrides them.
    pub fn for_zone(facts: ZoneFacts, page_size: u32, numbers: &Numbers) -> Limits {
        let batch = numbers.pcp_batch.unwrap_or_else(|| default_batch(facts.managed, page_size)).clamp(1, BATCH_MAX);
        match numbers.pcp_high_fraction {
            Some(fraction) => {
                let high = cpu_share(facts.managed / u64::from(fraction.max(HIGH_FRACTION_MIN)), facts.cpus, batch);
                Limits { batch, high_min: high, high_max: high }
            }
            None => {
                let high_max = cpu_share(facts.managed / u64::from(HIGH_FRACTION_MIN), facts.cpus, batch);
                Limits { batch, high_min: cpu_share(facts.low, facts.cpus, batch), high_max }
            }
        }
    }

    /// Returns the limit lowered by some pages, but not below `high_min`.
    #[inline]
    fn lower(&self, high: u32, by: u32) -> u32 {
        high.saturating_sub(by).max(self.high_min)
    }

    /// Returns the number of recent frees from which all blocks of order 1 to 3 are returned.
    pub fn high_order_frees(&self, numbers: &Numbers) -> u32 {
        let percent = u64::from(numbers.pcp_free_high.unwrap_or(0));
        (u64::from(self.batch) + u64::from(self.high_min) * percent / 100).try_into().unwrap_or(u32::MAX)
    }

    /// Returns the allowed limit nearest to `high`.
    pub fn clamp(&self, high: u32) -> u32 {
        high.max(self.high_min).min(self.high_max)
    }

    /// Returns whether a limit is possible. A decay may leave the limit above `high_max` temporarily, by the pages on
    /// the lists at that time. No operation leaves it below both ends; on a small zone `high_min` may exceed
    /// `high_max`, as in Linux.
    pub fn allows(&self, high: u32) -> bool {
        high >= self.high_min.min(self.high_max)
    }

    fn is_tuned(&self) -> bool {
        self.high_min != self.high_max
    }
}

/// Returns Linux's batch: a quarter of 1/1024 of the zone, at most 256 KiB, rounded to one less than a power of two.
fn default_batch(managed: u64, page_size: u32) -> u32 {
    let ceiling = (1 << 20) / u64::from(page_size);
    let quarter = ((managed >> 10).min(ceiling) / 4).max(1) as u32;
    (1 << (quarter + quarter / 2).ilog2()) - 1
}

/// Returns the number of blocks of `order` that a refill takes from the zone, and updates the tuning.
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

/// Returns whether a free changes nothing in a zone without memory shortage: the lists are below their limit, and
/// [`limit`] would not change it. A limit above `high_max`, as after a decay, would be changed.
#[inline]
pub fn has_room(tuning: &Tuning, limits: &Limits) -> bool {
    tuning.count < tuning.high && tuning.high <= limits.high_max
}

/// Returns one CPU's share of pages, at least four batches.
fn cpu_share(pages: u64, cpus: u32, batch: u32) -> u32 {
    (pages / u64::from(cpus.max(1))).max(u64::from(batch) * 4).min(u64::from(u32::MAX / 4)) as u32
}

/// Returns the number of pages that the lists may hold now, and updates the tuning. A free that finds this number or
/// more on the lists drains them.
pub fn limit(tuning: &mut Tuning, limits: &Limits, pressure: Pressure, cause: Cause) -> u32 {
    let high = limits.clamp(tuning.high);
    tuning.high = high;
    if high == 0 {
        return 0;
    }
    let recent = tuning.free_count.max(limits.batch);
    if cause == Cause::HighOrderFrees {
        tuning.high = limits.lower(high, limits.batch << BATCH_SCALE_MAX);
        return 0;
    }
    if pressure.reclaim_active {
        tuning.high = limits.lower(high, recent);
        return (limits.batch << 2).min(tuning.high);
    }
    if !limits.is_tuned() {
        return high;
    }
    if pressure.below_high {
        tuning.high = limits.lower(high, recent);
        return tuning.count.max(limits.high_min);
    }
    let wanted = tuning.free_count + limits.batch;
    if tuning.count >= high && high < wanted {
        tuning.high = limits.clamp(wanted);
    }
    high
}

/// Returns the number of pages that a drain returns, if the limit was `high`.
pub fn drain_pages(tuning: &Tuning, limits: &Limits, high: u32, cause: Cause) -> u32 {
    if cause == Cause::HighOrderFrees {
        return tuning.count.min(limits.batch << BATCH_SCALE_MAX);
    }
    if high < limits.batch {
        return 1;
    }
    tuning.free_count.max(limits.batch).min(high - limits.batch)
}

/// Returns how many of the `left` pages of a drain are returned under one hold of the locks.
pub fn drain_step(policy: DrainPolicy, left: u32, limits: &Limits) -> u32 {
    match policy {
        DrainPolicy::Whole => left,
        DrainPolicy::Batched => left.min(limits.batch),
    }
}

/// Lowers the limit by one tick of idle time; returns the number of pages to drain.
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
    fn refill_doubles_while_a_cpu_only_allocates() {
        let limits = Limits { batch: 63, high_min: 252, high_max: 100_000 };
        let mut tuning = Tuning { high: 252, ..Tuning::default() };
        let taken: [u32; 7] = core::array::from_fn(|_| refill_blocks(&mut tuning, &limits, Order::ZERO, CALM));
        assert_eq!(taken, [63, 126, 252, 504, 1008, 2016, 2016]);
    }

    #[test]
    fn low_memory_lowers_high() {
        let limits = Limits { batch: 63, high_min: 252, high_max: 100_000 };
        let mut tuning = Tuning { high: 5000, count: 5000, free_count: 10, ..Tuning::default() };
        let short = Pressure { below_high: true, reclaim_active: false };
        assert_eq!(limit(&mut tuning, &limits, short, Cause::Full), 5000);
        assert_eq!(tuning.high, 4937);
    }

    #[test]
    fn without_lists_a_free_drains_immediately() {
        let mut tuning = Tuning { count: 1, ..Tuning::default() };
        assert_eq!(limit(&mut tuning, &Limits::NONE, CALM, Cause::Full), 0);
        assert_eq!(drain_pages(&tuning, &Limits::NONE, 0, Cause::Full), 1);
    }

    const FIXED: Limits = Limits { batch: 63, high_min: 500, high_max: 500 };
    const TUNED: Limits = Limits { batch: 63, high_min: 252, high_max: 4000 };

    fn limits_of(managed: u64, low: u64, cpus: u32, numbers: Numbers) -> Limits {
        Limits::for_zone(ZoneFacts { managed, low, cpus }, 4096, &numbers)
    }

    #[test]
    fn limits_are_zone_shares_and_at_least_four_batches() {
        let none = Numbers::default();
        assert_eq!(limits_of(1 << 18, 1286, 4, none), Limits { batch: 63, high_min: 321, high_max: 8192 });
        assert_eq!(limits_of(1 << 18, 1286, 0, none), Limits { batch: 63, high_min: 1286, high_max: 32_768 });
        assert_eq!(limits_of(1 << 18, 400, 400, none), Limits { batch: 63, high_min: 252, high_max: 252 });
        assert_eq!(limits_of(3840, 5, 1, none), Limits { batch: 1, high_min: 5, high_max: 480 }, "a DMA zone");
        let all = limits_of(1 << 40, 1 << 40, 1, none);
        assert_eq!((all.high_min, all.high_max), (u32::MAX / 4, u32::MAX / 4), "sums of the limits fit into 32 bits");
    }

    #[test]
    fn numbers_set_the_batch_and_the_fraction() {
        assert_eq!([0, 1, 7, u32::MAX].map(|batch| with_batch(batch).batch), [1, 1, 7, 1 << 20]);
        assert_eq!(with_batch(7).high_min, 28);
        assert_eq!(with_fraction(16), Limits { batch: 63, high_min: 8192, high_max: 8192 });
        assert_eq!(with_fraction(1), with_fraction(8), "at most an eighth");
    }

    fn with_batch(batch: u32) -> Limits {
        limits_of(1 << 18, 0, 1, Numbers { pcp_batch: Some(batch), ..Numbers::default() })
    }

    fn with_fraction(fraction: u32) -> Limits {
        limits_of(1 << 18, 5000, 2, Numbers { pcp_high_fraction: Some(fraction), ..Numbers::default() })
    }

    #[test]
    fn default_batch_is_a_power_of_two_minus_one() {
        let mebibytes = [16, 32, 64, 128, 192, 256, 512, 1024, 2048];
        let batches = mebibytes.map(|mib| default_batch(mib << 8, 4096));
        assert_eq!(batches, [0, 1, 3, 7, 15, 15, 31, 63, 63], "the batch is rounded from 1.5 times the share");
        assert_eq!(default_batch(1 << 40, 65_536), 3, "the same number of bytes, in larger pages");
    }

    #[test]
    fn high_order_free_count_starts_at_a_batch() {
        let limits = Limits { batch: 60, high_min: 300, high_max: 4000 };
        for (percent, frees) in [(None, 60), (Some(0), 60), (Some(50), 210), (Some(u32::MAX), u32::MAX)] {
            let numbers = Numbers { pcp_free_high: percent, ..Numbers::default() };
            assert_eq!(limits.high_order_frees(&numbers), frees, "{percent:?}");
        }
    }

    #[test]
    fn high_is_clamped_between_its_limits() {
        assert_eq!([0, 252, 1000, 4000, 5000].map(|high| TUNED.clamp(high)), [252, 252, 1000, 4000, 4000]);
        assert!(TUNED.allows(252) && TUNED.allows(5000) && !TUNED.allows(251));
        let wrong_way = Limits { batch: 1, high_min: 10, high_max: 4 };
        assert!(wrong_way.allows(4) && !wrong_way.allows(3));
    }

    #[test]
    fn high_order_refill_is_a_batch_and_at_least_two_blocks() {
        let orders = [1, 2, 3, 5, 9].map(Order::new);
        let blocks = orders.map(|order| refill_blocks(&mut Tuning::default(), &TUNED, order, CALM));
        assert_eq!(blocks, [31, 15, 7, 2, 2]);
        let mut tuning = Tuning { alloc_factor: 3, ..Tuning::default() };
        assert_eq!(
            refill_blocks(&mut tuning, &TUNED, Order::new(1), CALM),
            31,
            "regardless of the scale of single pages"
        );
        assert_eq!((tuning.alloc_factor, tuning.high), (3, 252 + 63));
        let one = Limits { batch: 1, high_min: 4, high_max: 4 };
        assert_eq!(refill_blocks(&mut Tuning::default(), &one, Order::new(1), CALM), 1);
        assert_eq!(refill_blocks(&mut Tuning::default(), &Limits::NONE, Order::ZERO, CALM), 1);
        let shut = Limits { batch: 63, high_min: 0, high_max: 62 };
        assert_eq!(refill_blocks(&mut Tuning::default(), &shut, Order::ZERO, CALM), 1, "no room for a batch");
        let open = Limits { batch: 63, high_min: 0, high_max: 63 };
        assert_eq!(refill_blocks(&mut Tuning { high: 63, ..Tuning::default() }, &open, Order::ZERO, CALM), 63);
    }

    #[test]
    fn refill_leaves_room_for_a_batch_below_high() {
        let mut tuning = Tuning { high: 500, count: 100, alloc_factor: 4, ..Tuning::default() };
        assert_eq!(refill_blocks(&mut tuning, &FIXED, Order::ZERO, CALM), 500 - 100 - 63);
        assert_eq!((tuning.alloc_factor, tuning.high), (4, 500), "sixteen batches did not fit");
        let mut tuning = Tuning { high: 500, count: 311, alloc_factor: 1, ..Tuning::default() };
        assert_eq!((refill_blocks(&mut tuning, &FIXED, Order::ZERO, CALM), tuning.alloc_factor), (126, 2));
        let mut tuning = Tuning { high: 500, count: 312, alloc_factor: 1, ..Tuning::default() };
        assert_eq!((refill_blocks(&mut tuning, &FIXED, Order::ZERO, CALM), tuning.alloc_factor), (125, 1));
        let mut tuning = Tuning { high: 252, count: 0, alloc_factor: 5, ..Tuning::default() };
        let short = Pressure { below_high: true, reclaim_active: false };
        assert_eq!(refill_blocks(&mut tuning, &TUNED, Order::ZERO, short), 252 - 63);
        assert_eq!(tuning.high, 252, "the limit does not grow while memory is short");
        let mut tuning = Tuning { high: 3990, ..Tuning::default() };
        refill_blocks(&mut tuning, &TUNED, Order::ZERO, CALM);
        assert_eq!(tuning.high, 4000);
    }

    #[test]
    fn reclaim_and_high_order_frees_lower_high() {
        let active = Pressure { below_high: true, reclaim_active: true };
        let short = Pressure { below_high: true, reclaim_active: false };
        assert_eq!(limit_of_full(&TUNED, CALM, Cause::HighOrderFrees), (0, 3000 - 63 * 32));
        assert_eq!(limit_of_full(&TUNED, active, Cause::Full), (4 * 63, 2900));
        assert_eq!(limit_of_full(&TUNED, short, Cause::Full), (3000, 2900), "the listed pages stay");
        assert_eq!(limit_of_full(&TUNED, CALM, Cause::Full), (3000, 3000));
        assert_eq!(limit_of_full(&FIXED, short, Cause::Full), (500, 500), "a fixed limit does not change");
        assert_eq!(limit_of_full(&FIXED, active, Cause::Full), (252, 500));
        let mut few = Tuning { high: 300, count: 10, ..Tuning::default() };
        assert_eq!((limit(&mut few, &TUNED, short, Cause::Full), few.high), (252, 252), "at least `high_min`");
    }

    /// Returns the number of pages that a list of 3000 pages may hold, and its limit afterwards.
    fn limit_of_full(limits: &Limits, pressure: Pressure, cause: Cause) -> (u32, u32) {
        let mut tuning = Tuning { high: 3000, count: 3000, free_count: 100, ..Tuning::default() };
        (limit(&mut tuning, limits, pressure, cause), tuning.high)
    }

    #[test]
    fn frees_beyond_high_raise_high() {
        assert_eq!(limit_after_frees(400, 338), (400, 401));
        assert_eq!(limit_after_frees(400, 337), (400, 400), "the list has 400 pages");
        assert_eq!(limit_after_frees(399, 338), (400, 400), "the list is not full");
        assert_eq!(limit_after_frees(400, 9000), (400, 4000));
        for (count, high, is_roomy) in [(399, 400, true), (400, 400, false), (0, 4000, true), (0, 4001, false)] {
            // A limit above `high_max` is lowered by the next free.
            assert_eq!(has_room(&Tuning { high, count, ..Tuning::default() }, &TUNED), is_roomy, "{count} of {high}");
        }
    }

    /// Returns the same pair as [`limit_of_full`], for a list of `count` pages whose limit is 400.
    fn limit_after_frees(count: u32, free_count: u32) -> (u32, u32) {
        let mut tuning = Tuning { high: 400, count, free_count, ..Tuning::default() };
        (limit(&mut tuning, &TUNED, CALM, Cause::Full), tuning.high)
    }

    #[test]
    fn drain_frees_recent_frees_but_keeps_a_batch() {
        for (free_count, high, pages) in [(0, 300, 63), (100, 300, 100), (500, 300, 237), (500, 62, 1), (500, 63, 0)] {
            let tuning = Tuning { count: 3000, free_count, ..Tuning::default() };
            assert_eq!(drain_pages(&tuning, &TUNED, high, Cause::Full), pages, "{free_count} freed, limit {high}");
        }
        for (count, pages) in [(10, 10), (3000, 63 * 32)] {
            let tuning = Tuning { count, ..Tuning::default() };
            assert_eq!(drain_pages(&tuning, &TUNED, 0, Cause::HighOrderFrees), pages);
        }
    }

    #[test]
    fn idle_high_decays_by_an_eighth() {
        assert_eq!(decayed(800, 750), (50, 700));
        assert_eq!(decayed(252, 300), (48, 252), "`high_min` stays");
        assert_eq!(decayed(260, 0), (0, 252));
        assert_eq!(decayed(4000, 5700), (5700 - 3684, 3684), "at most 32 batches at once");
    }

    /// Returns the number of pages to drain after a tick, and the limit afterwards.
    fn decayed(high: u32, count: u32) -> (u32, u32) {
        let mut tuning = Tuning { high, count, ..Tuning::default() };
        (decay(&mut tuning, &TUNED), tuning.high)
    }
}
