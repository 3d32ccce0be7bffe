//! A start with given figures, drawn by chance from a seed.
//!
//! Every count comes out as it was asked for, as far as there is room. What chance decides is where it lies:
//!
//! - Four in five pages that cannot move lie in pageblocks that are mostly theirs, three quarters full in the mean. The
//!   others are scattered over the rest of the pageblocks that hold such pages, by a spread over doublings: a few in
//!   most, many in some. (Weiner, linux-mm, 2023-04: of some 900 pageblocks after a build 50 were the kernel's, 77
//!   others held 55 pages of its slabs each.)
//! - Free pages are spread likewise over what is not free as a whole, in runs of 1 to 7 pages.
//! - Pageblocks of one kind lie together, 1 to 7 in a row.
//! - Pages of files and of tasks come in runs of 1 to 31.

use freehold::base::MigrateType;

use super::{Figures, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Run, Start, Use};
use crate::workload::draw::Spread;

/// Of pages that cannot move, the share in pageblocks that are mostly theirs.
const DENSE: (u64, u64) = (4, 5);
/// Pages that cannot move in one of these, in the mean.
const DENSE_PAGES: u64 = PAGEBLOCK_PAGES as u64 * 3 / 4;
/// Pages that cannot move in one of the others, at most.
const SPARSE_PAGES_MAX: u32 = PAGEBLOCK_PAGES / 2;
/// How unevenly pages are spread over pageblocks.
const UNEVEN: Spread = Spread::new(1, 127);
/// Pageblocks of one kind in a row.
const CLUSTER: Spread = Spread::new(1, 7);
/// Pages of a run, by what they are used for.
const FIXED_RUN: Spread = Spread::new(1, 3);
const FREE_RUN: Spread = Spread::new(1, 7);
const MOVABLE_RUN: Spread = Spread::new(1, 31);

/// What is in a pageblock.
#[derive(Clone, Copy, Debug)]
struct Plan {
    kind: Kind,
    fixed: u32,
    reclaimable: u32,
    free: u32,
}

/// What a pageblock mostly is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Free,
    Huge,
    /// Mostly of pages that cannot move.
    Fixed,
    /// Of movable pages, with some that cannot.
    Polluted,
    Reclaimable,
    Movable,
}

impl Kind {
    fn migratetype(self) -> MigrateType {
        match self {
            Kind::Fixed => MigrateType::Unmovable,
            Kind::Reclaimable => MigrateType::Reclaimable,
            _ => MigrateType::Movable,
        }
    }
}

/// Draws a start with these figures. Cost: a few nanoseconds a page.
pub fn drawn(figures: &Figures, seed: u64) -> Start {
    let rng = &mut fastrand::Rng::with_seed(seed ^ 0x6167_6564);
    let mut plans = kinds(figures);
    share_out(figures, &mut plans, rng);
    let plans = clustered(plans, rng);
    let movable = figures.file + figures.task.saturating_sub(figures.huge_pageblocks << PAGEBLOCK_ORDER);
    let mix = Mix { movable, file: figures.file, active: figures.active };
    let mut start = Start::default();
    for plan in &plans {
        start.push(plan.kind.migratetype(), mix.runs(plan, rng));
    }
    start
}

/// The pageblocks by kind, with nothing in them yet.
fn kinds(figures: &Figures) -> Vec<Plan> {
    let dense = (figures.fixed * DENSE.0 / DENSE.1 / DENSE_PAGES).min(figures.fixed_pageblocks);
    let wanted = [
        (Kind::Free, figures.free_pageblocks),
        (Kind::Fixed, dense),
        (Kind::Polluted, figures.fixed_pageblocks - dense),
        (Kind::Reclaimable, figures.reclaimable_pageblocks),
        (Kind::Huge, figures.huge_pageblocks),
        (Kind::Movable, u64::MAX),
    ];
    let mut plans = Vec::with_capacity(figures.pageblocks as usize);
    for (kind, count) in wanted {
        let room = figures.pageblocks - plans.len() as u64;
        let plan = Plan { kind, fixed: 0, reclaimable: 0, free: 0 };
        plans.extend(std::iter::repeat_n(plan, count.min(room) as usize));
    }
    plans
}

