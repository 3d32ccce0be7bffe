//! Random machines: any mixture of movable and unmovable pages, under every policy of per-CPU lists. After compaction
//! every owner still finds its page, no page is lost, and each reported block exists.

use fastrand::Rng;

use freehold::Policy;
use freehold::base::{Gfp, NodeId, Order};
use freehold::page::{Background, Config};
use freehold::policy::PcpPolicy;

use crate::compaction::{BLOCK, Engine, Mover, config, with_full_machine};

const BLOCKS: u32 = 12;
const GFPS: [Gfp; 6] = [
    Gfp::TRANSHUGE,
    Gfp::TRANSHUGE.union(Gfp::NORETRY),
    Gfp::TRANSHUGE.union(Gfp::RETRY_MAYFAIL),
    Gfp::KERNEL,
    Gfp::KERNEL.union(Gfp::RETRY_MAYFAIL),
    Gfp::HIGHUSER_MOVABLE,
];

/// Allocated blocks of a run, and the mover that owns the movable pages.
struct Scene<'a, 'm, 'h> {
    engine: &'a Engine<'m, 'h>,
    mover: &'a Mover,
    rng: Rng,
    held: Vec<(freehold::base::Pfn, Order)>,
}

impl Scene<'_, '_, '_> {
    fn step(&mut self) {
        let order = Order::new([0, 1, 3, 4, 6, 9, 9, 10][self.rng.usize(..8)]);
        match self.rng.u32(..10) {
            0..4 => {
                let gfp = GFPS[self.rng.usize(..GFPS.len())];
                if let Ok(pfn) = self.engine.alloc_pages(gfp, order) {
                    self.held.push((pfn, order));
                }
            }
            4..7 if !self.held.is_empty() => {
                let (pfn, order) = self.held.swap_remove(self.rng.usize(..self.held.len()));
                self.engine.free_pages(pfn, order).expect("the test holds this block");
            }
            7 => {
                self.engine.tick_kcompactd(NodeId(0));
                while self.engine.run_kcompactd(NodeId(0)) == Background::Working {}
            }
            8 => self.mover.unpin_all(),
            _ => (0..64).for_each(|_| self.mover.pin(self.rng.u32(..BLOCKS * BLOCK))),
        }
    }
}

#[test]
fn random_compaction_loses_no_page() {
    let policies = [PcpPolicy::Off, PcpPolicy::Linux, PcpPolicy::Merge, PcpPolicy::Owned, PcpPolicy::OwnedRemote];
    let mut moved = 0;
    for seed in 0..30 {
        let pcp = policies[seed as usize % policies.len()];
        let config = Config { policy: Policy { pcp, ..Policy::LINUX_6_12 }, ..config() };
        with_full_machine(BLOCKS, &config, |engine, mover| {
            let mut rng = Rng::with_seed(seed);
            let share = rng.u32(2..6);
            let gone: Vec<u32> = (0..BLOCKS * BLOCK).filter(|_| rng.u32(..share) == 0).collect();
            mover.free(engine, gone);
            let mut scene = Scene { engine, mover, rng, held: Vec::new() };
            for _ in 0..120 {
                scene.step();
                engine.check().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
            }
            for (pfn, order) in scene.held {
                engine.free_pages(pfn, order).expect("the test holds this block");
            }
            let counts = engine.platform().events.counts();
            assert_eq!(counts.broken_promises, 0);
            moved += counts.migrations;
        });
    }
    assert!(moved > 10_000, "only {moved} pages were moved, which is too few for this test");
}
