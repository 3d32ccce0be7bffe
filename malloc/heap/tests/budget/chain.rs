//! The longest chain of loads in which each address depends on what an earlier one brought.
//!
//! A value's *depth* is the number of loads on the longest way to it. What an instruction computes is as deep as the
//! deepest of what it reads; what it loads is one deeper than its address, and deeper than what was last stored there.
//! Frames of the function itself pass a depth on and add nothing: what was spilled comes back from the store. Flags are
//! a value like any other. A branch is none: processors guess it, and go on.

use std::collections::HashMap;

use iced_x86::{Instruction, InstructionInfo, OpAccess, Register, RflagsBits};

use crate::counts::Access;

/// Bytes that memory's depths are kept of together.
const GRAIN: u64 = 8;

/// Depths of all that was computed so far.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    registers: HashMap<Register, usize>,
    memory: HashMap<u64, usize>,
    flags: usize,
    longest: usize,
}

impl Chain {
    /// Loads of the longest chain so far.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Goes one instruction further.
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

    /// The deepest part of the addresses that it uses.
    fn address_depth(&self, info: &InstructionInfo) -> usize {
        let parts = info.used_memory().iter().flat_map(|used| [used.base(), used.index()]);
        parts.map(|register| self.depth(register)).max().unwrap_or(0)
    }

    /// The deepest of the registers and flags that it reads.
    fn operand_depth(&self, instruction: &Instruction, info: &InstructionInfo) -> usize {
        let read = info.used_registers().iter().filter(|used| is_read(used.access()));
        let flags = if instruction.rflags_read() == RflagsBits::NONE { 0 } else { self.flags };
        read.map(|used| self.depth(used.register())).max().unwrap_or(0).max(flags)
    }

    fn write(&mut self, instruction: &Instruction, info: &InstructionInfo, accesses: &[Access], depth: usize) {
        for used in info.used_registers().iter().filter(|used| is_written(used.access())) {
            let register = used.register();
            // What is written in part, or maybe, is as deep as before, too. The stack pointer's own steps are none.
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
