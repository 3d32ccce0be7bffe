//! Random start states with a given layout, drawn from a seed.
//!
//! The numbers of free, fixed and reclaimable pages are as given, as far as there is room. The remaining pages are of
//! files and tasks, in the given proportion. The positions are random:
//!
//! - The number of fixed pages in a pageblock that has any is log-uniform: a few in most, many in some. Free pages, or
//!   movable pages where these are fewer, are distributed likewise over all pageblocks of a kind.
//! - Within a part of memory, pageblocks of one kind are adjacent, 1 to 7 in a row.
//! - Of free and movable pages in a pageblock, the fewer are in runs of 1 to 7, the others in runs of 1 to 31.

use freehold_report::observer;

use super::layout::{Kind, Layout};
use super::{Figures, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Run, Start, Use};
use crate::random::LogUniform;

/// Weights that distribute pages unevenly over pageblocks.
const UNEVEN: LogUniform = LogUniform::new(1, 127);
/// Adjacent pageblocks of one kind.
const CLUSTER: LogUniform = LogUniform::new(1, 7);
/// Pages of a run of fixed or reclaimable pages.
const FIXED_RUN: LogUniform = LogUniform::new(1, 3);
/// Pages of a run of the rarer pages of a pageblock.
const SHORT_RUN: LogUniform = LogUniform::new(1, 7);
/// Pages of a run of the more frequent pages of a pageblock.
const LONG_RUN: LogUniform = LogUniform::new(1, 31);

/// Contents of a pageblock, in pages. The remaining pages are movable.
#[derive(Clone, Copy, Debug)]
struct Plan {
    kind: Kind,
    fixed: u32,
    reclaimable: u32,
    free: u32,
}

/// Draws a start with this layout. Takes a few nanoseconds per page.
pub fn draw_start(layout: &Layout, seed: u64) -> Start {
    let rng = &mut fastrand::Rng::with_seed(seed ^ 0x6167_6564);
    let mut start = Start::default();
    for part in layout.parts() {
        let plans: Vec<Plan> =
            Kind::ALL.into_iter().flat_map(|kind| draw_plans(kind, &part[kind as usize], rng)).collect();
        for plan in &cluster(plans, rng) {
            observer::go_on();
            start.push(plan.kind.migratetype(), draw_runs(plan, &part[plan.kind as usize], rng));
        }
    }
    start
}

/// Draws the contents of all pageblocks of a kind.
fn draw_plans(kind: Kind, figures: &Figures, rng: &mut fastrand::Rng) -> Vec<Plan> {
    let mut plans = vec![Plan { kind, fixed: 0, reclaimable: 0, free: 0 }; figures.pageblocks as usize];
    if matches!(kind, Kind::Free | Kind::Huge) {
        return plans;
    }
    let with_fixed = figures.fixed_pageblocks.min(figures.pageblocks) as usize;
    let most_fixed = if kind == Kind::Reclaimable { PAGEBLOCK_PAGES - 1 } else { PAGEBLOCK_PAGES };
    let fixed = spread(figures.fixed, &vec![most_fixed; with_fixed], rng);
    plans.iter_mut().zip(fixed).for_each(|(plan, fixed)| plan.fixed = fixed);
    let reclaimable = spread(figures.reclaimable, &rooms(&plans), rng);
    plans.iter_mut().zip(reclaimable).for_each(|(plan, reclaimable)| plan.reclaimable = reclaimable);
    let room = rooms(&plans).into_iter().map(u64::from).sum::<u64>();
    let free = figures.free.min(room);
    if free <= room - free {
        // At least one page stays used, or else the pageblock would be wholly free.
        let free_rooms: Vec<u32> = rooms(&plans).into_iter().map(|room| room.min(PAGEBLOCK_PAGES - 1)).collect();
        let spread_free = spread(free, &free_rooms, rng);
        plans.iter_mut().zip(spread_free).for_each(|(plan, free)| plan.free = free);
    } else {
        let movable = spread(room - free, &rooms(&plans), rng);
        plans.iter_mut().zip(movable).for_each(|(plan, movable)| plan.free = plan.room() - movable);
    }
    plans
}

/// Returns the room in each pageblock.
fn rooms(plans: &[Plan]) -> Vec<u32> {
    plans.iter().map(Plan::room).collect()
}

