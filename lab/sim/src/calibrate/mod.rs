//! Calibration: what steps cost on this machine, and whether the simulation is to be believed with it.
//!
//! ```text
//! alone      one CPU: scenarios on the real engine, each dear in other steps      fit       prices from such bills
//! between    two CPUs that meet in the engine                                     lines     two CPUs and atomics alone
//! check      other workloads on threads and in virtual time, side by side
//! ```
//!
//! Everything is measured a number of times in turn, and medians count: what disturbs the machine for a while then
//! disturbs all of them a little, and none of them for good.

mod alone;
mod between;
pub mod check;
mod fit;
mod lines;
pub mod table;

use std::panic::resume_unwind;
use std::thread;

use alone::{LISTED, SCENARIOS, STEPS, Took, each_ps};
use between::Exchange;
use fit::Bill;
use freehold_report::progress::Progress;
use freehold_stats::intervals::median;
use freehold_timing::clock::{self, Place};

use crate::costs::Costs;
use crate::error::Error;

/// What comes from another node: where there is none, so many times as much as from the same one.
const REMOTE: f64 = 2.0;
/// Frames whose metadata share a cache line.
const FRAMES_PER_LINE: f64 = 4.0;

/// A measured table.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The table.
    pub costs: Costs,
    /// The largest error with which it explains what one CPU did, as a share.
    pub worst_error: f64,
    /// Whether there was a second CPU to measure with.
    pub has_partner: bool,
}

/// What was measured in one turn, in picoseconds where it is a number.
struct Turn {
    listed: Took,
    scenarios: Vec<Took>,
    swap: f64,
    pair: f64,
    parcel: f64,
    between: Option<Between>,
}

/// What takes a second CPU.
struct Between {
    handover: f64,
    zone_turns: f64,
    by_list: Exchange,
    by_stack: Exchange,
}

/// Measures the table of this machine in so many turns, on this CPU or the last one, and on another one beside it. What
/// takes two CPUs is left as in the reference table if this process may use one only.
///
/// # Errors
/// When a thread may not run where it should.
pub fn measure(name: &str, turns: u32, cpu: Option<u16>) -> Result<Calibration, Error> {
    // On a thread of its own: it is pinned, and what comes afterwards need not be.
    thread::scope(|scope| {
        let measured = scope.spawn(|| measure_here(name, turns, clock::pin(cpu)?));
        measured.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn measure_here(name: &str, turns: u32, place: Place) -> Result<Calibration, Error> {
    let progress = Progress::counting("calibrating", u64::from(turns), "turns");
    let take = |_| {
        progress.advance(1);
        Turn::take(place.partner)
    };
    let turns = (0..turns.max(1)).map(take).collect::<Result<Vec<_>, _>>()?;
    let mut costs = Costs { name: name.to_owned(), ..Costs::reference() };
    let worst_error = price_alone(&turns, &mut costs);
    price_between(&turns, &mut costs);
    Ok(Calibration { costs, worst_error, has_partner: place.partner.is_some() })
}

impl Calibration {
    /// What is to be known about it, in sentences.
    pub fn remarks(&self) -> Vec<String> {
        let error = self.worst_error * 100.0;
        let mut remarks = vec![
            format!("The table explains what one CPU did in each scenario within {error:.1} %."),
            "What comes from another node, reclaim and compaction were not measured.".to_owned(),
        ];
        if !self.has_partner {
            remarks.push("It was measured on one CPU; what takes two is from the table that is checked in.".to_owned());
        }
        remarks
    }
}

impl Turn {
    fn take(partner: Option<u16>) -> Result<Turn, Error> {
        let (pair, parcel) = between::pair_and_parcel_alone()?;
        Ok(Turn {
            listed: LISTED.take()?,
            scenarios: SCENARIOS.iter().map(alone::Scenario::take).collect::<Result<_, _>>()?,
            swap: lines::swap(),
            pair,
            parcel,
            between: partner.map(Between::take).transpose()?,
        })
    }
}

impl Between {
    fn take(partner: u16) -> Result<Between, Error> {
        Ok(Between {
            handover: lines::handover(partner)?,
            zone_turns: between::zone_turns(partner)?,
            by_list: between::exchange_by_list(partner)?,
            by_stack: between::exchange_by_stack(partner)?,
        })
    }
}

/// What one CPU's steps cost; returns the largest error of what they explain.
fn price_alone(turns: &[Turn], costs: &mut Costs) -> f64 {
    let middle = |of: &dyn Fn(&Turn) -> f64| median(&mut turns.iter().map(of).collect::<Vec<_>>());
    let alloc = middle(&|turn| each_ps(turn.listed.alloc));
    let free = middle(&|turn| each_ps(turn.listed.free));
    let bill = |at: usize| {
        let whole = middle(&|turn| turn.scenarios[at].bill(alloc, free).whole);
        let cost = middle(&|turn| turn.scenarios[at].bill(alloc, free).cost);
        Bill { cost, whole, ..turns[0].scenarios[at].bill(alloc, free) }
    };
    let bills: Vec<Bill<STEPS>> = (0..SCENARIOS.len()).map(bill).collect();
    let prices = fit::prices(&bills);
    let [zone_lock, link, block, split, merge] = prices.map(whole);
    (costs.alloc_ps, costs.free_ps) = (whole(alloc), whole(free));
    (costs.zone_lock_ps, costs.link_ps, costs.block_ps) = (zone_lock, link, block);
    (costs.split_ps, costs.merge_ps) = (split, merge);
    bills.iter().map(|bill| bill.error(&prices).abs()).fold(0.0, f64::max)
}

/// What it costs that two CPUs meet.
fn price_between(turns: &[Turn], costs: &mut Costs) {
    let middle = |of: &dyn Fn(&Turn, &Between) -> f64| {
        let each = turns.iter().filter_map(|turn| turn.between.as_ref().map(|between| of(turn, between)));
        let mut each: Vec<f64> = each.collect();
        (!each.is_empty()).then(|| median(&mut each))
    };
    let Some(handover) = middle(&|_, between| between.handover) else { return };
    let of = |of: &dyn Fn(&Turn, &Between) -> f64| middle(of).unwrap_or_default();
    let line = FRAMES_PER_LINE * of(&|turn, two| each_ps(two.by_list.put) - each_ps(turn.listed.free));
    let line = line.max(0.0);
    let touch = line / FRAMES_PER_LINE;
    let push = of(&|turn, two| each_ps(two.by_stack.put) - each_ps(turn.listed.free)) - touch;
    let absorb = of(&|turn, two| each_ps(two.by_stack.get) - each_ps(turn.listed.alloc)) - touch;
    let transfer = of(&|turn, two| two.zone_turns - two.handover - turn.pair) - line;
    (costs.line_ps, costs.line_remote_ps) = (whole(line), whole(REMOTE * line));
    (costs.lock_transfer_ps, costs.lock_transfer_remote_ps) = (whole(transfer), whole(REMOTE * transfer));
    (costs.push_ps, costs.take_ps, costs.absorb_ps) = (whole(push), whole(of(&|turn, _| turn.swap)), whole(absorb));
    costs.parcel_ps = whole(of(&|turn, _| turn.parcel) + handover);
}

/// Picoseconds as an integer; what came out below nothing by chance is nothing.
fn whole(picoseconds: f64) -> u64 {
    picoseconds.round().max(0.0) as u64
}
