//! The instructions of one function, and their counts.
//!
//! The function is decoded from its first byte to its last. Jumps within it are shown by their distance from its first
//! byte, so that equal code has equal text at any address. A jump out of the function is a tail call, and counts as a
//! call.

use iced_x86::{
    ConditionCode, Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction, InstructionInfoFactory,
    OpAccess, SymbolResolver, SymbolResult,
};
use serde::Serialize;

use super::image::Code;

/// Instructions of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Listing {
    /// Counts of the function.
    #[serde(flatten)]
    pub counts: Counts,
    /// Instructions in order of address.
    pub lines: Vec<Line>,
}

/// Counts of a function's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Instructions.
    pub instructions: usize,
    /// Bytes.
    pub bytes: usize,
    /// Conditional jumps.
    pub conditional_branches: usize,
    /// Conditional moves and sets, which need no branch prediction.
    pub conditional_moves: usize,
    /// Unconditional jumps within the function, and indirect jumps.
    pub jumps: usize,
    /// Calls, and jumps out of the function.
    pub calls: usize,
    /// Instructions that read memory, except calls and returns.
    pub loads: usize,
    /// Instructions that write memory, except calls and returns.
    pub stores: usize,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    /// Offset from the function's start, in bytes.
    pub offset: u64,
    /// Bytes of the instruction in hexadecimal.
    pub bytes: String,
    /// Text of the instruction in the syntax of the GNU assembler.
    pub text: String,
}

impl Listing {
    /// Decodes `code`.
    ///
    /// # Errors
    /// The offset of the first bytes that are not an instruction.
    pub(crate) fn decode(code: Code) -> Result<Listing, u64> {
        let mut formatter = GasFormatter::with_options(Some(Box::new(Labels::find(code))), None);
        let options = formatter.options_mut();
        options.set_space_after_operand_separator(true);
        options.set_uppercase_hex(false);
        options.set_branch_leading_zeros(false);
        let mut facts = InstructionInfoFactory::new();
        let mut counts = Counts { bytes: code.bytes.len(), ..Counts::default() };
        let mut lines = Vec::new();
        for instruction in Decoder::with_ip(64, code.bytes, code.address, DecoderOptions::NONE) {
            let offset = instruction.ip() - code.address;
            if instruction.is_invalid() {
                return Err(offset);
            }
            counts.add(&instruction, code, &mut facts);
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            lines.push(Line { offset, bytes: hex(&code.bytes[offset as usize..][..instruction.len()]), text });
        }
        Ok(Listing { counts, lines })
    }
}

impl Counts {
    fn add(&mut self, instruction: &Instruction, code: Code, facts: &mut InstructionInfoFactory) {
        self.instructions += 1;
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => self.conditional_branches += 1,
            FlowControl::UnconditionalBranch if !code.contains(instruction.near_branch_target()) => self.calls += 1,
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => self.jumps += 1,
            FlowControl::Call | FlowControl::IndirectCall => self.calls += 1,
            FlowControl::Next => {
                self.conditional_moves += usize::from(instruction.condition_code() != ConditionCode::None);
                let memory = facts.info(instruction).used_memory();
                self.loads += usize::from(memory.iter().any(|used| reads(used.access())));
                self.stores += usize::from(memory.iter().any(|used| writes(used.access())));
            }
            _ => {}
        }
    }
}

fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

impl Code<'_> {
    fn contains(self, address: u64) -> bool {
        (self.address..self.address + self.bytes.len() as u64).contains(&address)
    }
}

/// Symbol resolver that names addresses inside a function by their distance from its first byte.
struct Labels {
    start: u64,
    length: u64,
}

impl Labels {
    fn find(code: Code) -> Labels {
        Labels { start: code.address, length: code.bytes.len() as u64 }
    }
}

impl SymbolResolver for Labels {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _operand: u32,
        _instruction_operand: Option<u32>,
        address: u64,
        _address_size: u32,
    ) -> Option<SymbolResult<'_>> {
        let offset = address.checked_sub(self.start).filter(|offset| *offset < self.length)?;
        let is_target = instruction.near_branch_target() == address;
        is_target.then(|| SymbolResult::with_string(address, format!("+0x{offset:x}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function with at least one instruction of each kind. Its last jump leaves the function, and counts as a call.
    const CODE: [u8; 37] = [
        0x53, // push %rbx: a store
        0x85, 0xff, // test %edi, %edi
        0x74, 0x05, // je +0xa: a conditional branch
        0x8b, 0x07, // mov (%rdi), %eax: a load
        0x83, 0x06, 0x01, // addl $1, (%rsi): a load and a store
        0x8d, 0x47, 0x01, // lea 1(%rdi), %eax: neither
        0xe8, 0x10, 0x00, 0x00, 0x00, // call elsewhere
        0x0f, 0x45, 0xc1, // cmovne %ecx, %eax: a conditional move
        0x0f, 0x94, 0xc0, // sete %al: another
        0xeb, 0x00, // jmp +0x1a: a jump
        0xff, 0xe0, // jmp *%rax: a jump
        0x5b, // pop %rbx: a load
        0xe9, 0x00, 0x01, 0x00, 0x00, // jmp elsewhere: a call
        0x66, 0x90, // xchg %ax, %ax: nothing
        0xc3, // ret: neither a load nor a call
    ];

    fn listing(bytes: &[u8], address: u64) -> Result<Listing, u64> {
        Listing::decode(Code { address, bytes })
    }

    #[test]
    fn each_instruction_is_counted_once() {
        let counts = listing(&CODE, 0x40_0000).unwrap().counts;
        let expected = Counts {
            instructions: 15,
            bytes: 37,
            conditional_branches: 1,
            conditional_moves: 2,
            jumps: 2,
            calls: 2,
            loads: 3,
            stores: 2,
        };
        assert_eq!(counts, expected);
    }

    fn lines_at(address: u64, bytes: &[u8]) -> Vec<Line> {
        listing(bytes, address).unwrap().lines
    }

    #[test]
    fn relative_jumps_make_listings_position_independent() {
        let inside = &CODE[..13];
        assert_eq!(lines_at(0x1000, inside), lines_at(0x7000, inside));
        assert_eq!(lines_at(0, inside)[2], Line { offset: 3, bytes: "74 05".to_owned(), text: "je +0xa".to_owned() });
        let outside = &CODE[..10];
        assert_eq!(lines_at(0x1000, outside)[2].text, "je 0x100a");
        assert_ne!(lines_at(0x1000, outside), lines_at(0x7000, outside));
    }

    #[test]
    fn invalid_instruction_bytes_are_an_error() {
        assert_eq!(listing(&[0x90, 0x06], 0), Err(1));
        assert_eq!(listing(&CODE[..15], 0), Err(13), "half an instruction");
    }
}
