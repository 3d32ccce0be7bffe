//! Rules for a kernel on this allocator: which functions may be called in which context.
//!
//! # Interrupts
//!
//! Interrupt handlers may allocate and free through every function of the allocator, even while they interrupt another
//! call. Code that must not be interrupted disables interrupts itself: for about ten instructions on fast paths, and
//! while a lock is held on other paths. A handler uses flags that do not reclaim
//! ([`Gfp::ATOMIC`](crate::base::Gfp::ATOMIC)). The heap has no flags, so it calls
//! [`Promises::task`](super::Promises::task) to learn whether it runs in a handler. `task` must report handlers;
//! otherwise the heap may call `reclaim` and the other callbacks that find memory in the middle of a handler. A task
//! with interrupts off has the same problem if these callbacks need interrupts or take a lock that the task holds; then
//! `task` reports [`Context::SoftirqsOff`](crate::platform::Context::SoftirqsOff). Debug builds detect both, as `task`
//! documents.
//!
//! # Waiting for other CPUs
//!
//! An operation that frees slabs, or takes objects or slabs from another CPU, waits for that CPU's sections. These are
//! [`Kernel::shrink`], the shrink of a single cache, a request that may reclaim and would fail otherwise,
//! [`Kernel::cpu_dead`], and dropping a cache. If the policy lets CPUs own slabs, a free that leaves a CPU with too
//! many slabs is another. The wait ends with an interrupt on the other CPU, so a CPU must answer calls wherever it
//! waits with interrupts off. The locks of the kernel module do this.
//!
//! Other code may spin with interrupts off on something that a CPU inside the allocator holds: the kernel's own spin
//! locks, those of libraries, the barrier at which CPUs meet at boot. Such a loop calls [`Kernel::answer`]. If it does
//! not, the waiting CPU gives the call up once, after the limit below, and the memory that the other CPU may be using
//! is lost.
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
//! A request with interrupts off that finds no memory fails without waiting for other CPUs' sections, provided that
//! [`Cpu::irqs_disabled`](super::Cpu::irqs_disabled) is implemented. A kernel should implement it.
//!
//! [`Kernel::answer`]: super::Kernel::answer
//! [`Kernel::shrink`]: super::Kernel::shrink
//! [`Kernel::cpu_dead`]: super::Kernel::cpu_dead
//!
//! # NMIs
//!
//! An NMI handler interrupts code that runs with interrupts off, so it may not call the allocator at all, not even to
//! free. Debug builds detect a violation: entering a section inside another one panics, and so does waiting for a lock
//! that the same CPU holds. Release builds detect only the lock.
//!
//! # Locks
//!
//! The allocator's locks nest in the order of [`Rank`](crate::base::Rank). They are leaf locks with respect to the
//! kernel's locks: the allocator may be called with any lock of the kernel held.
//!
//! # Callbacks
//!
//! The functions of [`Promises`](super::Promises) are safe code: none of them can give a frame two owners. Locks and
//! recursion limit the functions that they may call:
//!
//! | function | allocator locks held | allowed calls |
//! |---|---|---|
//! | `reclaim`, `migrate`, `out_of_memory` | none | all; requests for memory do not reclaim |
//! | `task`, `reclaimable`, `relax` | none | all but requests that reclaim: [`Gfp::ATOMIC`](crate::base::Gfp::ATOMIC) |
//! | `slab_error` | none | all except dropping a cache |
//! | `is_reclaiming`, `set_reclaiming` | none | none |
//! | `wake_kswapd`, `wake_kcompactd`, `unanswered` | any | none |
//!
//! A request inside `reclaim`, `migrate` or `out_of_memory` uses the emergency reserve, as a task with
//! [`Task::memalloc`](crate::platform::Task::memalloc) does. It calls none of the three again and fails instead, so
//! callbacks that allocate do not nest until the stack overflows. The mark for this is kept per CPU, unless the kernel
//! keeps it in its tasks. An interrupt handler that runs during a callback sees the CPU's mark too: its requests use
//! free memory and do not reclaim. A kernel that can switch to another task inside a callback keeps the mark in its
//! tasks:
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
//! [`Pages`](super::Pages) pins its block, and [`Contig`](super::Contig), [`CmaPages`](super::CmaPages) and objects
//! never move. `migrate` is called for blocks that a kernel keeps by number: those that left their handle by
//! [`Pages::into_raw`](super::Pages::into_raw) and were requested with [`Gfp::MOVABLE`](crate::base::Gfp::MOVABLE). The
//! kernel follows three rules, which are the safety contract of [`Pages::from_raw`](super::Pages::from_raw):
//!
//! 1. A table, such as a page table with its lock, holds the place of each such block. `migrate` changes the entry
//!    under the lock before it returns [`Moved`](crate::platform::Migrated::Moved).
//! 2. The number passed to `from_raw` is taken out of that table under the same lock. `migrate` refuses a block that is
//!    no longer in the table.
//! 3. The bytes of such a block are accessed through the table only. After `Moved` the old place belongs to the
//!    allocator.
//!
//! The two calls can then come in either order. If `from_raw` comes first, `migrate` does not find the block and
//! refuses. If it returns `Moved` nevertheless, the result is ignored and the pages at the new place are lost. If
//! `migrate` comes first, `from_raw` gets the new place.
//!
//! # Before the second CPU is up
//!
//! The first CPU sets up the allocator and may use all of it. A CPU counts as up from its first request on; before that
//! it is never called. From then on the CPU must take calls: its interrupts must be on from time to time, with a
//! handler that answers.
//!
//! A call times out after [`Cpu::CALL_NANOS_MAX`](super::Cpu::CALL_NANOS_MAX), or after
//! [`Cpu::CALL_ROUNDS_MAX`](super::Cpu::CALL_ROUNDS_MAX) rounds without progress of the clock. The CPU is then reported
//! to [`Promises::unanswered`](super::Promises::unanswered). The objects and slabs that it may be using are lost, and
//! nothing else. Until the CPU answers, no further call waits for it, and it keeps what it has cached.
//!
//! # Stack
//!
//! The deepest calls are those for ranges: they take 1.3 KiB of stack besides the kernel's own callbacks. A request for
//! an object takes 1.2 KiB if its cache gets a new slab, and less than 0.5 KiB if a free object is cached. A request
//! for pages takes 0.8 KiB. The checks of debug builds add half as much again (`cargo xtask boot` prints the numbers).
//! Requests of an interrupt handler come on top of those that it interrupts.
//!
//! # Panics
//!
//! In a kernel that unwinds, a callback that panics leaves the allocator usable: its locks are released, and the memory
//! that the interrupted call was handling is lost, not freed. The allocator itself panics if its state is inconsistent,
//! for a CPU or node that does not exist, and if an implementation of a trait breaks its contract.
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
//! fn id() -> u16 { 2 } // "CPU 2 runs, but `Cpu::CPUS` is 2"
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
