//! Functions with known counts, because all of their instructions are given here.

use std::arch::global_asm;

use crate::counts::Counts;
use crate::machine::Apart;
use crate::step::Trace;

/// A page whose first words may hold addresses inside the page.
type Cells = Apart<[u64; 512]>;

// SAFETY: the functions are defined in assembly below, and take a pointer by the C calling convention.
unsafe extern "C" {
    fn budget_sample_chain(cells: *mut u64);
    fn budget_sample_beside(cells: *mut u64);
    fn budget_sample_beside_and_one_more(cells: *mut u64);
    fn budget_sample_locked(cells: *mut u64);
    fn budget_sample_stored(cells: *mut u64);
    fn budget_sample_flags(cells: *mut u64);
}

global_asm!(
    // The address of the second load was spilled. The address of the third does not depend on an earlier load.
    "budget_sample_chain:",
    "mov rax, [rdi]",
    "push rax",
    "xor eax, eax",
    "pop rax",
    "mov rax, [rax]",
    "xor eax, eax",
    "mov rcx, [rdi + rax + 128]",
    "ret",
    // Independent loads, the second of which crosses a line boundary.
    "budget_sample_beside:",
    "mov rax, [rdi]",
    "mov rcx, [rdi + 60]",
    "ret",
    "budget_sample_beside_and_one_more:",
    "mov rax, [rdi]",
    "mov rcx, [rdi + 60]",
    "mov rdx, [rdi + 8]",
    "ret",
    // Two locked instructions, and an exchange without memory.
    "budget_sample_locked:",
    "xor eax, eax",
    "lock add dword ptr [rdi + 64], 1",
    "xchg [rdi + 72], eax",
    "xchg ecx, eax",
    "ret",
    // A value is loaded, stored, loaded again, and used as an address.
    "budget_sample_stored:",
    "mov rax, [rdi]",
    "mov [rdi + 64], rax",
    "mov rcx, [rdi + 64]",
    "mov rcx, [rcx]",
    "ret",
    // An address depends on a comparison with a loaded value, through the low byte of a register.
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
    // SAFETY: both words are in the page, which this function owns.
    unsafe { first.write(first.add(16).addr() as u64) };
    // SAFETY: a sample accesses only the page to which its argument points.
    let trace = Trace::record(sample as *const (), || unsafe { sample(first) });
    Counts::from_trace(&trace)
}

#[test]
fn dependent_loads_form_a_chain() {
    let expected = Counts { executed: 8, locked: 0, loads: 3, stores: 0, stack: 3, lines: 2, chain: 2 };
    assert_eq!(counts(budget_sample_chain), expected);
    let expected = Counts { executed: 3, locked: 0, loads: 2, stores: 0, stack: 1, lines: 2, chain: 1 };
    assert_eq!(counts(budget_sample_beside), expected);
}

#[test]
fn stored_values_keep_their_chain_depth() {
    let expected = Counts { executed: 5, locked: 0, loads: 3, stores: 1, stack: 1, lines: 3, chain: 3 };
    assert_eq!(counts(budget_sample_stored), expected);
}

#[test]
fn flags_and_subregisters_inherit_chain_depth() {
    let expected = Counts { executed: 6, locked: 0, loads: 2, stores: 0, stack: 1, lines: 1, chain: 2 };
    assert_eq!(counts(budget_sample_flags), expected);
}

#[test]
fn only_locked_instructions_count_as_locked() {
    let expected = Counts { executed: 5, locked: 2, loads: 2, stores: 2, stack: 1, lines: 1, chain: 1 };
    assert_eq!(counts(budget_sample_locked), expected);
}

#[test]
fn additional_load_is_counted_once() {
    let (less, more) = (counts(budget_sample_beside), counts(budget_sample_beside_and_one_more));
    assert_eq!(more, Counts { executed: less.executed + 1, loads: less.loads + 1, ..less });
}
