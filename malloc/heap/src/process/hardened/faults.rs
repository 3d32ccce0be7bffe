//! Accesses that the kernel stops: behind the end of a large block, or to one that was given back.
//!
//! A program that has no handler of its own for them gets one, which says what it finds and lets the kernel end the
//! program where it stood.

use core::ffi::{c_int, c_void};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::ptr::null_mut;

use super::quarantine::QUARANTINE;
use super::report::{describe, describe_run};
use super::seal::PATTERN;
use super::{MALLOC, Site, Slot};
use crate::os::platform::StandardError;

/// Has the program say what it accessed when the kernel stops it, unless it has a handler.
pub(in crate::process) fn watch() {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: reads what is set, and sets a function that stays, where nothing was.
        unsafe {
            let mut set = MaybeUninit::<libc::sigaction>::zeroed();
            if libc::sigaction(signal, core::ptr::null(), set.as_mut_ptr()) != 0 {
                continue;
            }
            let mut set = set.assume_init();
            if set.sa_sigaction != libc::SIG_DFL {
                continue;
            }
            set.sa_sigaction = report_fault as *const () as usize;
            set.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigaction(signal, &raw const set, null_mut());
        }
    }
}

extern "C" fn report_fault(signal: c_int, about: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: what ends the program is the signal's default from now on: when this returns, the access is tried again.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: the kernel hands over what it knows of the signal.
    if unsafe { (*about).si_code } <= 0 {
        // Somebody has sent it: nothing is tried again, so it is sent once more.
        // SAFETY: ends the process, as the signal does by default.
        unsafe { libc::raise(signal) };
        return;
    }
    // SAFETY: the kernel hands over what it knows of the access.
    let address = unsafe { (*about).si_addr() }.addr();
    let _written = say(&mut StandardError, address, &Registers::from_context(context));
}

/// Says what lies at an address, if that is a block's, or where the address came from.
fn say(to: &mut dyn Write, address: usize, registers: &Registers) -> fmt::Result {
    let place = registers.place;
    let Some((malloc, around)) = MALLOC.hardened().and_then(|malloc| Some((malloc, malloc.runs.run_around(address)?)))
    else {
        if registers.has_pattern {
            writeln!(to, "freehold: use after free: {place} uses what free blocks are overwritten with as an address")?;
        }
        return Ok(());
    };
    let within = address - around.start.as_ptr().addr();
    if !around.is_used {
        writeln!(to, "freehold: {address:#x}: use after free: {place} accesses byte {within} of a block given back")?;
        return QUARANTINE.find_run(address - within, |held| describe_run(to, held)).unwrap_or(Ok(()));
    }
    writeln!(to, "freehold: {address:#x}: overflow: {place} accesses byte {within} of a block that has not so many")?;
    let usable = malloc.runs.usable_guarded(around.start);
    usable.map_or(Ok(()), |bytes| describe(to, &Slot::new(around.start, bytes)))
}

/// What the processor had in its registers.
struct Registers {
    /// The instruction that faulted.
    place: Site,
    /// Whether one holds what free memory is overwritten with, or nearly so.
    has_pattern: bool,
}

impl Registers {
    #[cfg(target_arch = "x86_64")]
    fn from_context(context: *mut c_void) -> Registers {
        // SAFETY: the kernel hands over the registers of the thread.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let high = i64::from_ne_bytes([PATTERN; 8]) >> 32;
        Registers {
            place: Site(registers[libc::REG_RIP as usize] as usize),
            has_pattern: registers.iter().any(|register| register >> 32 == high),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn from_context(_: *mut c_void) -> Registers {
        Registers { place: Site::UNKNOWN, has_pattern: false }
    }
}
