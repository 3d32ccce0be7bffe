//! Machines whose callbacks lie, for `attackers::false_callbacks`, and a record of the frames of each block.
//!
//! Each page of a block contains the number of the block, and the record has the number of the owner of each frame. A
//! frame that gets a second owner, or a page that contains another number, is a fault. All unsafe code is in this
//! module, so that the attackers are safe code: it reads and copies bytes, makes handles of blocks that are kept by
//! number, and plants faults.

use core::mem::MaybeUninit;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

use freehold::base::{CpuId, NodeId, Order, Pfn};
use freehold::kernel::{Boot, Cma, CmaPages, Contig, Cpu, Pages, Region};
use freehold::platform::{Migrated, Migration};

use crate::kernel::machine::{Equipped, Hooks, MIB, Machine, Variant, init, install};

/// Memory of a machine, in MiB.
const MEMORY_MIB: u64 = 24;
const FRAMES: usize = (MEMORY_MIB << 8) as usize;
/// Number of CPUs of a machine.
pub(crate) const CPUS: u16 = Equipped::CPUS;

/// A machine with the callbacks of `attackers::false_callbacks`.
pub(crate) type Liar = Machine<Equipped>;

/// Owners of the frames of a machine, and the faults found so far.
pub(crate) struct State {
    /// Number of the block that contains each frame, or 0.
    owners: [AtomicU32; FRAMES],
    next_number: AtomicU32,
    /// Blocks that are kept by number, without a handle.
    raw: Mutex<Vec<RawBlock>>,
    /// Blocks with handles, by CPU. Callbacks take blocks from these lists.
    hoards: [Mutex<Vec<Held>>; CPUS as usize],
    area: OnceLock<Cma<Liar>>,
    faults: Mutex<Vec<String>>,
    /// Calls of `Promises::slab_error`.
    pub reports: AtomicU32,
    /// Number of blocks that were leaked on purpose.
    pub forgotten: AtomicUsize,
}

/// A block that is kept by number.
struct RawBlock {
    pfn: Pfn,
    order: Order,
    number: u32,
    /// Whether a callback reported a move without copying the contents.
    is_spoiled: bool,
}

/// Memory that a handle owns.
enum Memory {
    Pages(Pages<Liar>),
    Contig(Contig<Liar>),
    Cma(CmaPages<'static, Liar>, u32),
    /// A planted fault: a block that its owner uses without pinning it.
    Unpinned(Pfn, Order),
}

impl Memory {
    fn frames(&self) -> core::ops::Range<u32> {
        match self {
            Memory::Pages(pages) => pages.pfn().raw()..pages.pfn().raw() + pages.order().pages(),
            Memory::Contig(pages) => pages.range().start.raw()..pages.range().end.raw(),
            Memory::Cma(pages, count) => pages.pfn().raw()..pages.pfn().raw() + count,
            Memory::Unpinned(pfn, order) => pfn.raw()..pfn.raw() + order.pages(),
        }
    }

    fn bytes(&mut self) -> &mut [MaybeUninit<u8>] {
        match self {
            Memory::Pages(pages) => pages.as_uninit(),
            Memory::Contig(pages) => pages.as_uninit(),
            Memory::Cma(pages, _) => pages.as_uninit(),
            Memory::Unpinned(pfn, order) => {
                let start = Liar::kernel().phys_to_virt(u64::from(pfn.raw()) << 12).unwrap().as_ptr().cast();
                // SAFETY: the direct map covers the block, whose number comes from a handle of this value. Exclusive
                // access is violated only by the planted fault, which the test expects.
                unsafe { core::slice::from_raw_parts_mut(start, (order.pages() as usize) << 12) }
            }
        }
    }
}

/// Memory with a handle, with its number in each page. Drop checks and frees it.
pub(crate) struct Held {
    memory: Option<Memory>,
    number: u32,
}

/// Locks a mutex. Answers calls of other CPUs while it waits, as a kernel's lock does.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
            Err(TryLockError::WouldBlock) => {
                Liar::kernel().answer();
                std::thread::yield_now();
            }
        }
    }
}

