//! Machines whose callbacks lie, for `attackers::promises`, and the record of which block has which frames.
//!
//! A block carries a number in each of its pages, and each frame notes the number of its owner. A frame that gets a
//! second owner, or a page in which another number is found, is a fault. What has to be unsafe is here, so that the
//! attackers are safe code: bytes are read and copied, blocks that are kept by number become handles again, and one
//! fault is planted.

use core::mem::MaybeUninit;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

use freehold::base::{CpuId, NodeId, Order, Pfn};
use freehold::kernel::{Boot, Cma, CmaPages, Contig, Cpu, Pages, Region};
use freehold::platform::{Migrated, Migration};

use crate::kernel::machine::{Equipped, Hooks, MIB, Machine, Variant, init, install};

/// Memory of a machine.
const MEMORY_MIB: u64 = 24;
const FRAMES: usize = (MEMORY_MIB << 8) as usize;
/// CPUs of a machine.
pub(crate) const CPUS: u16 = Equipped::CPUS;

/// A machine whose callbacks are those of `attackers::promises`.
pub(crate) type Liar = Machine<Equipped>;

/// Who owns which frame of a machine, and the first faults.
pub(crate) struct State {
    /// For each frame the number of the block that it is in, or 0.
    owners: [AtomicU32; FRAMES],
    next_number: AtomicU32,
    /// Blocks that are kept by number, without a handle.
    raw: Mutex<Vec<RawBlock>>,
    /// Blocks with handles, by CPU; callbacks take from these.
    hoards: [Mutex<Vec<Held>>; CPUS as usize],
    area: OnceLock<Cma<Liar>>,
    faults: Mutex<Vec<String>>,
    /// Calls of `Promises::slab_error`.
    pub reports: AtomicU32,
    /// Blocks that were forgotten on purpose.
    pub forgotten: AtomicUsize,
}

/// A block that is kept by number.
struct RawBlock {
    pfn: Pfn,
    order: Order,
    number: u32,
    /// A callback said that it moved, and did not copy it.
    is_spoiled: bool,
}

/// Memory that a handle owns.
enum Memory {
    Pages(Pages<Liar>),
    Contig(Contig<Liar>),
    Cma(CmaPages<'static, Liar>, u32),
    /// A planted fault: a block that its owner uses, and that nothing pins.
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
                let start = Liar::kernel().phys_to_virt(u64::from(pfn.raw()) << 12).cast();
                // SAFETY: the block is mapped there, and was this value's until the planted fault.
                unsafe { core::slice::from_raw_parts_mut(start, (order.pages() as usize) << 12) }
            }
        }
    }
}

/// Memory with a handle, with its number in each page. Dropped, it is looked at and freed.
pub(crate) struct Held {
    memory: Option<Memory>,
    number: u32,
}

/// Locks without keeping others waiting for this CPU, as a kernel's lock does.
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

    /// Notes a fault.
    pub(crate) fn note_fault(&self, fault: String) {
        lock(&self.faults).push(fault);
    }

    /// The faults so far.
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

    /// This CPU's blocks.
    fn hoard(&self) -> MutexGuard<'_, Vec<Held>> {
        lock(&self.hoards[usize::from(Liar::id())])
    }

    /// Adds a block to this CPU's.
    pub(crate) fn keep(&self, held: Held) {
        self.hoard().push(held);
    }

    /// Takes one of this CPU's blocks.
    pub(crate) fn take(&self, at: usize) -> Option<Held> {
        let mut hoard = self.hoard();
        let count = hoard.len();
        (count > 0).then(|| hoard.swap_remove(at % count))
    }

    /// How many blocks this CPU has.
    pub(crate) fn count(&self) -> usize {
        self.hoard().len()
    }

    /// Makes a handle of a block that is kept by number, by the rules of `Pages::from_raw`.
    pub(crate) fn retake(&self, at: usize) -> Option<Held> {
        let mut raw = lock(&self.raw);
        let count = raw.len();
        let RawBlock { pfn, order, number, is_spoiled } = (count > 0).then(|| raw.swap_remove(at % count))?;
        // SAFETY: the block left its handle in `Held::into_raw`, and its number is what the last `Moved` gave, which is
        // noted under this lock.
        let pages = unsafe { Pages::from_raw(pfn, order) };
        drop(raw);
        let mut held = Held { memory: Some(Memory::Pages(pages)), number };
        if is_spoiled {
            held.fill();
        }
        Some(held)
    }

    /// How many blocks are kept by number.
    pub(crate) fn raw_count(&self) -> usize {
        lock(&self.raw).len()
    }

    /// The first frame of a block that is kept by number.
    pub(crate) fn raw_frame(&self, at: usize) -> Option<Pfn> {
        let raw = lock(&self.raw);
        (!raw.is_empty()).then(|| raw[at % raw.len()].pfn)
    }

    /// Moves a block if it is kept by number, with its contents unless that is the lie.
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

    /// Copies a block that is kept by number, and refuses nevertheless.
    pub(crate) fn copy_and_refuse(&self, migration: &Migration) -> Migrated {
        let raw = lock(&self.raw);
        if raw.iter().any(|block| (block.pfn, block.order) == (migration.from, migration.order)) {
            copy(migration);
        }
        Migrated::Refused
    }

    /// Makes a handle of the very block that is to be moved, if it is kept by number.
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

