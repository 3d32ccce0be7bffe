//! Instructions of a function: all that are reachable from its first one.

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

/// Bytes of the longest instruction.
const LONGEST: usize = 15;

/// Certainty that the code at an address belongs to the function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// The code belongs to the function.
    Function,
    /// The code belongs to the function if the call before it returns; otherwise another function may start there.
    BehindCall,
}

/// Returns the addresses of all instructions that are reachable from `roots`. Calls are stepped over.
pub(crate) fn instructions(roots: &[usize]) -> Vec<usize> {
    let mut found = BTreeSet::new();
    let mut ahead = walk(roots.to_vec(), Reached::Function, &mut found);
    while !ahead.is_empty() {
        ahead = walk(ahead, Reached::BehindCall, &mut found);
    }
    found.into_iter().collect()
}

/// Adds all instructions that are reachable without stepping over a call, and returns the addresses behind calls.
fn walk(mut ahead: Vec<usize>, reached: Reached, found: &mut BTreeSet<usize>) -> Vec<usize> {
    let mut behind_calls = Vec::new();
    while let Some(address) = ahead.pop() {
        if !found.insert(address) {
            continue;
        }
        let instruction = decode(address);
        let (next, target) = (instruction.next_ip() as usize, instruction.near_branch_target() as usize);
        match instruction.flow_control() {
            FlowControl::Next => ahead.push(next),
            FlowControl::Call | FlowControl::IndirectCall => behind_calls.push(next),
            FlowControl::ConditionalBranch => ahead.extend([next, target]),
            FlowControl::UnconditionalBranch => ahead.push(target),
            // The next instruction belongs to another function, or follows a call that does not return.
            FlowControl::Return | FlowControl::Interrupt | FlowControl::Exception => {}
            // A tail call through the linker's table.
            FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {}
            // A jump table of another function, which starts behind a call that does not return.
            FlowControl::IndirectBranch if reached == Reached::BehindCall => {}
            other => panic!("{instruction} at {address:#x} is {other:?}: no part of a section"),
        }
    }
    behind_calls
}

/// Decodes the instruction at an address of code.
pub(crate) fn decode(address: usize) -> Instruction {
    // SAFETY: the address is in this program's code, which continues for more bytes than an instruction can have.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, LONGEST) };
    Decoder::with_ip(64, bytes, address as u64, DecoderOptions::NONE).decode()
}

/// A section: its descriptor, its address range, and the address at which it continues when it is restarted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub descriptor: u64,
    pub start: usize,
    pub length: usize,
    pub restart: usize,
}

impl Section {
    /// Returns whether the section is restarted when it is interrupted at an address.
    pub(crate) fn contains(&self, place: usize) -> bool {
        (self.start..self.start + self.length).contains(&place)
    }
}

/// Returns all sections of this program.
pub(crate) fn sections() -> impl Iterator<Item = Section> {
    // SAFETY: linkers define both symbols for each section of an object file whose name is a C identifier.
    unsafe extern "C" {
        #[link_name = "__start___rseq_cs"]
        static START: [u64; 4];
        #[link_name = "__stop___rseq_cs"]
        static STOP: [u64; 4];
    }
    let (start, stop) = (&raw const START, &raw const STOP);
    (start.addr()..stop.addr()).step_by(size_of::<[u64; 4]>()).map(move |address| {
        let descriptor = start.with_addr(address);
        // SAFETY: the linker places descriptors between START and STOP; each has two words of 32 bits and three of 64
        // bits.
        let [_, start, length, restart] = unsafe { *descriptor }.map(|word| word as usize);
        Section { descriptor: address as u64, start, length, restart }
    })
}
