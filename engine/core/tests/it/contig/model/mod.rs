//! Random steps on two machines at once, one for each policy of freeing ranges.
//!
//! The two machines return different frames, so holdings are identified by keys: a step that frees a holding frees it
//! on both machines. The model of each machine (`range_model`) knows the owner of every frame. It predicts which ranges
//! cannot be allocated and which cannot be freed, with the frame that is the cause; after such a step the machine must
//! be unchanged. A free must return the same number of pages on both machines. Moves are refused at random, and targets
//! run out as memory becomes short.

mod range_model;
mod side;
mod step;
mod world;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use fastrand::Rng;
use freehold::base::{Order, Pfn};
use freehold::page::MinFree;
use freehold::policy::{ContigPolicy, PcpPolicy};

use crate::common::shrink::{outcome, shrink};
use crate::common::{self, Memory, repetitions};
use crate::contig::scene::{BOTH, bitmap};
use crate::contig::span;
use range_model::{Holder, RangeModel};
use side::{Coverage, Side};
use step::{Step, Way};
use world::World;

const STEPS_A_RUN: usize = 1500;
/// Steps between two checks of every block.
const CHECK_EVERY: usize = 50;

/// A fault planted to show that the harness finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    None,
    /// Some frees do not reach the engine.
    ForgetFree,
    /// Some moves are reported but not made.
    ClaimMove,
    /// A pageblock stays isolated after a failed attempt.
    KeepIsolated,
}

/// One of the two machines, without its lifetimes.
trait Machine {
    /// See [`Side::step`].
    fn step(&self, number: usize, step: Step, holder: Option<Holder>) -> Result<(), String>;
    /// See [`Side::sums`].
    fn sums(&self) -> (u64, u64);
    /// See [`Side::check_all`].
    fn check_all(&self) -> Result<(), String>;
    /// Returns the keys of all holdings.
    fn holders(&self) -> BTreeSet<Holder>;
    /// Returns how often each rare event occurred.
    fn seen(&self) -> [u32; 6];
}

impl Machine for Side<'_, '_> {
    fn step(&self, number: usize, step: Step, holder: Option<Holder>) -> Result<(), String> {
        Side::step(self, number, step, holder)
    }

    fn sums(&self) -> (u64, u64) {
        Side::sums(self)
    }

    fn check_all(&self) -> Result<(), String> {
        Side::check_all(self)
    }

    fn holders(&self) -> BTreeSet<Holder> {
        self.range_model.borrow().held.keys().copied().collect()
    }

    fn seen(&self) -> [u32; 6] {
        let Coverage { ranges, refusals, busy, from_area, parts, mistakes } = &self.seen;
        [ranges, refusals, busy, from_area, parts, mistakes].map(Cell::get)
    }
}

type Pair<'p> = [&'p dyn Machine; 2];

/// Runs the steps on both machines. Returns how often each rare event occurred.
fn run(world: &World, steps: &[Step], sabotage: Sabotage) -> Result<[u32; 6], String> {
    on_machine(world, BOTH[0], Sabotage::None, |one_by_one| {
        on_machine(world, BOTH[1], sabotage, |batched| side_by_side(&[one_by_one, batched], steps))
    })
}

/// Builds the machine of a world, and passes it to `run`.
fn on_machine<R>(
    world: &World,
    contig: ContigPolicy,
    sabotage: Sabotage,
    run: impl FnOnce(&Side<'_, '_>) -> Result<R, String>,
) -> Result<R, String> {
    let config = world.config(contig);
    let mut memory = Memory::new(&config, &world.zones);
    let mut bitmap = bitmap(world.area.end - world.area.start, 0);
    let engine = common::build(&config, &world.zones, &mut memory);
    let area = engine.reserve_cma(span(world.area.start, world.area.end), Order::ZERO, &mut bitmap);
    let area = area.map_err(|error| error.to_string())?;
    for zone in &world.zones {
        let (start, end) = (zone.start.raw(), zone.end.raw());
        let holds_area = (start..end).contains(&world.area.start);
        let parts =
            if holds_area { [(start, world.area.start), (world.area.end, end)] } else { [(start, end), (end, end)] };
        for (start, end) in parts {
            engine.release(Pfn::new(start), Pfn::new(end)).map_err(|error| error.to_string())?;
        }
    }
    engine.set_up_watermarks(MinFree::Pages(16));
    let side = Side {
        world,
        engine: &engine,
        area: &area,
        range_model: RefCell::new(RangeModel::new(world)),
        luck: RefCell::new(Rng::with_seed(0)),
        mood: Cell::new((0, 0)),
        sabotage,
        turn: Cell::new(0),
        total: world.zones.iter().map(|zone| u64::from(zone.end.raw() - zone.start.raw())).sum(),
        problem: RefCell::default(),
        seen: Coverage::default(),
    };
    engine.platform().answer_with(&side);
    run(&side)
}

