//! A start with a given layout, drawn by chance from a seed.
//!
//! Free pages, those that cannot move, and those of shrinkers come out as many as were asked for, as far as there is
//! room; the rest is of files and tasks in the mix that was asked for. What chance decides is where they lie:
//!
//! - How many pages that cannot move a pageblock holds, of those that hold some, is drawn evenly over doublings: a few
//!   in most, many in some. Free pages, or those that can be moved where these are fewer, are drawn likewise for all
//!   pageblocks of a kind.
//! - Within a part of memory, pageblocks of one kind lie together, 1 to 7 in a row.
//! - Of free pages and those that can be moved, the fewer come in runs of 1 to 7, the others in runs of 1 to 31.

use freehold_report::observer;

use super::layout::{Kind, Layout};
use super::{Figures, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Run, Start, Use};
use crate::random::LogUniform;

/// How unevenly pages are spread over pageblocks.
const UNEVEN: LogUniform = LogUniform::new(1, 127);
/// Pageblocks of one kind in a row.
const CLUSTER: LogUniform = LogUniform::new(1, 7);
/// Pages of a run, of those that cannot move.
const FIXED_RUN: LogUniform = LogUniform::new(1, 3);
/// Of what there is little of in a pageblock.
const SHORT_RUN: LogUniform = LogUniform::new(1, 7);
/// Of what there is much of.
const LONG_RUN: LogUniform = LogUniform::new(1, 31);

/// What is in a pageblock. What is not told is movable.
#[derive(Clone, Copy, Debug)]
struct Plan {
    kind: Kind,
    fixed: u32,
    reclaimable: u32,
    free: u32,
}

/// Draws a start with this layout. Cost: a few nanoseconds a page.
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

/// The pageblocks of a kind, and how many pages of each use every one of them has.
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
        // One page at least stays used: else the pageblock would be free as a whole.
        let free_rooms: Vec<u32> = rooms(&plans).into_iter().map(|room| room.min(PAGEBLOCK_PAGES - 1)).collect();
        let spread_free = spread(free, &free_rooms, rng);
        plans.iter_mut().zip(spread_free).for_each(|(plan, free)| plan.free = free);
    } else {
        let movable = spread(room - free, &rooms(&plans), rng);
        plans.iter_mut().zip(movable).for_each(|(plan, movable)| plan.free = plan.room() - movable);
    }
    plans
}

/// What each pageblock has room for.
fn rooms(plans: &[Plan]) -> Vec<u32> {
    plans.iter().map(Plan::room).collect()
}

impl Plan {
    /// Pages of which nothing is said but that they are free or can be moved.
    fn room(&self) -> u32 {
        PAGEBLOCK_PAGES - self.fixed - self.reclaimable
    }
}

/// Spreads a number over so much room each: one everywhere if there is enough, the rest unevenly. What finds no room is
/// left out.
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

/// A number while it is shared out over rooms.
struct Shares<'r> {
    rooms: &'r [u32],
    given: Vec<u32>,
    left: u64,
}

impl Shares<'_> {
    /// Gives a room as much as is wanted, left, and fits; returns whether the room has space left.
    fn give(&mut self, index: usize, wanted: u64) -> bool {
        let (room, given) = (self.rooms[index], &mut self.given[index]);
        let more = wanted.min(self.left).min(u64::from(room - *given));
        *given += more as u32;
        self.left -= more;
        *given < room
    }
}

/// Puts the pageblocks into the order in which they lie.
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

/// What is in a pageblock of a kind with these figures, in some order.
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

/// Of what a page is that can be moved.
fn draw_movable_use(of_kind: &Figures, rng: &mut fastrand::Rng) -> Use {
    match rng.u64(0..(of_kind.file + of_kind.task).max(1)) {
        drawn if drawn < of_kind.active => Use::Active,
        drawn if drawn < of_kind.file => Use::Inactive,
        _ => Use::Task,
    }
}

/// Cuts so many pages into runs.
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
