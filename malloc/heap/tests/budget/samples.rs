//! Functions whose counts are known, since each instruction of theirs is written here.

use std::arch::global_asm;

use crate::counts::Counts;
use crate::machine::Apart;
use crate::step::Trace;

/// A page whose first words may be the addresses of its others.
type Cells = Apart<[u64; 512]>;

// SAFETY: they are written below, and take a pointer as C does.
unsafe extern "C" {
    fn budget_sample_chain(cells: *mut u64);
    fn budget_sample_beside(cells: *mut u64);
    fn budget_sample_beside_and_one_more(cells: *mut u64);
    fn budget_sample_locked(cells: *mut u64);
    fn budget_sample_stored(cells: *mut u64);
    fn budget_sample_flags(cells: *mut u64);
}

global_asm!(
    // The second load's address was spilled; that of the third does not come from what was loaded before.
    "budget_sample_chain:",
    "mov rax, [rdi]",
    "push rax",
    "xor eax, eax",
    "pop rax",
    "mov rax, [rax]",
    "xor eax, eax",
    "mov rcx, [rdi + rax + 128]",
    "ret",
    // Loads that wait for nobody, the second of which is in two lines.
    "budget_sample_beside:",
    "mov rax, [rdi]",
    "mov rcx, [rdi + 60]",
    "ret",
    "budget_sample_beside_and_one_more:",
    "mov rax, [rdi]",
    "mov rcx, [rdi + 60]",
    "mov rdx, [rdi + 8]",
    "ret",
    // Two that are locked, and an exchange that is not with memory.
    "budget_sample_locked:",
    "xor eax, eax",
    "lock add dword ptr [rdi + 64], 1",
    "xchg [rdi + 72], eax",
    "xchg ecx, eax",
    "ret",
    // What was loaded, stored and loaded again is an address.
    "budget_sample_stored:",
    "mov rax, [rdi]",
    "mov [rdi + 64], rax",
    "mov rcx, [rdi + 64]",
    "mov rcx, [rcx]",
    "ret",
    // An address that depends on a comparison with what was loaded, in a byte of a register.
    "budget_sample_flags:",
    "mov rax, [rdi]",
    "xor ecx, ecx",
    "test rax, rax",
    "sete cl",
    "mov rax, [rdi + 8 * rcx]",
    "ret",
);

fn counts(sample: unsafe extern "C" fn(*mut u64)) -> Counts {
    let mut cells: Box<Cells> = Box::new(Apart([0; 512]));
    let first = cells.0.as_mut_ptr();
    // SAFETY: both are in the page.
    unsafe { first.write(first.add(16).addr() as u64) };
    // SAFETY: all that a sample touches is in the page that it is given.
    let trace = Trace::record(sample as *const (), || unsafe { sample(first) });
    Counts::from_trace(&trace)
}

#[test]
fn loads_that_wait_for_each_other_are_a_chain() {
    let expected = Counts { executed: 8, locked: 0, loads: 3, stores: 0, stack: 3, lines: 2, chain: 2 };
    assert_eq!(counts(budget_sample_chain), expected);
    let expected = Counts { executed: 3, locked: 0, loads: 2, stores: 0, stack: 1, lines: 2, chain: 1 };
    assert_eq!(counts(budget_sample_beside), expected);
}

#[test]
fn what_was_stored_is_as_deep_as_it_was() {
    let expected = Counts { executed: 5, locked: 0, loads: 3, stores: 1, stack: 1, lines: 3, chain: 3 };
    assert_eq!(counts(budget_sample_stored), expected);
}

#[test]
fn flags_and_parts_of_registers_are_as_deep_as_what_they_come_from() {
    let expected = Counts { executed: 6, locked: 0, loads: 2, stores: 0, stack: 1, lines: 1, chain: 2 };
    assert_eq!(counts(budget_sample_flags), expected);
}

#[test]
fn locked_instructions_are_those_that_keep_others_off_memory() {
    let expected = Counts { executed: 5, locked: 2, loads: 2, stores: 2, stack: 1, lines: 1, chain: 1 };
    assert_eq!(counts(budget_sample_locked), expected);
}

#[test]
fn one_load_more_is_one_load_more() {
    let (less, more) = (counts(budget_sample_beside), counts(budget_sample_beside_and_one_more));
    assert_eq!(more, Counts { executed: less.executed + 1, loads: less.loads + 1, ..less });
}
