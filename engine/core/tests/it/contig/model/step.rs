//! Steps as data: drawn from a seed without knowledge of any state. A number named `pick` selects one of the holdings
//! that exist when the step is taken.

use fastrand::Rng;
use freehold::base::{Gfp, Pfn};
use freehold::page::Placement;

use super::world::World;

/// A step on both machines.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Alloc {
        cpu: u16,
        gfp: Gfp,
        order: u8,
        frozen: bool,
    },
    Range {
        cpu: u16,
        start: u32,
        pages: u32,
        gfp: Gfp,
        frozen: bool,
    },
    Find {
        cpu: u16,
        pages: u32,
        place: Placement,
        gfp: Gfp,
        frozen: bool,
    },
    Cma {
        cpu: u16,
        pages: u32,
        align: u32,
    },
    Free {
        cpu: u16,
        pick: u32,
        way: Way,
    },
    Part {
        cpu: u16,
        pick: u32,
        from: u32,
        to: u32,
    },
    Wrong {
        cpu: u16,
        pick: u32,
        before: u32,
        after: u32,
    },
    Share {
        pick: u32,
        at: u32,
    },
    Poison {
        pick: u32,
        at: u32,
    },
    PoisonFree {
        pfn: u32,
    },
    DrainAll,
    /// Sets the percentages of moves that are refused, and of reclaim calls that free a block.
    Mood {
        refusals: u8,
        reclaims: u8,
    },
}

/// Way to free a holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    AsRange,
    BlockByBlock,
    InBulk(u64),
}

/// Draws `count` steps for a world.
pub(super) fn draw(seed: u64, count: usize, world: &World) -> Vec<Step> {
    let mut draw = Draw { rng: Rng::with_seed(seed), world };
    let mut steps = Vec::with_capacity(count);
    while steps.len() < count {
        // Phases: memory fills with blocks of some sizes, and empties again.
        let (allocs, largest) = (draw.rng.u32(15..60), [0, 0, 1, 2, 3, 5][draw.rng.usize(0..6)]);
        steps.push(draw.mood());
        let length = draw.rng.usize(1..300).min(count - steps.len());
        steps.extend((0..length).map(|_| draw.step(allocs, largest)));
    }
    steps
}

struct Draw<'w> {
    rng: Rng,
    world: &'w World,
}

impl Draw<'_> {
    fn step(&mut self, allocs: u32, largest: u8) -> Step {
        let cpu = self.rng.u16(0..self.world.cpus);
        let pick = self.rng.u32(..);
        if self.rng.u32(0..100) < allocs {
            let order = self.rng.u8(0..=largest);
            return Step::Alloc { cpu, gfp: self.class(), order, frozen: self.rng.u8(0..4) == 0 };
        }
        match self.rng.u32(0..100) {
            0..22 => self.range(cpu),
            22..25 => {
                let (pages, place) = (self.pages(), self.place());
                Step::Find { cpu, pages, place, gfp: self.for_ranges(), frozen: self.rng.bool() }
            }
            25..32 => Step::Cma { cpu, pages: self.pages(), align: 1 << self.rng.u32(0..6) },
            32..70 => Step::Free { cpu, pick, way: self.way() },
            70..80 => Step::Part { cpu, pick, from: self.rng.u32(..), to: self.rng.u32(..) },
            80..88 => Step::Wrong { cpu, pick, before: self.rng.u32(0..3), after: self.rng.u32(0..3) },
            88..95 => Step::Share { pick, at: self.rng.u32(..) },
            95..98 => Step::DrainAll,
            _ => self.rare(pick),
        }
    }

    /// Draws a rare step. Broken frames never return, so only a few are drawn; otherwise the machine would run out of
    /// memory.
    fn rare(&mut self, pick: u32) -> Step {
        match self.rng.u32(0..6) {
            0 => Step::Poison { pick, at: self.rng.u32(..) },
            1 => Step::PoisonFree { pfn: self.frame() },
            _ => self.mood(),
        }
    }

    fn mood(&mut self) -> Step {
        Step::Mood { refusals: [0, 0, 10, 50, 100][self.rng.usize(0..5)], reclaims: [0, 0, 30][self.rng.usize(0..3)] }
    }

    fn range(&mut self, cpu: u16) -> Step {
        let (mut gfp, frozen) = (self.for_ranges(), self.rng.bool());
        let (mut start, mut pages) = (self.frame(), self.pages());
        match self.rng.u32(0..20) {
            0 => pages = 0,
            1 => gfp |= Gfp::RECLAIMABLE | Gfp::MOVABLE,
            2 => start += 40_000,
            _ if gfp.contains(Gfp::COMP) => {
                pages = pages.next_power_of_two();
                start = start / pages * pages;
            }
            _ => {}
        }
        Step::Range { cpu, start, pages, gfp, frozen }
    }

    fn place(&mut self) -> Placement {
        let place = Placement::aligned(1 << self.rng.u32(0..6));
        if self.rng.u32(0..4) == 0 { place.below(Pfn::new(self.frame())) } else { place }
    }

    fn frame(&mut self) -> u32 {
        let world = self.world;
        self.rng.u32(world.start()..world.end())
    }

    fn pages(&mut self) -> u32 {
        let longest = 2 << self.rng.u32(0..8);
        self.rng.u32(1..longest)
    }

    fn class(&mut self) -> Gfp {
        const CLASSES: [Gfp; 8] = [
            Gfp::KERNEL,
            Gfp::KERNEL.union(Gfp::RECLAIMABLE),
            Gfp::KERNEL.union(Gfp::COMP),
            Gfp::HIGHUSER_MOVABLE,
            Gfp::HIGHUSER_MOVABLE,
            Gfp::KERNEL.union(Gfp::MOVABLE),
            Gfp::KERNEL.union(Gfp::MOVABLE),
            Gfp::KERNEL.union(Gfp::MOVABLE).union(Gfp::COMP),
        ];
        CLASSES[self.rng.usize(0..CLASSES.len())]
    }

    fn for_ranges(&mut self) -> Gfp {
        const CLASSES: [Gfp; 4] =
            [Gfp::KERNEL, Gfp::NOWAIT, Gfp::KERNEL.union(Gfp::MOVABLE), Gfp::KERNEL.union(Gfp::COMP)];
        CLASSES[self.rng.usize(0..CLASSES.len())]
    }

    fn way(&mut self) -> Way {
        [Way::AsRange, Way::BlockByBlock, Way::InBulk(self.rng.u64(..))][self.rng.usize(0..3)]
    }
}
