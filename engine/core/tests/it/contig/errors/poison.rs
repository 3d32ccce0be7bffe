//! Poison of a frame during an allocation: the allocator has taken the block, but its caller does not have it yet.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use freehold::Policy;
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, State, ZoneKind};
use freehold::machine;
use freehold::page::{Config, FreeError, PageAllocator, ZoneFlag};
use freehold::platform::host::{Threads, run_on_cpu};
use freehold::platform::{NoProbe, Platform};

const FRAMES: u32 = 8192;

/// Platform that stops one request when it has its block and wakes kswapd, until another thread has acted.
struct Stopped {
    threads: Threads,
    armed: AtomicBool,
    here: Barrier,
}

impl Platform for Stopped {
    type Lock = <Threads as Platform>::Lock;
    type Probe = NoProbe;

    fn probe(&self) -> &NoProbe {
        self.threads.probe()
    }

    fn cpu(&self) -> CpuId {
        self.threads.cpu()
    }

    fn wake_kswapd(&self, _node: NodeId) {
        if self.armed.swap(false, Relaxed) {
            self.here.wait();
            self.here.wait();
        }
    }
}

/// Returns the only block that is claimed by a request.
fn only_block(engine: &PageAllocator<'_, Stopped>) -> Pfn {
    let mut frames = (0..FRAMES).map(Pfn::new);
    let claimed = frames.find(|&pfn| matches!(engine.state(pfn), Some(State::Claimed { .. })));
    claimed.expect("a request has a block")
}

/// Poisons a frame of a block while the block is being allocated, and again afterwards. Returns the frame, the result
/// of the first call, and the state of the frame after the block was freed.
fn poisoned_on_the_way(engine: &PageAllocator<'_, Stopped>, order: Order) -> (Pfn, Result<(), FreeError>, State) {
    let (broken, first) = thread::scope(|scope| {
        let poisoner = scope.spawn(|| {
            run_on_cpu(CpuId(1));
            engine.platform().here.wait();
            let broken = only_block(engine).offset(order.pages() / 2);
            let poisoned = engine.poison(broken);
            engine.platform().here.wait();
            (broken, poisoned)
        });
        let zone = engine.zone(NodeId(0), ZoneKind::Normal);
        engine.damage().set_flag(zone.node(), zone.kind(), ZoneFlag::BoostedWatermark);
        engine.damage().set_boost(zone.node(), zone.kind(), 1);
        let block = engine.alloc_pages(Gfp::KERNEL, order).expect("enough memory must be free");
        let (broken, first) = poisoner.join().expect("the thread must not panic");
        engine.poison(broken).expect("it is its owner's now");
        engine.free_pages(block, order).expect("the pages must be allocated");
        (broken, first)
    });
    engine.drain_all_pages();
    engine.check().expect("the check must find no error");
    (broken, first, engine.state(broken).expect("the frames must be online"))
}

#[test]
fn poisoned_frame_in_transit_is_withheld_on_free() {
    let config = Config { cpu_nodes: &[NodeId(0); 2], policy: Policy::LINUX_6_12, ..Config::default() };
    for order in [0, 3, 4, 10].map(Order::new) {
        let platform = Stopped { threads: Threads::default(), armed: AtomicBool::new(true), here: Barrier::new(2) };
        let (broken, first, state) =
            machine::with_memory(platform, &config, FRAMES, |engine| poisoned_on_the_way(engine, order))
                .expect("the configuration must be valid");
        assert!(matches!(first, Err(FreeError::Busy { pfn, .. }) if pfn == broken), "{first:?}");
        assert_eq!(state, State::Withheld, "frame {broken} of a block of order {order}");
    }
}
