//! Breakpoints in the code of this very program, and what is done when the thread runs into one.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{REG_RIP, SA_SIGINFO, SIGTRAP, c_uint, sigaction, siginfo_t, ucontext_t};
use rustix::mm::{MprotectFlags, mprotect};

/// The instruction that traps.
const BREAKPOINT: u8 = 0xcc;
/// Where in a thread's area its descriptor is.
const DESCRIPTOR: isize = 8;

/// The breakpoints that are being met.
static BREAKPOINTS: AtomicPtr<Breakpoints<'static>> = AtomicPtr::new(null_mut());

/// What a breakpoint leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoOn {
    /// Where the kernel says: it has seen that a signal came.
    Restarted,
    /// As if there had been no signal.
    Resumed,
}

/// How often the thread ran into a breakpoint, and how often the kernel restarted a section there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    pub hits: usize,
    pub restarts: usize,
}

/// Breakpoints one after the other, each set when the one before was met.
struct Breakpoints<'a> {
    places: &'a [usize],
    next: Cell<usize>,
    /// The byte that the breakpoint stands in for.
    covered: Cell<Option<u8>>,
    met: Cell<Met>,
    act: &'a dyn Fn(usize) -> GoOn,
    resume: &'a dyn Fn(usize),
}

/// Makes the code at these addresses writable.
pub(crate) fn open(code: &[usize]) {
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    for address in code {
        let start = (address & !(page - 1)) as *mut c_void;
        // SAFETY: it stays readable and executable; only breakpoints are written.
        unsafe { mprotect(start, page, MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC) }
            .expect("code may be made writable");
    }
}

/// Has the process's breakpoints handled here.
pub(crate) fn install() {
    // SAFETY: an action of zeros is one; the handler fits its flags.
    unsafe {
        let mut action: sigaction = zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = SA_SIGINFO;
        assert_eq!(sigaction(SIGTRAP, &raw const action, null_mut()), 0, "a handler can be set");
    }
}

/// The calling thread's area.
pub(crate) fn area(distance: isize) -> *mut u8 {
    let thread: *mut u8;
    // SAFETY: the first word of a thread's storage is its own address.
    unsafe { std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) thread, options(nostack, readonly, preserves_flags)) }
    thread.wrapping_offset(distance)
}

/// Stores a descriptor in a thread's area, as the section that it is of does.
pub(crate) fn arm(area: *mut u8, descriptor: u64) {
    // SAFETY: the area of the calling thread, and the descriptor of a section.
    unsafe { area.offset(DESCRIPTOR).cast::<u64>().write_volatile(descriptor) }
}

/// Does `operation` with a breakpoint at the first of `places`, the second once that is met, and so on. `act` is called
/// at each, with its number; `resume` before the thread is sent back into the section around a place that the kernel
/// has restarted.
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
        // SAFETY: code that `open` made writable, and that no other thread runs.
        unsafe {
            self.covered.set(Some(place.read_volatile()));
            place.write_volatile(BREAKPOINT);
        }
    }

    fn clear(&self) {
        if let (Some(place), Some(covered)) = (self.place(), self.covered.take()) {
            // SAFETY: the byte that `set` wrote, in code that `open` made writable, and that no other thread runs.
            unsafe { place.write_volatile(covered) };
        }
    }

    /// The thread ran into the breakpoint; it goes on at the address that is returned. A breakpoint is one byte long.
    fn hit(&self, stopped: u64) -> u64 {
        let place = self.place().expect("only a breakpoint that was set is met").addr() as u64;
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
    // SAFETY: `meet` keeps them in place until the last breakpoint is gone.
    let breakpoints =
        unsafe { BREAKPOINTS.load(Ordering::Acquire).as_ref() }.expect("no breakpoint is set by anybody else");
    // SAFETY: the kernel hands a handler the interrupted thread's registers.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let stopped = &mut registers[REG_RIP as c_uint as usize];
    *stopped = breakpoints.hit(stopped.cast_unsigned()).cast_signed();
}
