//! The instructions of a function in memory: every one that can be reached from its first.

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

/// Bytes of the longest instruction.
const LONGEST: usize = 15;

/// Addresses of all instructions that can be reached from `roots`. Calls are stepped over.
pub fn instructions(roots: &[usize]) -> Vec<usize> {
    let mut found = BTreeSet::new();
    let mut ahead = roots.to_vec();
    while let Some(address) = ahead.pop() {
        if !found.insert(address) {
            continue;
        }
        let instruction = decode(address);
        let (next, target) = (instruction.next_ip() as usize, instruction.near_branch_target() as usize);
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => ahead.push(next),
            FlowControl::ConditionalBranch => ahead.extend([next, target]),
            FlowControl::UnconditionalBranch => ahead.push(target),
            // What follows a function, or a call that does not return.
            FlowControl::Return | FlowControl::Interrupt | FlowControl::Exception => {}
            // A call at the end, through the linker's table; or a table of another function's, which begins where a
            // call stands that does not return.
            FlowControl::IndirectBranch => {}
            other => panic!("{instruction} at {address:#x} is {other:?}: no part of a section"),
        }
    }
    found.into_iter().collect()
}

/// The instruction at an address of code.
pub fn decode(address: usize) -> Instruction {
    // SAFETY: more code of this program follows it than an instruction is long.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, LONGEST) };
    Decoder::with_ip(64, bytes, address as u64, DecoderOptions::NONE).decode()
}

/// A section: where it is, and where it goes on when it is restarted.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub descriptor: u64,
    pub start: usize,
    pub length: usize,
    pub restart: usize,
}

impl Section {
    /// Whether it is restarted when it is interrupted there.
    pub fn contains(&self, place: usize) -> bool {
        (self.start..self.start + self.length).contains(&place)
    }
}

/// All sections of this program.
pub fn sections() -> impl Iterator<Item = Section> {
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
