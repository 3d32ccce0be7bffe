//! Requests of Rust's own collections, on all CPUs at once.

use alloc::alloc::{alloc_zeroed, dealloc, realloc};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::fmt::Write;

use crate::together;

/// Runs on all CPUs.
pub fn play() {
    together::on_all_cpus(|cpu| {
        collections(cpu);
        alignments();
    });
}

fn collections(cpu: u32) {
    let boxed = Box::new([cpu; 100]);
    let mut numbers: Vec<u64> = Vec::new();
    (0..5_000).for_each(|number| numbers.push(number * u64::from(cpu + 1)));
    assert!((0..5_000).all(|at| numbers[at] == at as u64 * u64::from(cpu + 1)));
    let mut names = BTreeMap::new();
    for number in 0..500_u32 {
        let mut name = String::new();
        write!(name, "{}-{number}", boxed[number as usize % 100]).expect("writing to a string cannot fail");
        names.insert(number.wrapping_mul(0x9e37_79b9), name);
    }
    assert!(names.values().all(|name| name.starts_with(|letter: char| letter.is_ascii_digit())));
    names.retain(|number, _| number % 3 == 0);
    drop(numbers);
    assert!(names.len() < 200);
}

fn alignments() {
    for align in (0..=16).map(|power| 1_usize << power) {
        for size in [1, 24, 100, 3000, 40_000] {
            let layout = Layout::from_size_align(size, align).expect("the layout is small");
            // SAFETY: the layout has a non-zero size, and each pointer is used with the layout of its allocation.
            unsafe {
                let memory = alloc_zeroed(layout);
                assert!(!memory.is_null() && memory.addr().is_multiple_of(align));
                assert!((0..size).all(|at| memory.add(at).read() == 0), "the memory is not zeroed");
                memory.write_bytes(0xa5, size);
                let grown = realloc(memory, layout, size * 3);
                assert!(!grown.is_null() && (0..size).all(|at| grown.add(at).read() == 0xa5));
                dealloc(grown, Layout::from_size_align(size * 3, align).expect("the layout is small"));
            }
        }
    }
}
