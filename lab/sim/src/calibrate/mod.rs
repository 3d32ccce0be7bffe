//! Calibration: the costs of steps on this machine, and a check of the simulation with these costs.
//!
//! ```text
//! alone      one CPU: scenarios on the real engine, each emphasising other steps  fit       unit costs from such bills
//! between    two CPUs that share data in the engine                               lines     two CPUs and atomics alone
//! check      other workloads on threads and in virtual time, side by side
//! ```
//!
//! All quantities are measured several times in turn, and their medians are used. So a temporary disturbance of the
//! machine affects one measurement of each quantity and not all measurements of one.

mod alone;
mod between;
pub mod check;
mod fit;
mod lines;
pub mod table;

use std::panic::resume_unwind;
use std::thread;

use alone::{LISTED, Measurement, SCENARIOS, STEPS, ps_per_operation};
use between::Exchange;
use fit::Bill;
use freehold_report::progress::Progress;
use freehold_stats::intervals::median;
use freehold_timing::clock::{self, Place};

use crate::costs::Costs;
use crate::error::Error;

/// Factor from the cost of a transfer within a node to the estimated cost of a transfer between nodes.
const REMOTE: f64 = 2.0;
/// Frames whose metadata share a cache line.
const FRAMES_PER_LINE: f64 = 4.0;

/// A measured table.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The table.
    pub costs: Costs,
    /// Largest relative error with which the costs explain the scenarios on one CPU.
    pub worst_error: f64,
    /// Whether there was a second CPU to measure with.
    pub has_partner: bool,
}

/// Measurements of one turn. Numbers are in picoseconds.
struct Turn {
    listed: Measurement,
    scenarios: Vec<Measurement>,
    swap: f64,
    pair: f64,
    parcel: f64,
    between: Option<Between>,
}

/// Measurements that need a second CPU.
struct Between {
    handover: f64,
    zone_turns: f64,
    by_list: Exchange,
    by_stack: Exchange,
}

