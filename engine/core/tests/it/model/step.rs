//! Steps as data: drawn from a seed without knowledge of any state, so that a list remains valid when some of its steps
//! are left out.

use fastrand::Rng;
use freehold::base::Gfp;

/// A step. A number named `pick` selects one of the blocks or zones that exist when the step is taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Alloc { cpu: u16, gfp: Gfp, order: u8, way: AllocWay, luck: u32 },
    Bulk { cpu: u16, gfp: Gfp, count: usize, luck: u32 },
    Free { cpu: u16, pick: u32 },
    FreeBulk { cpu: u16, pick: u32 },
    Get { pick: u32 },
    Put { cpu: u16, pick: u32 },
    Split { pick: u32, to: u8 },
    Misuse { cpu: u16, pfn: u32, order: u8 },
    FreeFrozenInUse { cpu: u16, pick: u32 },
    Isolate { pfn: u32, order: u8 },
    IsolateNear { pfn: u32, order: u8 },
    TakeRange { pick: u32, order: u8, luck: u32 },
    Poison { pfn: u32 },
    CpuDead { cpu: u16 },
    CpuOnline { cpu: u16 },
    DrainAll,
    Drain { cpu: u16, pick: u32 },
    Decay { cpu: u16, pick: u32 },
    ReclaimActive { pick: u32, on: bool },
    LowerBoost { pick: u32 },
    Task { pick: u32 },
    Background { cpu: u16, node: u8, task: Task, luck: u32 },
}

/// Background task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    Kswapd,
    Kcompactd,
    Tick,
}

/// Way to request a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum AllocWay {
    Near,
    Node(u8),
    Frozen,
}

impl Step {
    /// Returns the step as source code for a test.
    pub(super) fn source(&self) -> String {
        let text = format!("Step::{self:?},").replace("way: ", "way: AllocWay::").replace("task: ", "task: Task::");
        match self {
            Step::Alloc { gfp, .. } | Step::Bulk { gfp, .. } => {
                text.replace(&format!("{gfp:?}"), &format!("Gfp::from_bits_retain({:#x})", gfp.bits()))
            }
            _ => text,
        }
    }
}

/// Every class of request that Linux makes, and two with contradictory flags.
const CLASSES: [Gfp; 26] = [
    Gfp::ATOMIC,
    Gfp::NOWAIT,
    Gfp::KERNEL,
    Gfp::NOIO,
    Gfp::NOFS,
    Gfp::USER,
    Gfp::HIGHUSER,
    Gfp::HIGHUSER_MOVABLE,
    Gfp::HIGHUSER_MOVABLE,
    Gfp::TRANSHUGE_LIGHT,
    Gfp::TRANSHUGE,
    Gfp::TRANSHUGE.union(Gfp::NORETRY),
    Gfp::TRANSHUGE.union(Gfp::NORETRY).union(Gfp::THISNODE),
    Gfp::KERNEL.union(Gfp::COMP),
    Gfp::KERNEL.union(Gfp::RECLAIMABLE),
    Gfp::KERNEL.union(Gfp::NORETRY),
    Gfp::KERNEL.union(Gfp::RETRY_MAYFAIL),
    Gfp::NOIO.union(Gfp::RETRY_MAYFAIL),
    Gfp::KERNEL.union(Gfp::DMA),
    Gfp::KERNEL.union(Gfp::DMA32),
    Gfp::KERNEL.union(Gfp::NOFAIL),
    Gfp::ATOMIC.union(Gfp::NOMEMALLOC),
    Gfp::KERNEL.union(Gfp::MEMALLOC),
    Gfp::KERNEL.union(Gfp::HIGH),
    Gfp::KERNEL.union(Gfp::MOVABLE).union(Gfp::RECLAIMABLE),
    Gfp::KERNEL.union(Gfp::DMA).union(Gfp::DMA32),
];

/// Draws `count` steps for a machine with these numbers of CPUs, nodes and frames.
pub(super) fn draw(seed: u64, count: usize, cpus: u16, nodes: u8, frames: u32) -> Vec<Step> {
    let mut draw = Draw { rng: Rng::with_seed(seed), cpus, nodes, frames };
    let mut steps = Vec::with_capacity(count);
    while steps.len() < count {
        // Phases: memory fills with a few sizes and classes, and empties again.
        let tide = Tide { allocs: draw.rng.u32(20..90), largest: draw.largest(), class: draw.class() };
        let length = draw.rng.usize(1..3000).min(count - steps.len());
        steps.extend((0..length).map(|_| draw.step(&tide)));
    }
    steps
}