impl State {
    /// Returns the state of the calling thread's machine.
    pub(crate) fn current() -> &'static State {
        Liar::context()
    }

    const fn new() -> State {
        State {
            owners: [const { AtomicU32::new(0) }; FRAMES],
            next_number: AtomicU32::new(1),
            raw: Mutex::new(Vec::new()),
            hoards: [const { Mutex::new(Vec::new()) }; CPUS as usize],
            area: OnceLock::new(),
            faults: Mutex::new(Vec::new()),
            reports: AtomicU32::new(0),
            forgotten: AtomicUsize::new(0),
        }
    }

    /// Records a fault.
    pub(crate) fn note_fault(&self, fault: String) {
        lock(&self.faults).push(fault);
    }

    /// Returns the faults so far.
    pub(crate) fn faults(&self) -> Vec<String> {
        lock(&self.faults).clone()
    }

    fn is_faulty(&self) -> bool {
        !lock(&self.faults).is_empty()
    }

    fn own(&self, frames: core::ops::Range<u32>, number: u32) {
        for frame in frames {
            let before = self.owners[frame as usize].swap(number, SeqCst);
            if before != 0 {
                self.note_fault(format!("frame {frame} of block {before} was handed out again, as block {number}"));
            }
        }
    }

    fn disown(&self, frames: core::ops::Range<u32>, number: u32) {
        for frame in frames {
            let before = self.owners[frame as usize].swap(0, SeqCst);
            if before != number {
                self.note_fault(format!("frame {frame} of block {number} is noted as block {before}'s"));
            }
        }
    }

    /// Locks and returns this CPU's list of blocks.
    fn hoard(&self) -> MutexGuard<'_, Vec<Held>> {
        lock(&self.hoards[usize::from(Liar::id())])
    }

    /// Adds a block to this CPU's list.
    pub(crate) fn keep(&self, held: Held) {
        self.hoard().push(held);
    }

    /// Takes a block from this CPU's list.
    pub(crate) fn take(&self, at: usize) -> Option<Held> {
        let mut hoard = self.hoard();
        let count = hoard.len();
        (count > 0).then(|| hoard.swap_remove(at % count))
    }

    /// Returns the number of blocks on this CPU's list.
    pub(crate) fn count(&self) -> usize {
        self.hoard().len()
    }

    /// Makes a handle of a block that is kept by number, in accordance with the contract of `Pages::from_raw`.
    pub(crate) fn retake(&self, at: usize) -> Option<Held> {
        let mut raw = lock(&self.raw);
        let count = raw.len();
        let RawBlock { pfn, order, number, is_spoiled } = (count > 0).then(|| raw.swap_remove(at % count))?;
        // SAFETY: the block left its handle in `Held::into_raw` and was removed from the list, so it gets one handle.
        // `pfn` is the place that the last `Moved` gave, which is recorded under this lock.
        let pages = unsafe { Pages::from_raw(pfn, order) };
        drop(raw);
        let mut held = Held { memory: Some(Memory::Pages(pages)), number };
        if is_spoiled {
            held.fill();
        }
        Some(held)
    }

    /// Returns the number of blocks that are kept by number.
    pub(crate) fn raw_count(&self) -> usize {
        lock(&self.raw).len()
    }

    /// Returns the first frame of a block that is kept by number.
    pub(crate) fn raw_frame(&self, at: usize) -> Option<Pfn> {
        let raw = lock(&self.raw);
        (!raw.is_empty()).then(|| raw[at % raw.len()].pfn)
    }

    /// Moves a block that is kept by number. Copies its contents only if `copies` is set.
    pub(crate) fn migrate(&self, migration: &Migration, copies: bool) -> Migrated {
        let mut raw = lock(&self.raw);
        let Some(block) = raw.iter_mut().find(|block| (block.pfn, block.order) == (migration.from, migration.order))
        else {
            return Migrated::Refused;
        };
        let pages = block.order.pages();
        if copies {
            copy(migration);
        } else {
            block.is_spoiled = true;
        }
        self.own(migration.to.raw()..migration.to.raw() + pages, block.number);
        self.disown(block.pfn.raw()..block.pfn.raw() + pages, block.number);
        block.pfn = migration.to;
        Migrated::Moved
    }

    /// Copies a block that is kept by number, and refuses the move nevertheless.
    pub(crate) fn copy_and_refuse(&self, migration: &Migration) -> Migrated {
        let raw = lock(&self.raw);
        if raw.iter().any(|block| (block.pfn, block.order) == (migration.from, migration.order)) {
            copy(migration);
        }
        Migrated::Refused
    }

    /// Makes a handle of the block that is about to move, if it is kept by number.
    pub(crate) fn retake_source(&self, migration: &Migration) {
        let at = lock(&self.raw).iter().position(|block| block.pfn == migration.from);
        let held = at.and_then(|at| self.retake(at));
        if let Some(held) = held {
            self.keep(held);
        }
    }

    /// Allocates pages of the machine's CMA area.
    pub(crate) fn alloc_cma(&'static self, pages: u32, gfp: freehold::base::Gfp) -> Option<Held> {
        let taken = self.area.get()?.alloc(pages, 1, gfp).ok()?;
        Some(Held::new(Memory::Cma(taken, pages)))
    }
}

/// Copies the bytes of a move's source to its target.
fn copy(migration: &Migration) {
    let [from, to] =
        [migration.from, migration.to].map(|pfn| Liar::kernel().phys_to_virt(u64::from(pfn.raw()) << 12).unwrap());
    // SAFETY: the direct map covers both blocks, which are distinct. The source is kept by number under the lock that
    // the caller holds, so no handle accesses it. The engine owns the target until the callback returns.
    unsafe { from.copy_to_nonoverlapping(to, (migration.order.pages() as usize) << 12) };
}

impl Held {
    fn new(memory: Memory) -> Held {
        let number = State::current().next_number.fetch_add(1, SeqCst);
        State::current().own(memory.frames(), number);
        let mut held = Held { memory: Some(memory), number };
        held.fill();
        held
    }

    /// Records the owner of a block.
    pub(crate) fn pages(pages: Pages<Liar>) -> Held {
        Held::new(Memory::Pages(pages))
    }

