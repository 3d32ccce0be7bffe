//! The instructions of a function in memory: every one that can be reached from its first.

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

/// Bytes of the longest instruction.
const LONGEST: usize = 15;

/// What is known of the code at an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordedWalk {
    /// It is the function's.
    Function,
    /// It is, if the call before it returns; else another function may begin there.
    BehindCall,
}

/// Addresses of all instructions that can be reached from `roots`. Calls are stepped over.
pub(crate) fn instructions(roots: &[usize]) -> Vec<usize> {
    let mut found = BTreeSet::new();
    let mut ahead = walk(roots.to_vec(), RecordedWalk::Function, &mut found);
    while !ahead.is_empty() {
        ahead = walk(ahead, RecordedWalk::BehindCall, &mut found);
    }
    found.into_iter().collect()
}

/// Finds what can be reached from there without a call; returns what lies behind calls.
fn walk(mut ahead: Vec<usize>, known: RecordedWalk, found: &mut BTreeSet<usize>) -> Vec<usize> {
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
            // What follows a function, or a call that does not return.
            FlowControl::Return | FlowControl::Interrupt | FlowControl::Exception => {}
            // A call at the end, through the linker's table.
            FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {}
            // By a table of another function's, which begins behind a call that does not return.
            FlowControl::IndirectBranch if known == RecordedWalk::BehindCall => {}
            other => panic!("{instruction} at {address:#x} is {other:?}: no part of a section"),
        }
    }
    behind_calls
}

/// The instruction at an address of code.
pub(crate) fn decode(address: usize) -> Instruction {
    // SAFETY: more code of this program follows it than an instruction is long.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, LONGEST) };
    Decoder::with_ip(64, bytes, address as u64, DecoderOptions::NONE).decode()
}

/// A section: where it is, and where it goes on when it is restarted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub descriptor: u64,
    pub start: usize,
    pub length: usize,
    pub restart: usize,
}

impl Section {
    /// Whether it is restarted when it is interrupted there.
    pub(crate) fn contains(&self, place: usize) -> bool {
        (self.start..self.start + self.length).contains(&place)
    }
}

/// All sections of this program.
pub(crate) fn sections() -> impl Iterator<Item = Section> {
    // SAFETY: linkers define both for each section of a program whose name is one of C.
    unsafe extern "C" {
        #[link_name = "__start___rseq_cs"]
        static START: [u64; 4];
        #[link_name = "__stop___rseq_cs"]
        static STOP: [u64; 4];
    }
    let (start, stop) = (&raw const START, &raw const STOP);
    (start.addr()..stop.addr()).step_by(size_of::<[u64; 4]>()).map(move |address| {
        let descriptor = start.with_addr(address);
        // SAFETY: the linker says that descriptors lie from START to STOP: two numbers of 32 bits, three of 64.
        let [_, start, length, restart] = unsafe { *descriptor }.map(|word| word as usize);
        Section { descriptor: address as u64, start, length, restart }
    })
}