/// Measures the table of this machine in `turns` turns, on `cpu` or the last allowed CPU, and on another CPU beside it.
/// The costs of reclaim and compaction are always those of the reference table. If this process may use only one CPU,
/// the costs that need two are taken from that table too.
///
/// # Errors
/// Returns an error if a thread may not run on its CPU, or if a machine cannot be built.
pub fn measure(name: &str, turns: u32, cpu: Option<u16>) -> Result<Calibration, Error> {
    // Runs on a separate thread, since that thread is pinned and the calling thread is not to be.
    thread::scope(|scope| {
        let measured = scope.spawn(|| measure_here(name, turns, clock::pin(cpu)?));
        measured.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn measure_here(name: &str, turns: u32, place: Place) -> Result<Calibration, Error> {
    let progress = Progress::counting("calibrating", u64::from(turns), "turns");
    let mut measured = Vec::new();
    for _ in 0..turns.max(1) {
        progress.advance(1);
        measured.push(Turn::measure(place.partner)?);
    }
    let mut costs = Costs { name: name.to_owned(), ..Costs::reference() };
    let worst_error = price_alone(&measured, &mut costs);
    price_between(&measured, &mut costs);
    Ok(Calibration { costs, worst_error, has_partner: place.partner.is_some() })
}

impl Calibration {
    /// Returns remarks on the quality of the calibration, as sentences.
    pub fn remarks(&self) -> Vec<String> {
        let error = self.worst_error * 100.0;
        let mut remarks = vec![
            format!("Largest error of the table in a scenario of one CPU: {error:.1} %."),
            "Not measured: transfers from another node, reclaim and compaction.".to_owned(),
        ];
        if !self.has_partner {
            remarks.push("Measured on one CPU; costs between two CPUs are those of the reference table.".to_owned());
        }
        remarks
    }
}

impl Turn {
    fn measure(partner: Option<u16>) -> Result<Turn, Error> {
        let (pair, parcel) = between::pair_and_parcel_alone()?;
        Ok(Turn {
            listed: LISTED.measure()?,
            scenarios: SCENARIOS.iter().map(alone::Scenario::measure).collect::<Result<_, _>>()?,
            swap: lines::swap(),
            pair,
            parcel,
            between: partner.map(Between::measure).transpose()?,
        })
    }
}

impl Between {
    fn measure(partner: u16) -> Result<Between, Error> {
        Ok(Between {
            handover: lines::handover(partner)?,
            zone_turns: between::zone_turns(partner)?,
            by_list: between::exchange_by_list(partner)?,
            by_stack: between::exchange_by_stack(partner)?,
        })
    }
}

/// Sets the costs of the steps of one CPU. Returns the largest relative error with which they explain the scenarios.
fn price_alone(turns: &[Turn], costs: &mut Costs) -> f64 {
    let alloc = median_over(turns, |turn| ps_per_operation(turn.listed.alloc));
    let free = median_over(turns, |turn| ps_per_operation(turn.listed.free));
    let mut bills: Vec<Bill<STEPS>> = Vec::with_capacity(SCENARIOS.len());
    for scenario in 0..SCENARIOS.len() {
        let whole = median_over(turns, |turn| turn.scenarios[scenario].bill(alloc, free).whole);
        let cost = median_over(turns, |turn| turn.scenarios[scenario].bill(alloc, free).cost);
        bills.push(Bill { cost, whole, ..turns[0].scenarios[scenario].bill(alloc, free) });
    }
    let prices = fit::prices(&bills);
    let [zone_lock, link, block, split, merge] = prices.map(whole_ps);
    (costs.alloc_ps, costs.free_ps) = (whole_ps(alloc), whole_ps(free));
    (costs.zone_lock_ps, costs.link_ps, costs.block_ps) = (zone_lock, link, block);
    (costs.split_ps, costs.merge_ps) = (split, merge);
    bills.iter().map(|bill| bill.error(&prices).abs()).fold(0.0, f64::max)
}

/// Returns the median of a value over all turns.
fn median_over(turns: &[Turn], value: impl Fn(&Turn) -> f64) -> f64 {
    median(&mut turns.iter().map(value).collect::<Vec<_>>())
}

/// Sets the costs of steps that involve two CPUs.
fn price_between(turns: &[Turn], costs: &mut Costs) {
    let pairs: Vec<(&Turn, &Between)> =
        turns.iter().filter_map(|turn| turn.between.as_ref().map(|between| (turn, between))).collect();
    if pairs.is_empty() {
        return;
    }
    let handover = median_of_pairs(&pairs, |_, between| between.handover);
    let put =
        median_of_pairs(&pairs, |turn, two| ps_per_operation(two.by_list.put) - ps_per_operation(turn.listed.free));
    let line = (FRAMES_PER_LINE * put).max(0.0);
    let touch = line / FRAMES_PER_LINE;
    let push =
        median_of_pairs(&pairs, |turn, two| ps_per_operation(two.by_stack.put) - ps_per_operation(turn.listed.free))
            - touch;
    let absorb =
        median_of_pairs(&pairs, |turn, two| ps_per_operation(two.by_stack.get) - ps_per_operation(turn.listed.alloc))
            - touch;
    let transfer = median_of_pairs(&pairs, |turn, two| two.zone_turns - two.handover - turn.pair) - line;
    let swap = median_of_pairs(&pairs, |turn, _| turn.swap);
    let parcel = median_of_pairs(&pairs, |turn, _| turn.parcel);
    (costs.line_ps, costs.line_remote_ps) = (whole_ps(line), whole_ps(REMOTE * line));
    (costs.lock_transfer_ps, costs.lock_transfer_remote_ps) = (whole_ps(transfer), whole_ps(REMOTE * transfer));
    (costs.push_ps, costs.take_ps, costs.absorb_ps) = (whole_ps(push), whole_ps(swap), whole_ps(absorb));
    costs.parcel_ps = whole_ps(parcel + handover);
}

/// Returns the median of a value over all turns that measured two CPUs.
fn median_of_pairs(pairs: &[(&Turn, &Between)], value: impl Fn(&Turn, &Between) -> f64) -> f64 {
    median(&mut pairs.iter().map(|(turn, between)| value(turn, between)).collect::<Vec<_>>())
}

/// Rounds picoseconds to an integer. Values that noise made negative become zero.
fn whole_ps(picoseconds: f64) -> u64 {
    picoseconds.round().max(0.0) as u64
}
