//! Cost of a trace: counts of instructions by their memory accesses.

use std::collections::BTreeSet;
use std::fmt;

use iced_x86::{InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, UsedMemory};

use crate::chain::Chain;
use crate::step::{Step, Trace};

/// Bytes of a cache line.
const LINE: u64 = 64;

/// Counts of a function, including all functions that it calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub executed: usize,
    pub locked: usize,
    pub loads: usize,
    pub stores: usize,
    /// Loads and stores of the function's own stack frames: pushes, calls and spills.
    pub stack: usize,
    pub lines: usize,
    pub chain: usize,
}

/// Names of the columns, aligned with the format of [`Counts`].
pub(crate) const COLUMNS: &str = "executed  locked  loads  stores  stack  lines  chain";

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { executed, locked, loads, stores, stack, lines, chain } = self;
        let chain = if *chain == 0 { "-".to_owned() } else { chain.to_string() };
        write!(f, "{executed:>8}  {locked:>6}  {loads:>5}  {stores:>6}  {stack:>5}  {lines:>5}  {chain:>5}")
    }
}

/// A memory access of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub address: u64,
    pub bytes: u64,
    pub loads: bool,
    pub stores: bool,
}

impl Counts {
    /// Counts all instructions of a trace.
    pub(crate) fn from_trace(trace: &Trace) -> Counts {
        Counts { executed: trace.steps.len(), ..Counts::within(trace, |_| true) }
    }

    /// Counts only the instructions that access memory for which `is_meant` returns `true`.
    pub(crate) fn touching(trace: &Trace, is_meant: impl Fn(u64) -> bool) -> Counts {
        Counts { chain: 0, ..Counts::within(trace, is_meant) }
    }

    fn within(trace: &Trace, is_meant: impl Fn(u64) -> bool) -> Counts {
        let (mut counts, mut chain, mut lines) = (Counts::default(), Chain::default(), BTreeSet::new());
        let mut facts = InstructionInfoFactory::new();
        for step in &trace.steps {
            let instruction = step.instruction();
            let info = facts.info(&instruction);
            let accesses: Vec<Access> = accesses(step, info).filter(|access| is_meant(access.address)).collect();
            counts.executed += usize::from(!accesses.is_empty());
            chain.follow(&instruction, info, &accesses, |access| trace.is_on_stack(access.address));
            let shared: Vec<&Access> = accesses.iter().filter(|access| !trace.is_on_stack(access.address)).collect();
            let is_exchange = instruction.mnemonic() == Mnemonic::Xchg && !accesses.is_empty();
            counts.locked += usize::from(!shared.is_empty() && (instruction.has_lock_prefix() || is_exchange));
            counts.loads += shared.iter().filter(|access| access.loads).count();
            counts.stores += shared.iter().filter(|access| access.stores).count();
            counts.stack += accesses.len() - shared.len();
            lines.extend(
                shared.iter().filter(|access| !is_in_program(access.address)).flat_map(|access| access.lines()),
            );
        }
        Counts { lines: lines.len(), chain: chain.longest(), ..counts }
    }
}

/// Returns whether an address is in this program's file, such as a jump table, a constant, or the address of a
/// function. The linker places these, and their positions depend on the lengths of paths.
fn is_in_program(address: u64) -> bool {
    // SAFETY: the linker defines both symbols in every program, and only their addresses are taken.
    unsafe extern "C" {
        safe static __executable_start: u8;
        safe static _end: u8;
    }
    ((&raw const __executable_start).addr() as u64..(&raw const _end).addr() as u64).contains(&address)
}

impl Access {
    fn lines(&self) -> impl Iterator<Item = u64> + use<> {
        self.address / LINE..=(self.address + self.bytes - 1) / LINE
    }
}

/// Returns all memory accesses of an instruction.
pub(crate) fn accesses(step: &Step, info: &InstructionInfo) -> impl Iterator<Item = Access> {
    info.used_memory().iter().filter_map(|used| access(step, used))
}

fn access(step: &Step, used: &UsedMemory) -> Option<Access> {
    let (loads, stores) = match used.access() {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => return None,
    };
    let address = used.virtual_address(0, |register, _, _| Some(step.value(register)));
    let bytes = used.memory_size().size().max(1) as u64;
    Some(Access { address: address.expect("all registers are known"), bytes, loads, stores })
}