fn side_by_side(sides: &Pair<'_>, steps: &[Step]) -> Result<[u32; 6], String> {
    for (number, &step) in (1..).zip(steps) {
        let stepped = step_both(sides, number, step);
        let checked = match number % CHECK_EVERY {
            0 => stepped.and_then(|()| sides.iter().try_for_each(|side| side.check_all())),
            _ => stepped,
        };
        checked.map_err(|problem| format!("step {number}, {step:?}: {problem}"))?;
    }
    // A block with an additional reference becomes a separate holding when its owner is gone, so this can take several
    // rounds.
    let mut number = steps.len();
    while !holders(sides).is_empty() {
        number += 1;
        let free = Step::Free { cpu: 0, pick: 0, way: Way::AsRange };
        step_both(sides, number, free).map_err(|problem| format!("at the end: {problem}"))?;
    }
    for side in sides {
        side.step(number + 1, Step::DrainAll, None)?;
        side.check_all().map_err(|problem| format!("when all was freed: {problem}"))?;
    }
    let [one_by_one, batched] = sides.map(Machine::seen);
    Ok(core::array::from_fn(|at| one_by_one[at] + batched[at]))
}

/// Returns the keys of all holdings on either machine.
fn holders(sides: &Pair<'_>) -> BTreeSet<Holder> {
    sides.iter().flat_map(|side| side.holders()).collect()
}

/// Takes one step on both machines. If both had the holding, the step must change the sums of both machines equally.
fn step_both(sides: &Pair<'_>, number: usize, step: Step) -> Result<(), String> {
    let holder = match step {
        Step::Free { pick, .. }
        | Step::Part { pick, .. }
        | Step::Wrong { pick, .. }
        | Step::Share { pick, .. }
        | Step::Poison { pick, .. } => {
            let holders = holders(sides);
            holders.iter().copied().nth(pick as usize % holders.len().max(1))
        }
        _ => None,
    };
    let shared = holder.filter(|holder| sides.iter().all(|side| side.holders().contains(holder)));
    let before = sides.map(Machine::sums);
    for (side, name) in sides.iter().zip(BOTH) {
        side.step(number, step, holder).map_err(|problem| format!("{name:?}: {problem}"))?;
    }
    let after = sides.map(Machine::sums);
    let Some(holder) = shared else { return Ok(()) };
    let [one_by_one, batched] = [0, 1].map(|at| subtract_sums(after[at], before[at]));
    if one_by_one == batched {
        Ok(())
    } else {
        Err(format!("{holder:?} brought {one_by_one:?} one by one and {batched:?} in batches"))
    }
}

/// Subtracts sums of [`Machine::sums`]. The number of pages on lists may have decreased.
fn subtract_sums(after: (u64, u64), before: (u64, u64)) -> (u64, u64) {
    (after.0.wrapping_sub(before.0), after.1 - before.1)
}

/// Runs a world from some seeds. Each rare event must have occurred, because otherwise the test proves too little.
#[track_caller]
fn torture(world: &World) {
    let mut seen = [0; 6];
    for seed in 0..repetitions(3) {
        let steps = step::draw(seed, STEPS_A_RUN, world);
        match outcome(|| run(world, &steps, Sabotage::None)) {
            Ok(counts) => seen.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count),
            Err(problem) => {
                let (short, again) = shrink(&steps, |steps| run(world, steps, Sabotage::None));
                let listed: Vec<String> = short.iter().map(|step| format!("Step::{step:?},")).collect();
                let (name, listed) = (world.name, listed.join("\n"));
                panic!("world '{name}', seed {seed}: {problem}\nshortened to {}: {again}\n{listed}", short.len());
            }
        }
    }
    assert!(!seen.contains(&0), "world '{}' never reached one of its rare cases: {seen:?}", world.name);
}

#[test]
fn tiny_pageblocks() {
    torture(&world::tiny());
}

#[test]
fn section_border() {
    torture(&world::border());
}

#[test]
fn no_pcp_lists() {
    torture(&world::bare());
}

#[test]
fn owned_pageblocks() {
    torture(&world::owned(PcpPolicy::Owned));
    torture(&world::owned(PcpPolicy::OwnedRemote));
}

#[test]
fn large_pageblocks() {
    torture(&world::large());
}

/// Tests the harness: each planted fault is found, and shortened to a few steps.
#[test]
fn planted_faults_are_found() {
    let faults = [(Sabotage::ForgetFree, "are not"), (Sabotage::ClaimMove, ""), (Sabotage::KeepIsolated, "isolations")];
    let world = world::tiny();
    for (sabotage, expected) in faults {
        let found = (1..8).find_map(|seed| {
            let steps = step::draw(seed, STEPS_A_RUN / 4, &world);
            outcome(|| run(&world, &steps, sabotage)).err().map(|problem| (steps, problem))
        });
        let (steps, problem) = found.expect("the fault was not found");
        assert!(problem.contains(expected), "{sabotage:?} was reported as: {problem}");
        let (short, _) = shrink(&steps, |steps| run(&world, steps, sabotage));
        assert!(short.len() < steps.len() / 4, "{sabotage:?} was shortened to {} steps only", short.len());
    }
}