/// Says how many pages of each use every pageblock has.
fn share_out(figures: &Figures, plans: &mut [Plan], rng: &mut fastrand::Rng) {
    let of = |plans: &[Plan], kind| plans.iter().filter(|plan| plan.kind == kind).count() as u64;
    let room = of(plans, Kind::Fixed) << PAGEBLOCK_ORDER;
    let in_dense = (figures.fixed * DENSE.0 / DENSE.1).min(room);
    spread(in_dense, plans, rng, |plan| plan.fixed(Kind::Fixed, PAGEBLOCK_PAGES));
    spread(figures.fixed - in_dense, plans, rng, |plan| plan.fixed(Kind::Polluted, SPARSE_PAGES_MAX));
    spread(figures.reclaimable, plans, rng, Plan::reclaimable);
    let in_whole = of(plans, Kind::Free) << PAGEBLOCK_ORDER;
    spread(figures.free.saturating_sub(in_whole), plans, rng, Plan::free);
}

/// A count of a pageblock that may still be raised.
struct Share<'p> {
    count: &'p mut u32,
    room: u32,
}

impl Plan {
    fn fixed(&mut self, kind: Kind, most: u32) -> Option<Share<'_>> {
        (self.kind == kind).then_some(Share { count: &mut self.fixed, room: most })
    }

    fn reclaimable(&mut self) -> Option<Share<'_>> {
        (self.kind == Kind::Reclaimable).then_some(Share { count: &mut self.reclaimable, room: PAGEBLOCK_PAGES })
    }

    /// One page at least stays used: else the pageblock would be free as a whole.
    fn free(&mut self) -> Option<Share<'_>> {
        let room = PAGEBLOCK_PAGES - (self.fixed + self.reclaimable).max(1);
        (!matches!(self.kind, Kind::Free | Kind::Huge)).then_some(Share { count: &mut self.free, room })
    }
}

/// Spreads pages over the pageblocks that have a share: one page each if there are as many, the rest unevenly. What
/// finds no room is left out.
fn spread(pages: u64, plans: &mut [Plan], rng: &mut fastrand::Rng, share: impl Fn(&mut Plan) -> Option<Share<'_>>) {
    let mut shares: Vec<(Share<'_>, u64)> =
        plans.iter_mut().filter_map(share).map(|share| (share, u64::from(UNEVEN.draw(rng)))).collect();
    let mut left = pages;
    for (share, _) in &mut shares {
        left -= share.give(left.min(1));
    }
    while left > 0 && !shares.is_empty() {
        shares.retain(|(share, _)| share.room > 0);
        let (round, weights) = (left, shares.iter().map(|(_, weight)| weight).sum::<u64>());
        for (share, weight) in &mut shares {
            let wanted = u128::from(round) * u128::from(*weight) / u128::from(weights);
            left -= share.give(left.min((wanted as u64).max(1)));
        }
    }
}

impl Share<'_> {
    /// Raises the count by so much, as far as there is room; says by how much.
    fn give(&mut self, pages: u64) -> u64 {
        let given = pages.min(u64::from(self.room)) as u32;
        *self.count += given;
        self.room -= given;
        u64::from(given)
    }
}

/// Puts the pageblocks into the order in which they lie.
fn clustered(plans: Vec<Plan>, rng: &mut fastrand::Rng) -> Vec<Plan> {
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

/// Of what the movable pages are that are no huge pages.
struct Mix {
    movable: u64,
    file: u64,
    active: u64,
}

impl Mix {
    /// What is in a pageblock, in some order.
    fn runs(&self, plan: &Plan, rng: &mut fastrand::Rng) -> Vec<Run> {
        let whole = |what, order| vec![Run { what, order, blocks: (PAGEBLOCK_PAGES >> order) as u16 }];
        match plan.kind {
            Kind::Free => return whole(Use::Free, 0),
            Kind::Huge => return whole(Use::Task, PAGEBLOCK_ORDER),
            _ => {}
        }
        let mut runs = Vec::new();
        cut(&mut runs, plan.fixed, &FIXED_RUN, rng, |_| Use::Fixed);
        cut(&mut runs, plan.reclaimable, &FIXED_RUN, rng, |_| Use::Reclaimable);
        cut(&mut runs, plan.free, &FREE_RUN, rng, |_| Use::Free);
        let movable = PAGEBLOCK_PAGES - plan.fixed - plan.reclaimable - plan.free;
        cut(&mut runs, movable, &MOVABLE_RUN, rng, |rng| self.movable(rng));
        rng.shuffle(&mut runs);
        runs
    }

    fn movable(&self, rng: &mut fastrand::Rng) -> Use {
        match rng.u64(0..self.movable.max(1)) {
            drawn if drawn < self.active => Use::Active,
            drawn if drawn < self.file => Use::Inactive,
            _ => Use::Task,
        }
    }
}

/// Cuts so many pages into runs.
fn cut(
    runs: &mut Vec<Run>,
    pages: u32,
    length: &Spread,
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
