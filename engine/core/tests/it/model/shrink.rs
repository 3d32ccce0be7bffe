//! Failing lists of steps made short, on this harness's own runs.

use crate::common::shrink;
use crate::model::runner::{self, Met, Sabotage};
use crate::model::step::Step;
use crate::model::world::World;

/// What was met; or how the steps fail, a panic of the engine included.
pub(super) fn outcome(world: &World, steps: &[Step], sabotage: Sabotage) -> Result<Met, String> {
    shrink::outcome(|| runner::run(world, steps, sabotage))
}

/// A shorter list that fails too, and how.
pub(super) fn shrink(world: &World, steps: &[Step], sabotage: Sabotage) -> (Vec<Step>, String) {
    shrink::shrink(steps, |rest| runner::run(world, rest, sabotage))
}
