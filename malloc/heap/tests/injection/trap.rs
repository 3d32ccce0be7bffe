//! Breakpoints in the code of this program, and the action at each of them.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{REG_RIP, SA_SIGINFO, SIGTRAP, c_uint, sigaction, siginfo_t, ucontext_t};
use rustix::mm::{MprotectFlags, mprotect};

/// The breakpoint instruction.
const BREAKPOINT: u8 = 0xcc;
/// Offset in bytes of the descriptor in a thread's area.
const DESCRIPTOR: isize = 8;

/// The active breakpoints.
static BREAKPOINTS: AtomicPtr<Breakpoints<'static>> = AtomicPtr::new(null_mut());

/// Continuation after a breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoOn {
    /// At the address that the kernel chose: it has restarted the section because of the signal.
    Restarted,
    /// At the interrupted instruction, as if there had been no signal.
    Resumed,
}

/// Number of breakpoints that the thread reached, and of sections that the kernel restarted there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    pub hits: usize,
    pub restarts: usize,
}

/// A sequence of breakpoints. Each one is set when the thread has reached the previous one.
struct Breakpoints<'a> {
    places: &'a [usize],
    next: Cell<usize>,
    /// Byte of code that the breakpoint replaces.
    covered: Cell<Option<u8>>,
    met: Cell<Met>,
    act: &'a dyn Fn(usize) -> GoOn,
    resume: &'a dyn Fn(usize),
}

/// Makes the code at these addresses writable.
pub(crate) fn open(code: &[usize]) {
    // SAFETY: `sysconf` takes no pointer and returns a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    for address in code {
        let start = (address & !(page - 1)) as *mut c_void;
        // SAFETY: the pages stay readable and executable, and only breakpoints are written to them.
        unsafe { mprotect(start, page, MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC) }
            .expect("code may be made writable");
    }
}

/// Installs the handler for breakpoints.
pub(crate) fn install() {
    // SAFETY: an all-zero `sigaction` is valid, and the handler has the signature that `SA_SIGINFO` requires.
    unsafe {
        let mut action: sigaction = zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = SA_SIGINFO;
        assert_eq!(sigaction(SIGTRAP, &raw const action, null_mut()), 0, "the signal handler cannot be set");
    }
}

/// Returns the calling thread's area.
pub(crate) fn area(distance: isize) -> *mut u8 {
    let thread: *mut u8;
    // SAFETY: the word at the thread pointer is the thread pointer itself.
    unsafe { std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) thread, options(nostack, readonly, preserves_flags)) }
    thread.wrapping_offset(distance)
}

/// Stores a section's descriptor in a thread's area, as the section itself does.
pub(crate) fn arm(area: *mut u8, descriptor: u64) {
    // SAFETY: callers pass the calling thread's area and a descriptor of this program.
    unsafe { area.offset(DESCRIPTOR).cast::<u64>().write_volatile(descriptor) }
}

/// Runs `operation` with a breakpoint at the first of `places`, then at the second one when the first is reached, and
/// so on. `act` is called at each breakpoint with its index. `resume` is called before the thread is sent back to an
/// instruction of a section that the kernel has restarted.
pub(crate) fn meet(
    places: &[usize],
    act: &dyn Fn(usize) -> GoOn,
    resume: &dyn Fn(usize),
    operation: impl FnOnce(),
) -> Met {
    let breakpoints =
        Breakpoints { places, next: Cell::new(0), covered: Cell::new(None), met: Cell::default(), act, resume };
    let shared: *const Breakpoints<'_> = &raw const breakpoints;
    BREAKPOINTS.store(shared.cast_mut().cast(), Ordering::Release);
    breakpoints.set();
    operation();
    breakpoints.clear();
    BREAKPOINTS.store(null_mut(), Ordering::Release);
    breakpoints.met.get()
}

impl Breakpoints<'_> {
    fn place(&self) -> Option<*mut u8> {
        self.places.get(self.next.get()).map(|&address| address as *mut u8)
    }

    fn set(&self) {
        let Some(place) = self.place() else { return };
        // SAFETY: `open` made the code writable, and no other thread executes it.
        unsafe {
            self.covered.set(Some(place.read_volatile()));
            place.write_volatile(BREAKPOINT);
        }
    }

    fn clear(&self) {
        if let (Some(place), Some(covered)) = (self.place(), self.covered.take()) {
            // SAFETY: this restores the byte that `set` replaced, in code that `open` made writable and no other thread
            // executes.
            unsafe { place.write_volatile(covered) };
        }
    }

    /// Handles a breakpoint, and returns the address at which the thread continues. A breakpoint is one byte long.
    fn hit(&self, stopped: u64) -> u64 {
        let place = self.place().expect("the trap must be at a breakpoint of this harness").addr() as u64;
        let is_restarted = stopped != place + 1;
        let Met { hits, restarts } = self.met.get();
        self.met.set(Met { hits: hits + 1, restarts: restarts + usize::from(is_restarted) });
        self.clear();
        let go_on = (self.act)(self.next.get());
        self.next.set(self.next.get() + 1);
        self.set();
        match (is_restarted, go_on) {
            (true, GoOn::Restarted) => stopped,
            (true, GoOn::Resumed) => {
                (self.resume)(place as usize);
                place
            }
            (false, _) => place,
        }
    }
}

extern "C" fn on_trap(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: `meet` keeps the breakpoints alive until the pointer is cleared, after the last breakpoint was removed.
    let breakpoints =
        unsafe { BREAKPOINTS.load(Ordering::Acquire).as_ref() }.expect("all breakpoints must be those of this harness");
    // SAFETY: the kernel passes the `ucontext_t` of the interrupted thread to a handler with `SA_SIGINFO`.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let stopped = &mut registers[REG_RIP as c_uint as usize];
    *stopped = breakpoints.hit(stopped.cast_unsigned()).cast_signed();
}