/// Inserts a lull after each phase of steps: most memory is freed, and kcompactd's timer runs twice before the next
/// request.
pub(super) fn with_lulls(steps: &[Step], seed: u64, cpus: u16, nodes: u8) -> Vec<Step> {
    const STEPS: usize = 1500;
    const FREES: usize = 600;
    let mut rng = Rng::with_seed(seed);
    let mut between = Vec::with_capacity(steps.len() * 2);
    for tide in steps.chunks(STEPS) {
        between.extend(tide);
        between.extend((0..FREES).map(|_| Step::Free { cpu: rng.u16(0..cpus), pick: rng.u32(..) }));
        between.push(Step::DrainAll);
        let looks = (0..nodes).flat_map(|node| [node, node]);
        between.extend(looks.map(|node| Step::Background { cpu: 0, node, task: Task::Tick, luck: rng.u32(..) }));
    }
    between
}

/// Parameters of the requests during a phase.
struct Tide {
    /// Percentage of allocations among the steps.
    allocs: u32,
    /// Largest order of most requests.
    largest: u8,
    /// Flags of half of the requests.
    class: Gfp,
}

struct Draw {
    rng: Rng,
    cpus: u16,
    nodes: u8,
    frames: u32,
}

impl Draw {
    fn step(&mut self, tide: &Tide) -> Step {
        let cpu = self.rng.u16(0..self.cpus);
        let pick = self.rng.u32(..);
        if self.rng.u32(0..100) < 90 {
            return if self.rng.u32(0..100) < tide.allocs {
                let order = if self.rng.u8(0..50) == 0 { self.order() } else { self.rng.u8(0..=tide.largest) };
                let gfp = if self.rng.bool() { tide.class } else { self.class() };
                self.allocation(cpu, gfp, order)
            } else {
                Step::Free { cpu, pick }
            };
        }
        match self.rng.u32(0..100) {
            0..10 => Step::Get { pick },
            10..24 => Step::Put { cpu, pick },
            24..30 => Step::Split { pick, to: self.rng.u8(0..4) },
            30..36 => Step::Misuse { cpu, pfn: self.rng.u32(0..self.frames + 40_000), order: self.order() },
            36..66 => self.background(cpu),
            66..76 => Step::FreeBulk { cpu, pick },
            76..82 => Step::Drain { cpu, pick },
            82..92 => Step::Decay { cpu, pick },
            92..94 => Step::ReclaimActive { pick, on: self.rng.bool() },
            94..96 => Step::LowerBoost { pick },
            96 => Step::Task { pick },
            97 => {
                let (pfn, order) = (self.rng.u32(0..self.frames + 40_000), self.rng.u8(0..=4));
                match self.rng.u8(0..4) {
                    0 => Step::Isolate { pfn, order },
                    1 => Step::IsolateNear { pfn, order },
                    _ => Step::TakeRange { pick, order, luck: self.rng.u32(..) },
                }
            }
            _ => self.rare(cpu, pick),
        }
    }

    fn background(&mut self, cpu: u16) -> Step {
        let task = match self.rng.u32(0..10) {
            0..6 => Task::Kswapd,
            6..9 => Task::Kcompactd,
            _ => Task::Tick,
        };
        Step::Background { cpu, node: self.rng.u8(0..self.nodes), task, luck: self.rng.u32(..) }
    }

    fn rare(&mut self, cpu: u16, pick: u32) -> Step {
        match self.rng.u32(0..40) {
            // Withheld frames never return, so only a few are drawn; otherwise the machine would run out of memory.
            0 => Step::Poison { pfn: self.rng.u32(0..self.frames) },
            1 => Step::FreeFrozenInUse { cpu, pick },
            2..8 => Step::DrainAll,
            8..12 => Step::CpuDead { cpu },
            12..24 => Step::CpuOnline { cpu },
            _ => Step::Misuse { cpu, pfn: self.rng.u32(0..self.frames), order: self.order() },
        }
    }

    fn allocation(&mut self, cpu: u16, gfp: Gfp, order: u8) -> Step {
        let luck = self.rng.u32(..);
        match self.rng.u32(0..20) {
            0 => Step::Bulk { cpu, gfp, count: self.rng.usize(0..20), luck },
            1 => Step::Alloc { cpu, gfp, order, way: AllocWay::Node(self.rng.u8(0..self.nodes + 1)), luck },
            2..6 => Step::Alloc { cpu, gfp, order, way: AllocWay::Frozen, luck },
            _ => Step::Alloc { cpu, gfp, order, way: AllocWay::Near, luck },
        }
    }

    /// Draws the largest order of a phase. Single pages and small blocks fragment the memory; large blocks detect the
    /// fragmentation.
    fn largest(&mut self) -> u8 {
        [0, 0, 0, 1, 1, 2, 3, 4, 6, 10][self.rng.usize(0..10)]
    }

    fn order(&mut self) -> u8 {
        self.rng.u8(0..=10)
    }

    fn class(&mut self) -> Gfp {
        CLASSES[self.rng.usize(0..CLASSES.len())]
    }
}
