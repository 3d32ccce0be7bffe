//! Longest chain of loads in which each address depends on the result of an earlier load.
//!
//! The *depth* of a value is the number of loads on the longest path to it. The result of an instruction is as deep as
//! the deepest value that it reads. A loaded value is one level deeper than the deeper of two values: its address, and
//! the value that was last stored there. A load from the function's own stack frame adds no level, because a spilled
//! value is forwarded from its store. Flags are treated as a value. Branches are not, because processors predict them
//! and continue.

use std::collections::HashMap;

use iced_x86::{Instruction, InstructionInfo, OpAccess, Register, RflagsBits};

use crate::counts::Access;

/// Bytes of memory that share one depth.
const GRAIN: u64 = 8;

/// Depths of all values that were computed so far.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    registers: HashMap<Register, usize>,
    memory: HashMap<u64, usize>,
    flags: usize,
    longest: usize,
}

impl Chain {
    /// Returns the number of loads in the longest chain so far.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Processes the next instruction.
    pub(crate) fn follow(
        &mut self,
        instruction: &Instruction,
        info: &InstructionInfo,
        accesses: &[Access],
        is_own: impl Fn(&Access) -> bool,
    ) {
        let address = self.address_depth(info);
        let loaded = accesses.iter().filter(|access| access.loads).map(|access| {
            let stored = grains(access).filter_map(|grain| self.memory.get(&grain)).max().copied().unwrap_or(0);
            if is_own(access) { stored } else { address.max(stored) + 1 }
        });
        let loaded = loaded.max().unwrap_or(0);
        self.longest = self.longest.max(loaded);
        let depth = loaded.max(self.operand_depth(instruction, info));
        self.write(instruction, info, accesses, depth);
    }

    fn depth(&self, register: Register) -> usize {
        self.registers.get(&register.full_register()).copied().unwrap_or(0)
    }

    /// Returns the largest depth of the registers in the addresses that an instruction uses.
    fn address_depth(&self, info: &InstructionInfo) -> usize {
        let parts = info.used_memory().iter().flat_map(|used| [used.base(), used.index()]);
        parts.map(|register| self.depth(register)).max().unwrap_or(0)
    }

    /// Returns the largest depth of the registers and flags that an instruction reads.
    fn operand_depth(&self, instruction: &Instruction, info: &InstructionInfo) -> usize {
        let read = info.used_registers().iter().filter(|used| is_read(used.access()));
        let flags = if instruction.rflags_read() == RflagsBits::NONE { 0 } else { self.flags };
        read.map(|used| self.depth(used.register())).max().unwrap_or(0).max(flags)
    }

    fn write(&mut self, instruction: &Instruction, info: &InstructionInfo, accesses: &[Access], depth: usize) {
        for used in info.used_registers().iter().filter(|used| is_written(used.access())) {
            let register = used.register();
            // A register that is written in part or conditionally keeps its earlier depth as a minimum. The stack
            // pointer has depth 0.
            let is_whole = used.access() != OpAccess::CondWrite && register.size() >= 4;
            let kept = if is_whole { 0 } else { self.depth(register) };
            let is_stack = register.full_register() == Register::RSP;
            self.registers.insert(register.full_register(), if is_stack { 0 } else { depth.max(kept) });
        }
        if instruction.rflags_modified() != RflagsBits::NONE {
            self.flags = depth;
        }
        for access in accesses.iter().filter(|access| access.stores) {
            self.memory.extend(grains(access).map(|grain| (grain, depth)));
        }
    }
}

fn is_read(access: OpAccess) -> bool {
    !matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::None)
}

fn is_written(access: OpAccess) -> bool {
    !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None)
}

fn grains(access: &Access) -> impl Iterator<Item = u64> + use<> {
    access.address / GRAIN..=(access.address + access.bytes - 1) / GRAIN
}
