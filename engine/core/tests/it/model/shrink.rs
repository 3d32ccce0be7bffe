//! Shortening of failing lists of steps, for the runs of this harness.

use crate::common::shrink;
use crate::model::runner::{self, Met, Sabotage};
use crate::model::step::Step;
use crate::model::world::World;

/// Runs the steps. A panic of the engine becomes an error.
pub(super) fn outcome(world: &World, steps: &[Step], sabotage: Sabotage) -> Result<Met, String> {
    shrink::outcome(|| runner::run(world, steps, sabotage))
}

/// Returns a shorter list of steps that fails too, and the failure.
pub(super) fn shrink(world: &World, steps: &[Step], sabotage: Sabotage) -> (Vec<Step>, String) {
    shrink::shrink(steps, |rest| runner::run(world, rest, sabotage))
}
