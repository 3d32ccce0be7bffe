//! A function of this very program, one instruction at a time.
//!
//! With the processor's trap flag set, each instruction ends in a signal, whose handler finds the registers that the
//! next one will see. Kept are those from the function's first instruction to its return, with all that it calls.
//!
//! A signal begins a restartable sequence anew. The kernel does that once, and takes the descriptor away: from then on
//! the thread is sent on where it would have been, and the section ends as if nothing had come between. That is safe
//! where nobody else uses the CPU's objects, as here.

use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Register};
use libc::{
    REG_EFL, REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RAX, REG_RBP, REG_RBX, REG_RCX,
    REG_RDI, REG_RDX, REG_RIP, REG_RSI, REG_RSP, SA_SIGINFO, SIGTRAP, c_uint, greg_t, sigaction, siginfo_t, ucontext_t,
};

/// Bytes of the longest instruction.
const LONGEST: usize = 15;
/// Set while each instruction traps.
const TRAP: greg_t = 0x100;
/// Most instructions of a function: a scene with more is no fast path.
const STEPS_MAX: usize = 100_000;
/// Bytes that a function's frames take at most.
const STACK_MAX: u64 = 1 << 20;

/// There is one handler, so functions take turns.
static TURN: Mutex<()> = Mutex::new(());
/// What is being traced.
static TRACED: AtomicPtr<ActiveTrace> = AtomicPtr::new(null_mut());

/// An instruction, and the registers that it sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    registers: [greg_t; 23],
    thread: u64,
}

/// A function that is being traced, or was.
struct ActiveTrace {
    entry: u64,
    steps: Vec<Step>,
    /// Where it returns to, once it was called.
    end: Option<u64>,
    is_over: bool,
    thread: u64,
}

/// What was executed, in its order.
#[derive(Debug)]
pub(crate) struct Trace {
    pub steps: Vec<Step>,
}

impl Trace {
    /// Does `operation`, which calls the function at `entry`, and says what that executed.
    ///
    /// # Panics
    /// If it was not called, or did not return.
    pub(crate) fn record(entry: *const (), operation: impl FnOnce()) -> Trace {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        install();
        let steps = Vec::with_capacity(STEPS_MAX);
        let mut traced =
            ActiveTrace { entry: entry.addr() as u64, steps, end: None, is_over: false, thread: thread_pointer() };
        TRACED.store(&raw mut traced, Ordering::Release);
        // SAFETY: only the trap flag changes, and `on_trap` handles what it leads to.
        unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], {}", "popfq", const TRAP) };
        operation();
        // SAFETY: the flag is as it was.
        unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], {}", "popfq", const !TRAP) };
        TRACED.store(null_mut(), Ordering::Release);
        assert!(traced.is_over, "the function was not called, or did not return in {STEPS_MAX} instructions");
        Trace { steps: traced.steps }
    }

    /// Whether an address is in the frames of the function and of what it calls, its own return address included.
    pub(crate) fn is_on_stack(&self, address: u64) -> bool {
        let top = self.steps[0].value(Register::RSP) + size_of::<u64>() as u64;
        (top - STACK_MAX..top).contains(&address)
    }
}

impl Step {
    /// The instruction.
    pub(crate) fn instruction(&self) -> Instruction {
        decode(self.value(Register::RIP))
    }

    /// The value of a register that an address is made of; for a segment's, where the segment begins.
    ///
    /// # Panics
    /// If it is none of these.
    pub(crate) fn value(&self, register: Register) -> u64 {
        let number = match register {
            Register::FS => return self.thread,
            Register::CS | Register::DS | Register::ES | Register::SS => return 0,
            Register::RAX => REG_RAX,
            Register::RBX => REG_RBX,
            Register::RCX => REG_RCX,
            Register::RDX => REG_RDX,
            Register::RSI => REG_RSI,
            Register::RDI => REG_RDI,
            Register::RBP => REG_RBP,
            Register::RSP => REG_RSP,
            Register::R8 => REG_R8,
            Register::R9 => REG_R9,
            Register::R10 => REG_R10,
            Register::R11 => REG_R11,
            Register::R12 => REG_R12,
            Register::R13 => REG_R13,
            Register::R14 => REG_R14,
            Register::R15 => REG_R15,
            Register::RIP => REG_RIP,
            other => panic!("{other:?} is no part of an address"),
        };
        self.registers[number as c_uint as usize].cast_unsigned()
    }
}

impl ActiveTrace {
    /// The thread stands before an instruction, or is sent on to the one where it should.
    fn stand(&mut self, registers: &mut [greg_t; 23]) {
        if self.is_over {
            return;
        }
        let at = registers[REG_RIP as usize].cast_unsigned();
        let end = match self.end {
            Some(end) => end,
            None if at == self.entry => self.call(registers[REG_RSP as usize]),
            None => return,
        };
        if let Some(last) = self.steps.last() {
            registers[REG_RIP as usize] = next(last, at).cast_signed();
        }
        let at = registers[REG_RIP as usize].cast_unsigned();
        let entered = self.steps.first().map_or(0, |first| first.registers[REG_RSP as usize]);
        if at == end && registers[REG_RSP as usize] > entered {
            self.is_over = true;
        } else if self.steps.len() < STEPS_MAX {
            self.steps.push(Step { registers: *registers, thread: self.thread });
        }
    }

    /// Where the function will return to, whose first instruction is next.
    fn call(&mut self, stack: greg_t) -> u64 {
        // SAFETY: a function finds the address that it returns to on top of its stack.
        let end = unsafe { *(stack.cast_unsigned() as *const u64) };
        *self.end.insert(end)
    }
}

/// Where the thread would be after `last` if the kernel had not restarted a section.
fn next(last: &Step, at: u64) -> u64 {
    let from = last.value(Register::RIP);
    let instruction = decode(from);
    let is_restarted = instruction.flow_control() == FlowControl::Next && at != from;
    if is_restarted { instruction.next_ip() } else { at }
}

fn decode(address: u64) -> Instruction {
    // SAFETY: more code of this program follows it than an instruction is long.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, LONGEST) };
    Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode()
}

/// Where this thread's storage ends.
fn thread_pointer() -> u64 {
    let thread: u64;
    // SAFETY: the first word after a thread's storage is its own address.
    unsafe { std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) thread, options(nostack, readonly, preserves_flags)) }
    thread
}

/// Has the process's traps handled here.
fn install() {
    // SAFETY: an action of zeros is one; the handler fits its flags.
    unsafe {
        let mut action: sigaction = zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = SA_SIGINFO;
        assert_eq!(sigaction(SIGTRAP, &raw const action, null_mut()), 0, "a handler can be set");
    }
}

extern "C" fn on_trap(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a handler the interrupted thread's registers.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    // SAFETY: `Trace::record` keeps it in place until the flag is as it was, and touches it on no other thread.
    match unsafe { TRACED.load(Ordering::Acquire).as_mut() } {
        Some(traced) => traced.stand(registers),
        None => registers[REG_EFL as usize] &= !TRAP,
    }
}