    /// Records the owner of a range.
    pub(crate) fn contig(range: Contig<Liar>) -> Held {
        Held::new(Memory::Contig(range))
    }

    fn fill(&mut self) {
        let mark = self.number.to_le_bytes();
        let Some(memory) = &mut self.memory else { return };
        for page in memory.bytes().chunks_mut(4096) {
            for start in [0, 2048, 4092] {
                for (byte, value) in page[start..start + 4].iter_mut().zip(mark) {
                    byte.write(value);
                }
            }
        }
    }

    /// Checks that the pages contain this block's number.
    pub(crate) fn check(&mut self) {
        let mark = self.number.to_le_bytes();
        let Some(memory) = &mut self.memory else { return };
        let first = memory.frames().start;
        for (at, page) in memory.bytes().chunks(4096).enumerate() {
            for start in [0, 2048, 4092] {
                // SAFETY: `fill` initialised these bytes when the block was recorded.
                let found = core::array::from_fn(|byte| unsafe { page[start + byte].assume_init() });
                if found != mark {
                    let other = u32::from_le_bytes(found);
                    let what = format!("frame {} of block {} holds {other:#x}", first + at as u32, self.number);
                    State::current().note_fault(what);
                    return;
                }
            }
        }
    }

    /// Takes the memory out for a free, if it is a block, and removes its record.
    pub(crate) fn into_pages(mut self) -> Option<Pages<Liar>> {
        self.check();
        match self.memory.take()? {
            Memory::Pages(pages) if !State::current().is_faulty() => {
                let frames = pages.pfn().raw()..pages.pfn().raw() + pages.order().pages();
                State::current().disown(frames, self.number);
                Some(pages)
            }
            other => {
                self.memory = Some(other);
                None
            }
        }
    }

    /// Converts the handle of a block to its number.
    pub(crate) fn into_raw(mut self) {
        self.check();
        match self.memory.take() {
            Some(Memory::Pages(pages)) => {
                let mut raw = lock(&State::current().raw);
                let (pfn, order) = pages.into_raw();
                raw.push(RawBlock { pfn, order, number: self.number, is_spoiled: false });
            }
            other => self.memory = other,
        }
    }

    /// Leaks the block.
    pub(crate) fn forget(self) {
        State::current().forgotten.fetch_add(1, SeqCst);
        core::mem::forget(self);
    }

    /// Plants a fault: frees the block by its number while its owner uses it, as a callback could if it had access to a
    /// free by number.
    pub(crate) fn free_by_number(&self) {
        if let Some(Memory::Pages(pages)) = &self.memory {
            // SAFETY: unsound on purpose. The test expects the fault and ends at the first one, and only memory of its
            // own machine is affected.
            let _freed = unsafe { Liar::kernel().pages() }.map(|engine| engine.free_pages(pages.pfn(), pages.order()));
        }
    }

    /// Plants a fault: lets the block move while its owner uses it, as if its handle did not pin it.
    pub(crate) fn unpin(mut self) -> Held {
        if let Some(Memory::Pages(pages)) = self.memory.take() {
            let (pfn, order) = pages.into_raw();
            self.memory = Some(Memory::Unpinned(pfn, order));
        }
        self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.check();
        let Some(memory) = self.memory.take() else { return };
        if State::current().is_faulty() {
            // The frames may have another owner, so the memory is leaked.
            return core::mem::forget(memory);
        }
        State::current().disown(memory.frames(), self.number);
        drop(memory);
    }
}

/// Sets up a machine with these callbacks and with a CMA area.
pub(crate) fn set_up(callbacks: Hooks<Equipped>) {
    install::<Equipped>(Hooks { context: Box::leak(Box::new(State::new())), ..callbacks });
    let area = 16 * MIB..20 * MIB;
    let map = [Region::usable(0, MEMORY_MIB * MIB)];
    init::<Equipped>(&map, MEMORY_MIB, &Boot { reserved: core::slice::from_ref(&area), ..Boot::default() }).unwrap();
    // SAFETY: these frames were reserved for this area and are not used otherwise.
    let area = unsafe { Liar::kernel().reserve_cma(Pfn::new(16 << 8)..Pfn::new(20 << 8), Order::ZERO) }.unwrap();
    assert!(State::current().area.set(area).is_ok());
}

/// Runs a kernel's background tasks.
pub(crate) fn run_in_background() {
    // SAFETY: nothing is freed or released through the reference.
    let Some(pages) = (unsafe { Liar::kernel().pages() }) else { return };
    pages.run_kswapd(NodeId(0));
    pages.tick_kcompactd(NodeId(0));
    pages.run_kcompactd(NodeId(0));
}

/// Takes the other CPUs offline and online again, so that their lists are drained. No thread runs as one of them any
/// more.
pub(crate) fn retire_others() {
    for cpu in 1..CPUS {
        // SAFETY: no thread runs as this CPU, and it uses the allocator again only after `cpu_online`.
        unsafe { Liar::kernel().cpu_dead(CpuId(cpu)) };
        Liar::kernel().cpu_online(CpuId(cpu));
    }
}
