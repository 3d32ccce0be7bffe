//! The instructions of a function in memory: every one that can be reached from its first.

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// Bytes of the longest instruction.
const LONGEST: usize = 15;

/// Addresses of all instructions that can be reached from `roots`. There must be no calls among them.
pub fn instructions(roots: &[usize]) -> Vec<usize> {
    let mut found = BTreeSet::new();
    let mut ahead = roots.to_vec();
    while let Some(address) = ahead.pop() {
        if !found.insert(address) {
            continue;
        }
        // SAFETY: an address of code, behind which there is more code of this program than an instruction is long.
        let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, LONGEST) };
        let instruction = Decoder::with_ip(64, bytes, address as u64, DecoderOptions::NONE).decode();
        let (next, target) = (instruction.next_ip() as usize, instruction.near_branch_target() as usize);
        match instruction.flow_control() {
            FlowControl::Next => ahead.push(next),
            FlowControl::ConditionalBranch => ahead.extend([next, target]),
            FlowControl::UnconditionalBranch => ahead.push(target),
            FlowControl::Return => {}
            other => panic!("{instruction} at {address:#x} is {other:?}: no part of a section"),
        }
    }
    found.into_iter().collect()
}
