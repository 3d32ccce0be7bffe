//! Reports of accesses that the kernel stops: behind the end of a large block, or to a freed one.
//!
//! A handler is installed for each of the signals SIGSEGV and SIGBUS for which the program has none. It reports an
//! access to a run of pages, and an access whose address seems to come from a freed block. Then it returns, and the
//! kernel terminates the program at the faulting instruction.

use core::ffi::{c_int, c_void};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::ptr::null_mut;

use super::quarantine::QUARANTINE;
use super::report::{describe, describe_run};
use super::seal::PATTERN;
use super::{MALLOC, Site, Slot};
use crate::os::platform::StandardError;

/// Installs the handler for each of the signals that the program does not handle.
pub(in crate::process) fn watch() {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the first call only reads the action into a live variable. The second one replaces a default action
        // by a function of this library, which is never unloaded.
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
    // SAFETY: `signal` has no pointer arguments. It restores the default action, so the access that is retried when
    // this handler returns terminates the program.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: the kernel passes a valid `siginfo_t`, because the handler was installed with `SA_SIGINFO`.
    if unsafe { (*about).si_code } <= 0 {
        // The signal was sent by a process and no access is retried, so the signal is raised again.
        // SAFETY: `raise` has no preconditions; the default action terminates the process.
        unsafe { libc::raise(signal) };
        return;
    }
    // SAFETY: the kernel passes a valid `siginfo_t`, and a positive code for this signal means that it contains an
    // address.
    let address = unsafe { (*about).si_addr() }.addr();
    let _written = say(&mut StandardError, address, &Registers::from_context(context));
}

/// Reports the block that contains the address of an access, or the origin of the address if it is the free pattern.
fn say(to: &mut dyn Write, address: usize, registers: &Registers) -> fmt::Result {
    let place = registers.place;
    let Some((malloc, around)) = MALLOC.hardened().and_then(|malloc| Some((malloc, malloc.runs.run_around(address)?)))
    else {
        if registers.has_pattern {
            writeln!(to, "freehold: use after free: {place} uses the contents of a freed block as an address")?;
        }
        return Ok(());
    };
    let within = address - around.start.as_ptr().addr();
    if !around.is_used {
        writeln!(to, "freehold: {address:#x}: use after free: {place} accesses byte {within} of a freed block")?;
        return QUARANTINE.find_run(address - within, |held| describe_run(to, held)).unwrap_or(Ok(()));
    }
    writeln!(
        to,
        "freehold: {address:#x}: overflow: {place} accesses byte {within}, which is past the end of the block"
    )?;
    let usable = malloc.runs.usable_guarded(around.start);
    usable.map_or(Ok(()), |bytes| describe(to, &Slot::new(around.start, bytes)))
}

/// The parts of the registers at a fault that are reported.
struct Registers {
    /// The instruction that faulted.
    place: Site,
    /// Whether a register holds the pattern of free memory, at least in its upper half.
    has_pattern: bool,
}

impl Registers {
    #[cfg(target_arch = "x86_64")]
    fn from_context(context: *mut c_void) -> Registers {
        // SAFETY: the kernel passes the `ucontext_t` of the interrupted thread to a handler with `SA_SIGINFO`.
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
