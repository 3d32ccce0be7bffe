//! Tests of Freehold as this program's global allocator, which also serves the test runner. They run with restartable
//! sequences, without them, and in a small address space.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeMap;
use std::process::Command;
use std::thread;

use fastrand::Rng;
use freehold_malloc::Freehold;

#[global_allocator]
static GLOBAL: Freehold = Freehold::new();

/// Returns layouts with sizes around those of size classes, pages and mappings, and with alignments up to 8 MiB.
fn layouts() -> impl Iterator<Item = Layout> {
    let sizes = (0..24).flat_map(|exponent| [(1_usize << exponent) - 1, 1 << exponent, (1 << exponent) + 1]);
    sizes.filter(|&size| size > 0).flat_map(|size| {
        let aligns = [1, 8, 16, 32, 64, 4096, 8192, 65_536, 1 << 21, 1 << 23];
        aligns.into_iter().map(move |align| Layout::from_size_align(size, align).expect("small enough"))
    })
}

#[test]
fn every_layout_is_served() {
    for layout in layouts() {
        // SAFETY: the layouts have nonzero sizes; each block is written within its size, and freed once with its
        // layout.
        unsafe {
            let object = GLOBAL.alloc(layout);
            assert!(!object.is_null() && object.addr().is_multiple_of(layout.align()), "{layout:?}: {object:p}");
            object.write_bytes(0xa5, layout.size());
            GLOBAL.dealloc(object, layout);
            let zeroed = GLOBAL.alloc_zeroed(layout);
            let bytes = std::slice::from_raw_parts(zeroed, layout.size());
            assert!(bytes.iter().all(|&byte| byte == 0), "{layout:?}: zeroed memory contains old bytes");
            GLOBAL.dealloc(zeroed, layout);
        }
    }
}

#[test]
fn resized_vectors_keep_their_bytes() {
    let mut chance = Rng::with_seed(1);
    let mut bytes: Vec<u8> = Vec::new();
    for round in 0..400 {
        let exponent = chance.u32(0..25);
        let length = chance.usize(1..=1 << exponent);
        let kept = bytes.len().min(length);
        bytes.resize(length, round as u8);
        bytes.shrink_to_fit();
        assert!(bytes[kept..].iter().all(|&byte| byte == round as u8), "round {round}");
        bytes.fill(round as u8 ^ 0xff);
        bytes.reserve(length / 2);
        assert!(bytes.iter().all(|&byte| byte == round as u8 ^ 0xff), "round {round}: {length} bytes moved");
    }
}

#[test]
fn short_lived_threads_share_the_allocator() {
    for wave in 0..20 {
        let threads: Vec<_> = (0..16)
            .map(|number| {
                thread::spawn(move || {
                    let mut chance = Rng::with_seed(wave * 16 + number);
                    let mut map = BTreeMap::new();
                    for _ in 0..2000 {
                        let key = chance.u16(..500);
                        map.insert(key, key.to_string().repeat(usize::from(key % 90)));
                    }
                    map
                })
            })
            .collect();
        for thread in threads {
            // Memory that one thread allocated is freed by another.
            let map = thread.join().expect("the thread must not panic");
            assert!(map.iter().all(|(key, text)| text.len() == key.to_string().len() * usize::from(key % 90)));
        }
    }
}

#[test]
fn impossible_reservations_fail() {
    assert!(Vec::<u8>::new().try_reserve_exact(isize::MAX as usize).is_err());
    assert!(Vec::<u8>::new().try_reserve_exact(1 << 46).is_err());
}

/// Runs this program's other tests again under a command that changes its environment.
fn again(command: &mut Command) {
    let this = std::env::current_exe().expect("it runs");
    let output = command.arg(this).args(["--skip", "rerun_"]).output().expect("the program must run");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("4 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn rerun_without_restartable_sequences_passes() {
    again(Command::new("env").arg("GLIBC_TUNABLES=glibc.pthread.rseq=0"));
}

#[test]
fn rerun_in_a_small_address_space_passes() {
    again(Command::new("sh").args(["-c", "ulimit -v 3000000; exec \"$0\" \"$@\""]));
}

#[test]
fn rerun_with_an_invalid_free_ends_with_a_report() {
    if std::env::var_os("FREEHOLD_TEST_FREE").is_some() {
        let object = Box::into_raw(Box::new([0_u64; 4]));
        // SAFETY: the address is inside an object, so the heap refuses it and terminates the program before anything
        // changes.
        unsafe { GLOBAL.dealloc(object.cast::<u8>().wrapping_add(8), Layout::new::<[u64; 4]>()) };
        return;
    }
    let this = std::env::current_exe().expect("it runs");
    let mut command = Command::new(this);
    let output = command
        .args(["--exact", "rerun_with_an_invalid_free_ends_with_a_report", "--nocapture"])
        .env("FREEHOLD_TEST_FREE", "1")
        .output()
        .expect("the program must run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no object begins at"), "{said}");
}
