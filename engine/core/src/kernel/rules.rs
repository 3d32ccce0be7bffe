//! What may be called where: the rules for a kernel that has its allocator here.
//!
//! # Interrupts
//!
//! Handlers may allocate and free, through every call that the kernel has, in the middle of any other: what must not be
//! interrupted turns interrupts off itself, for some ten instructions on fast paths, for as long as a lock is held on
//! others. A handler asks with flags that do not reclaim ([`Gfp::ATOMIC`](crate::base::Gfp::ATOMIC)). The heap, which
//! has no flags, asks [`Promises::task`](super::Promises::task) whether it is in one.
//!
//! # Waiting for other CPUs
//!
//! What gives slabs back, or takes something from another CPU, waits for that CPU's sections: [`Kernel::shrink`], a
//! request that would fail otherwise and may reclaim, [`Kernel::cpu_dead`], the end of a cache; and, where the policy
//! has CPUs own slabs, a free that leaves a CPU one too many. It waits for an interrupt on that CPU, no longer; so a
//! CPU must answer wherever it waits with interrupts off. The kernel module's locks do. Whatever else a CPU may spin on
//! with interrupts off, while another may be in the allocator before it lets go, calls [`Kernel::answer`] in its loop:
//! the kernel's own spin locks, those of libraries, the barrier at which CPUs meet at boot. Where one does not, whoever
//! waits gives that CPU up after the bound below, once, and what it may be using is lost.
//!
//! ```
//! # use core::sync::atomic::{AtomicBool, Ordering::{Acquire, Release}};
//! # use freehold::kernel::{Cpu, Kernel, Promises};
//! # struct Hw;
//! # impl Promises for Hw {}
//! # // SAFETY: there is one CPU, and no interrupt.
//! # unsafe impl Cpu for Hw {
//! #     const CPUS: u16 = 1;
//! #     fn kernel() -> &'static Kernel<Hw> { &KERNEL }
//! #     fn id() -> u16 { 0 }
//! #     fn irq_save() -> usize { 0 }
//! #     fn irq_restore(_: usize) {}
//! #     fn call(_: u16) {}
//! # }
//! # static KERNEL: Kernel<Hw> = Kernel::new();
//! static RUN_QUEUE: AtomicBool = AtomicBool::new(false);
//!
//! fn lock_run_queue() {
//!     while RUN_QUEUE.swap(true, Acquire) {
//!         KERNEL.answer(); // interrupts are off, and the holder may be pushing into a `Vec`
//!         core::hint::spin_loop();
//!     }
//! }
//! # lock_run_queue();
//! # RUN_QUEUE.store(false, Release);
//! ```
//!
//! A request that comes with interrupts off and finds no memory fails without waiting for other CPUs' sections, if
//! [`Cpu::irqs_disabled`](super::Cpu::irqs_disabled) can tell: write that function.
//!
//! [`Kernel::answer`]: super::Kernel::answer
//! [`Kernel::shrink`]: super::Kernel::shrink
//! [`Kernel::cpu_dead`]: super::Kernel::cpu_dead
//!
//! # NMIs
//!
//! A handler that interrupts where interrupts are off may call nothing here, not even to free. A debug build refuses: a
//! section that comes upon another, or a lock that its own CPU holds, panics and says so. A release build refuses the
//! lock.
//!
//! # Locks
//!
//! The allocator's locks nest in the order of [`Rank`](crate::base::Rank), and are leaves under the kernel's own: it
//! may be called with any lock of the kernel's held.
//!
//! # Callbacks
//!
//! The functions of [`Promises`](super::Promises) are safe code: none of them can give a frame two owners. Locks and
//! recursion limit what they may call:
//!
//! | function | locks of the allocator that are held | what it may call |
//! |---|---|---|
//! | `reclaim`, `migrate`, `out_of_memory` | none | everything; requests for memory do not reclaim |
//! | `task`, `reclaimable`, `relax` | none | everything but a request that reclaims: [`Gfp::ATOMIC`](crate::base::Gfp::ATOMIC) |
//! | `slab_error` | none | everything but the end of a cache |
//! | `is_reclaiming`, `set_reclaiming` | none | nothing of the allocator |
//! | `wake_kswapd`, `wake_kcompactd`, `unanswered` | any | nothing of the allocator |
//!
//! A request inside `reclaim`, `migrate` or `out_of_memory` uses the emergency reserve, as one of a task with
//! [`Task::memalloc`](crate::platform::Task::memalloc) does, and calls none of the three again. It fails instead. So a
//! callback that allocates does not nest until the stack ends. The CPU has a mark for this, unless the kernel keeps the
//! mark in its tasks. An interrupt handler that comes meanwhile finds the mark too: it is served from what is
//! free, and does not reclaim. A kernel that can switch to another task inside a callback keeps the mark in its tasks:
//!
//! ```
//! # use std::cell::Cell;
//! # use freehold::kernel::{Cpu, Kernel, Promises};
//! # use freehold::platform::Task;
//! # struct CurrentTask { reclaims: Cell<bool>, writes_out_pages: bool }
//! # thread_local! { static CURRENT: CurrentTask = const { CurrentTask { reclaims: Cell::new(false), writes_out_pages: false } }; }
//! # struct Hw;
//! impl Promises for Hw {
//!     fn task() -> Task {
//!         // A task that frees memory for others requests it from the reserve, and does not reclaim itself.
//!         Task { memalloc: CURRENT.with(|task| task.writes_out_pages), ..Task::default() }
//!     }
//!     fn is_reclaiming() -> Option<bool> {
//!         Some(CURRENT.with(|task| task.reclaims.get()))
//!     }
//!     fn set_reclaiming(is_reclaiming: bool) {
//!         CURRENT.with(|task| task.reclaims.set(is_reclaiming));
//!     }
//! }
//! # // SAFETY: there is one CPU, and no interrupt.
//! # unsafe impl Cpu for Hw {
//! #     const CPUS: u16 = 1;
//! #     fn kernel() -> &'static Kernel<Hw> { &KERNEL }
//! #     fn id() -> u16 { 0 }
//! #     fn irq_save() -> usize { 0 }
//! #     fn irq_restore(_: usize) {}
//! #     fn call(_: u16) {}
//! # }
//! # static KERNEL: Kernel<Hw> = Kernel::new();
//! # assert_eq!(Hw::is_reclaiming(), Some(false));
//! ```
//!
//! # Blocks that move
//!
//! A [`Pages`](super::Pages) pins its block, and [`Contig`](super::Contig), [`CmaPages`](super::CmaPages) and objects
//! never move. `migrate` is asked about blocks that a kernel keeps by number: those that left their handle by
//! [`Pages::into_raw`](super::Pages::into_raw) and were requested with [`Gfp::MOVABLE`](crate::base::Gfp::MOVABLE). The
//! kernel keeps three rules, which are the safety contract of [`Pages::from_raw`](super::Pages::from_raw):
//!
//! 1. A table, such as a page table with its lock, says where each of these blocks is. `migrate` changes the entry under
//!    the lock before it answers [`Moved`](crate::platform::Migrated::Moved).
//! 2. The number that `from_raw` gets comes from that table, and leaves it under the same lock. A block that is no
//!    longer in the table is refused by `migrate`.
//! 3. The bytes of such a block are reached through the table only. After `Moved` the old place belongs to the
//!    allocator.
//!
//! Then it does not matter which comes first. If `from_raw` does, `migrate` finds nothing and refuses; if it answers
//! `Moved` all the same, the answer is not believed, and the new place is lost. If `migrate` does, `from_raw` names the
//! new place.
//!
//! # Before the second CPU is up
//!
//! The first CPU sets the allocator up, and may use all of it. A CPU counts as up from its first request on; one that
//! never made one is never called. From then on it must take calls: interrupts on now and then, and a handler that
//! answers. One that does not answer for [`Cpu::CALL_NANOS_MAX`](super::Cpu::CALL_NANOS_MAX), or as many rounds where
//! there is no clock as [`Cpu::CALL_ROUNDS_MAX`](super::Cpu::CALL_ROUNDS_MAX) says, is reported to
//! [`Promises::unanswered`](super::Promises::unanswered); the objects and slabs that it may be using are lost, and
//! nothing else. Until it answers, it is not waited for again, and keeps what it has.
//!
//! # Stack
//!
//! The deepest calls are for ranges: 1.6 KiB of stack beside what the kernel's own promises take. A request for an
//! object whose cache gets a new slab takes 1.2 KiB, pages 0.8, an object at hand less than 0.5; with the checks of
//! debug builds half as much more (`cargo xtask boot` prints it). A handler's requests come on top of those that it
//! interrupts.
//!
//! # Panics
//!
//! Where a kernel unwinds, a promise that panics leaves the allocator usable: its locks are open, and what the call had
//! in hand is lost, not freed. The allocator itself panics where its state is not what it must be, on a CPU or a node
//! that is not there, and on a trait that lies.
//!
//! ```should_panic
//! # use freehold::kernel::{Boot, Cpu, Kernel, Promises, Region};
//! # use freehold::base::{Gfp, Order};
//! # extern crate std;
//! # struct Hw;
//! # impl Promises for Hw {}
//! # // SAFETY: it lies of its number, which is refused before anything is done.
//! # unsafe impl Cpu for Hw {
//! const CPUS: u16 = 2;
//! fn id() -> u16 { 2 } // "CPU 2 is running, and `Cpu::CPUS` says that there are 2"
//! #     fn kernel() -> &'static Kernel<Hw> { &KERNEL }
//! #     fn irq_save() -> usize { 0 }
//! #     fn irq_restore(_: usize) {}
//! #     fn call(_: u16) {}
//! # }
//! # static KERNEL: Kernel<Hw> = Kernel::new();
//! # let memory = std::alloc::Layout::from_size_align(32 << 20, 4 << 20).unwrap();
//! # let memory = unsafe { std::alloc::alloc(memory) } as usize;
//! # let boot = Boot { direct_map: memory, ..Boot::default() };
//! # let _ = unsafe { KERNEL.init([Region::usable(0, 32 << 20)], &boot) };
//! # let _ = KERNEL.alloc_pages(Gfp::KERNEL, Order::ZERO);
//! ```
