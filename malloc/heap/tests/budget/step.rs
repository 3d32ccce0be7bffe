//! Single-stepping of a function of this program.
//!
//! While the processor's trap flag is set, each instruction ends in a signal. The signal's handler records the
//! registers that the next instruction will see, from the function's first instruction to its return, including calls.
//!
//! A signal restarts a restartable sequence. The kernel restarts the section once and clears the descriptor. The
//! handler then sends the thread to the instruction that it would have executed next, so the section completes as if it
//! had not been interrupted. That is safe if no other thread uses the CPU's objects, as is the case here.

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
/// The trap flag, which makes each instruction trap.
const TRAP: greg_t = 0x100;
/// Most instructions of a function. A function with more of them is not a fast path.
const STEPS_MAX: usize = 100_000;
/// Most bytes of a function's stack frames.
const STACK_MAX: u64 = 1 << 20;

/// Serialises recordings, because there is one handler.
static TURN: Mutex<()> = Mutex::new(());
/// The active recording, or null.
static TRACED: AtomicPtr<ActiveTrace> = AtomicPtr::new(null_mut());

/// An instruction, represented by the registers that it sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    registers: [greg_t; 23],
    thread: u64,
}

/// A recording that is in progress or complete.
struct ActiveTrace {
    entry: u64,
    steps: Vec<Step>,
    /// Return address of the function, once it was called.
    end: Option<u64>,
    is_over: bool,
    thread: u64,
}

/// Executed instructions in order.
#[derive(Debug)]
pub(crate) struct Trace {
    pub steps: Vec<Step>,
}

impl Trace {
    /// Runs `operation`, which calls the function at `entry`, and returns the instructions that the function executed.
    ///
    /// # Panics
    /// If the function was not called, or did not return.
    pub(crate) fn record(entry: *const (), operation: impl FnOnce()) -> Trace {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        install();
        let steps = Vec::with_capacity(STEPS_MAX);
        let mut traced =
            ActiveTrace { entry: entry.addr() as u64, steps, end: None, is_over: false, thread: thread_pointer() };
        TRACED.store(&raw mut traced, Ordering::Release);
        // SAFETY: only the trap flag changes, and `on_trap` handles the resulting signals.
        unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], {}", "popfq", const TRAP) };
        operation();
        // SAFETY: this restores the trap flag to its earlier value.
        unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], {}", "popfq", const !TRAP) };
        TRACED.store(null_mut(), Ordering::Release);
        assert!(traced.is_over, "the function was not called, or did not return in {STEPS_MAX} instructions");
        Trace { steps: traced.steps }
    }

    /// Returns whether an address is in the stack frames of the function and its callees, including its own return
    /// address.
    pub(crate) fn is_on_stack(&self, address: u64) -> bool {
        let top = self.steps[0].value(Register::RSP) + size_of::<u64>() as u64;
        (top - STACK_MAX..top).contains(&address)
    }
}

impl Step {
    /// Returns the instruction.
    pub(crate) fn instruction(&self) -> Instruction {
        decode(self.value(Register::RIP))
    }

    /// Returns the value of a register that can be part of an address; for a segment register, the base of the segment.
    ///
    /// # Panics
    /// If the register cannot be part of an address.
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
    /// Handles one trap: records the next instruction. If the kernel has restarted a section, first sends the thread to
    /// the instruction that would have been next.
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

    /// Records and returns the function's return address. The function's first instruction is next.
    fn call(&mut self, stack: greg_t) -> u64 {
        // SAFETY: before the first instruction of a function, its return address is on top of the stack.
        let end = unsafe { *(stack.cast_unsigned() as *const u64) };
        *self.end.insert(end)
    }
}

/// Returns the address that the thread would have reached after `last` if the kernel had not restarted a section.
fn next(last: &Step, at: u64) -> u64 {
    let from = last.value(Register::RIP);
    let instruction = decode(from);
    let is_restarted = instruction.flow_control() == FlowControl::Next && at != from;
    if is_restarted { instruction.next_ip() } else { at }
}

fn decode(address: u64) -> Instruction {
    // SAFETY: the address is in this program's code, which continues for more bytes than an instruction can have.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, LONGEST) };
    Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode()
}

/// Returns the thread pointer, which is at the end of the thread's static TLS block.
fn thread_pointer() -> u64 {
    let thread: u64;
    // SAFETY: the word at the thread pointer is the thread pointer itself.
    unsafe { std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) thread, options(nostack, readonly, preserves_flags)) }
    thread
}

/// Installs the handler for traps.
fn install() {
    // SAFETY: an all-zero `sigaction` is valid, and the handler has the signature that `SA_SIGINFO` requires.
    unsafe {
        let mut action: sigaction = zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = SA_SIGINFO;
        assert_eq!(sigaction(SIGTRAP, &raw const action, null_mut()), 0, "the signal handler cannot be set");
    }
}

extern "C" fn on_trap(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the `ucontext_t` of the interrupted thread to a handler with `SA_SIGINFO`.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    // SAFETY: `Trace::record` keeps the recording alive until the pointer is cleared, and no other thread accesses it.
    match unsafe { TRACED.load(Ordering::Acquire).as_mut() } {
        Some(traced) => traced.stand(registers),
        None => registers[REG_EFL as usize] &= !TRAP,
    }
}
