//! The cost of fast paths in instructions, compared with other allocators for kernels. Requires a clock that counts
//! instructions.

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;

use buddy_system_allocator::{LockedFrameAllocator, LockedHeap};
use talc::TalcLock;
use talc::source::Manual;

use freehold::base::{Gfp, Order};

use crate::arch;
use crate::clock::{self, Rate};
use crate::console::say;
use crate::hardware::KERNEL;
use crate::interrupts::FAR;
use crate::paths::{self, PATHS};

/// Two heaps of other projects, each on a block of its own. Their locks leave interrupts on, which a kernel could not
/// do.
static BUDDY: LockedHeap<32> = LockedHeap::empty();
static TALC: TalcLock<spin::Mutex<()>, Manual> = TalcLock::new(Manual);
/// Frame allocator of another project, which manages numbers only.
static FRAMES: LockedFrameAllocator<32> = LockedFrameAllocator::new();

const LAYOUT: Layout = Layout::new::<[u64; 8]>();

/// Runs on the first CPU.
pub fn play() {
    let Some(rate) = Rate::find() else {
        say!("  {}", clock::OTHER);
        return;
    };
    arch::next_tick(FAR);
    paths::warm_up();
    for path in &PATHS {
        say!("  {}, allocated and freed: {} instructions", path.name, rate.instructions(path.walk));
    }
    let order = Order::new(8);
    let mut buddy = KERNEL.alloc_pages(Gfp::KERNEL, order).expect("the machine has enough memory");
    let mut talc = KERNEL.alloc_pages(Gfp::KERNEL, order).expect("the machine has enough memory");
    // SAFETY: both blocks are exclusive to these heaps and live until the end of this function, the last use of the
    // heaps.
    unsafe {
        BUDDY.lock().init(buddy.as_ptr().addr().get(), buddy.as_uninit().len());
        TALC.lock().claim(talc.as_ptr().as_ptr(), talc.as_uninit().len()).expect("the block is large enough");
    }
    FRAMES.lock().add_frame(1, 1 << 12);
    let (object_cost, frame_cost) = (rate.instructions(|| walk(&BUDDY)), rate.instructions(frame));
    say!("  buddy_system_allocator: object {object_cost}, frame {frame_cost} instructions");
    say!("  talc: object {} instructions", rate.instructions(|| walk(&TALC)));
    arch::next_tick(arch::TICK_MIN);
}

/// Allocates an object on another project's heap and frees it.
#[inline(never)]
fn walk(heap: &impl GlobalAlloc) {
    // SAFETY: the layout has a non-zero size, and the memory is freed with the same layout.
    unsafe {
        let object = black_box(heap.alloc(black_box(LAYOUT)));
        heap.dealloc(object, LAYOUT);
    }
}

/// Allocates a frame of another project's allocator and frees it.
#[inline(never)]
fn frame() {
    let frame = FRAMES.lock().alloc(black_box(1)).expect("the allocator has frames");
    FRAMES.lock().dealloc(black_box(frame), 1);
}