/// Copies the bytes of a block that nobody writes to, onto one that is nobody's.
fn copy(migration: &Migration) {
    let [from, to] = [migration.from, migration.to].map(|pfn| Liar::kernel().phys_to_virt(u64::from(pfn.raw()) << 12));
    // SAFETY: both blocks are mapped; the old one is kept by number, under the lock that the caller holds, and the new
    // one is the engine's until the callback has answered.
    unsafe { to.copy_from_nonoverlapping(from, (migration.order.pages() as usize) << 12) };
}

impl Held {
    fn new(memory: Memory) -> Held {
        let number = State::current().next_number.fetch_add(1, SeqCst);
        State::current().own(memory.frames(), number);
        let mut held = Held { memory: Some(memory), number };
        held.fill();
        held
    }

    /// Notes who owns a block from now on.
    pub(crate) fn pages(pages: Pages<Liar>) -> Held {
        Held::new(Memory::Pages(pages))
    }

    /// Notes who owns a range from now on.
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

    /// Looks whether its pages are as they were left.
    pub(crate) fn check(&mut self) {
        let mark = self.number.to_le_bytes();
        let Some(memory) = &mut self.memory else { return };
        let first = memory.frames().start;
        for (at, page) in memory.bytes().chunks(4096).enumerate() {
            for start in [0, 2048, 4092] {
                // SAFETY: these bytes were written when the block was filled.
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

    /// Takes the memory out, if it is a block: it is not owned from now on, and about to be freed.
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

    /// Keeps a block by number from now on.
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

    /// Loses it for ever.
    pub(crate) fn forget(self) {
        State::current().forgotten.fetch_add(1, SeqCst);
        core::mem::forget(self);
    }

    /// The planted fault: frees the block by its number, while its owner has it. That is what a callback could do when
    /// it was handed a way to free by number.
    pub(crate) fn free_by_number(&self) {
        if let Some(Memory::Pages(pages)) = &self.memory {
            // SAFETY: it is not sound, on purpose. The test ends at the first fault, which it expects, and touches
            // no memory but its own machine's.
            let _freed = unsafe { Liar::kernel().pages() }.map(|engine| engine.free_pages(pages.pfn(), pages.order()));
        }
    }

    /// The other planted fault: lets the block move while its owner has it. That is what a handle was before it pinned
    /// its block.
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
            // Somebody else may have it.
            return core::mem::forget(memory);
        }
        State::current().disown(memory.frames(), self.number);
        drop(memory);
    }
}

/// Sets a machine with these callbacks up, with a CMA area.
pub(crate) fn set_up(callbacks: Hooks<Equipped>) {
    install::<Equipped>(Hooks { context: Box::leak(Box::new(State::new())), ..callbacks });
    let area = 16 * MIB..20 * MIB;
    let map = [Region::usable(0, MEMORY_MIB * MIB)];
    init::<Equipped>(&map, MEMORY_MIB, &Boot { reserved: core::slice::from_ref(&area), ..Boot::default() }).unwrap();
    // SAFETY: these frames were reserved for this.
    let area = unsafe { Liar::kernel().reserve_cma(Pfn::new(16 << 8)..Pfn::new(20 << 8), Order::ZERO) }.unwrap();
    assert!(State::current().area.set(area).is_ok());
}

/// What a kernel's background tasks do.
pub(crate) fn run_in_background() {
    // SAFETY: nothing is freed by number.
    let Some(pages) = (unsafe { Liar::kernel().pages() }) else { return };
    pages.run_kswapd(NodeId(0));
    pages.tick_kcompactd(NodeId(0));
    pages.run_kcompactd(NodeId(0));
}

/// Takes what other CPUs have left, which no thread stands for any more.
pub(crate) fn retire_others() {
    for cpu in 1..CPUS {
        // SAFETY: no thread stands for it.
        unsafe { Liar::kernel().cpu_dead(CpuId(cpu)) };
        Liar::kernel().cpu_online(CpuId(cpu));
    }
}