impl Plan {
    /// Returns the number of pages that are neither fixed nor reclaimable.
    fn room(&self) -> u32 {
        PAGEBLOCK_PAGES - self.fixed - self.reclaimable
    }
}

/// Distributes a number over rooms: first one for each room as far as the number allows, then the rest unevenly. The
/// part that does not fit is omitted.
fn spread(number: u64, rooms: &[u32], rng: &mut fastrand::Rng) -> Vec<u32> {
    let weights: Vec<u64> = rooms.iter().map(|_| UNEVEN.draw(rng).into()).collect();
    let mut shares = Shares { rooms, given: vec![0; rooms.len()], left: number };
    let mut open: Vec<usize> = (0..rooms.len()).filter(|&index| shares.give(index, 1)).collect();
    while shares.left > 0 && !open.is_empty() {
        let (round, weight) = (shares.left, open.iter().map(|&index| weights[index]).sum::<u64>());
        open.retain(|&index| {
            let wanted = (u128::from(round) * u128::from(weights[index]) / u128::from(weight)) as u64;
            shares.give(index, wanted.max(1))
        });
    }
    shares.given
}

/// State while a number is distributed over rooms.
struct Shares<'r> {
    rooms: &'r [u32],
    given: Vec<u32>,
    left: u64,
}

impl Shares<'_> {
    /// Gives a room the wanted number, limited by the number left and by its space. Returns whether the room has space
    /// left.
    fn give(&mut self, index: usize, wanted: u64) -> bool {
        let (room, given) = (self.rooms[index], &mut self.given[index]);
        let more = wanted.min(self.left).min(u64::from(room - *given));
        *given += more as u32;
        self.left -= more;
        *given < room
    }
}

/// Arranges the pageblocks of a part in random order, in clusters of one kind.
fn cluster(plans: Vec<Plan>, rng: &mut fastrand::Rng) -> Vec<Plan> {
    let mut clusters: Vec<&[Plan]> = Vec::new();
    for alike in plans.chunk_by(|one, next| one.kind == next.kind) {
        let mut rest = alike;
        while !rest.is_empty() {
            let (cluster, after) = rest.split_at(rest.len().min(CLUSTER.draw(rng) as usize));
            clusters.push(cluster);
            rest = after;
        }
    }
    rng.shuffle(&mut clusters);
    clusters.concat()
}

/// Draws the runs of a pageblock, in random order.
fn draw_runs(plan: &Plan, of_kind: &Figures, rng: &mut fastrand::Rng) -> Vec<Run> {
    match plan.kind {
        Kind::Free => return vec![Run { what: Use::Free, order: 0, blocks: PAGEBLOCK_PAGES as u16 }],
        Kind::Huge => return vec![Run { what: Use::Task, order: PAGEBLOCK_ORDER, blocks: 1 }],
        _ => {}
    }
    let movable = plan.room() - plan.free;
    let [of_free, of_movable] = if plan.free <= movable { [&SHORT_RUN, &LONG_RUN] } else { [&LONG_RUN, &SHORT_RUN] };
    let mut runs = Vec::new();
    cut(&mut runs, plan.fixed, &FIXED_RUN, rng, |_| Use::Fixed);
    cut(&mut runs, plan.reclaimable, &FIXED_RUN, rng, |_| Use::Reclaimable);
    cut(&mut runs, plan.free, of_free, rng, |_| Use::Free);
    cut(&mut runs, movable, of_movable, rng, |rng| draw_movable_use(of_kind, rng));
    rng.shuffle(&mut runs);
    runs
}

/// Draws the use of a run of movable pages.
fn draw_movable_use(of_kind: &Figures, rng: &mut fastrand::Rng) -> Use {
    match rng.u64(0..(of_kind.file + of_kind.task).max(1)) {
        drawn if drawn < of_kind.active => Use::Active,
        drawn if drawn < of_kind.file => Use::Inactive,
        _ => Use::Task,
    }
}

/// Cuts `pages` pages into runs.
fn cut(
    runs: &mut Vec<Run>,
    pages: u32,
    length: &LogUniform,
    rng: &mut fastrand::Rng,
    what: impl Fn(&mut fastrand::Rng) -> Use,
) {
    let mut left = pages;
    while left > 0 {
        let blocks = length.draw(rng).min(left);
        runs.push(Run { what: what(rng), order: 0, blocks: blocks as u16 });
        left -= blocks;
    }
}
