//! Instruction budgets of the fast paths for pages and objects, measured in this program and compared with golden
//! files.
//!
//! The function of a scene is single-stepped on a machine in a prepared state. The memory accesses of each instruction
//! follow from its registers. The counts contain no times and do not depend on addresses. Only an optimised build is
//! compared with the files.
//!
//! ```text
//! step      single-steps a function of this program
//! counts    counts the memory accesses of a trace
//! chain     finds the longest chain of dependent loads
//! samples   functions with known counts
//! machine   a page allocator with a reproducible layout
//! pages     scenes of the page allocator
//! objects   scenes of the slab allocator, for each fast path
//! functions scenes of the process's malloc
//! golden    tables and the golden files
//! ```
//!
//! `BLESS=1 cargo test --profile dist -p freehold-malloc --test budget` rewrites the files; review the difference
//! before it is committed.
//!
//! # Design
//!
//! Each fast path has a budget: instructions, locked instructions, loads, stores, cache lines touched, and the longest
//! chain of dependent loads.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../common/skip_message.rs"]
mod left_out;
#[path = "../common/machine.rs"]
mod processor;

mod chain;
mod counts;
mod functions;
mod golden;
mod machine;
mod objects;
mod pages;
mod samples;
mod step;

use std::path::Path;

use freehold::base::CpuId;
use freehold::policy::PcpPolicy::{Linux, Owned, OwnedRemote};
use freehold_malloc::os::rseq::Rseq;

use golden::Table;
use left_out::left_out;
use objects::Operation;

/// Folder of the golden files.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/budget");
/// First lines of both files.
const HEADER: &str = "\
# Counted on x86-64 for a separate function, including its calls and its return, with warm lists.
#   executed  instructions; a repeated instruction counts each time
#   locked    executed instructions with a lock prefix, or exchanges with memory
#   loads     loads of memory outside of the function's own frames, including locked ones
#   stores    stores to memory outside of the function's own frames, including locked ones
#   stack     loads and stores of its own frames: calls, returns, pushed and spilled registers
#   lines     lines of 64 bytes that are loaded or stored, without its own frames and the program's constants
#   chain     loads in the longest chain in which each address depends on an earlier load; branches are predicted, and
#             do not count. A part of a function has no chain.
# To write this file: BLESS=1 cargo test --profile dist -p freehold-malloc --test budget
";

#[test]
fn page_fast_paths_match_the_golden_budget() {
    let mut table =
        Table::new(&format!("# The page allocator's fast paths, under each policy of per-CPU lists.\n{HEADER}"));
    for (about, scenes) in pages::SCENES {
        table.begin(about);
        for (scene, &pcp) in scenes.iter().flat_map(|scene| scene.policies.iter().map(move |pcp| (scene, pcp))) {
            let counts = scene.counts(pcp);
            assert_eq!(counts, scene.counts(pcp), "{} under {pcp:?} repeats", scene.name);
            table.show(format_args!("{}, {pcp:?}", scene.name), &counts);
        }
    }
    for (scene, pcp) in [
        (pages::PAIR, Linux),
        (pages::PAIR, OwnedRemote),
        (pages::ELSEWHERE, Linux),
        (pages::ELSEWHERE, Owned),
        (pages::ELSEWHERE, OwnedRemote),
    ] {
        table.begin(&format!("{}, {pcp:?}: instructions by the memory that they access.", scene.name));
        scene.counts_by_place(pcp).iter().for_each(|(place, counts)| table.show(place, counts));
    }
    table.compare_or_bless(&Path::new(FOLDER).join("pages.golden"));
}

#[test]
fn object_fast_paths_match_the_golden_budget() {
    with_two_cpus(|rseq, cpus| {
        let title =
            "# Fast paths of objects with restartable sequences: C's malloc and free, of a size known at run time.";
        let mut table = Table::new(&format!("{title}\n{HEADER}"));
        for operation in Operation::ALL {
            table.begin(operation.title());
            for case in objects::cases() {
                let counts = case.counts(rseq, cpus, operation);
                assert_eq!(counts, case.counts(rseq, cpus, operation), "{operation:?}, {} repeats", case.name);
                table.show(case.name, &counts);
            }
        }
        table.compare_or_bless(&Path::new(FOLDER).join("objects.golden"));
    });
}

#[test]
fn functions_of_c_match_the_golden_budget() {
    with_two_cpus(|_, [home, _]| {
        processor::run_on(home);
        let title = "# The process's malloc: requests and frees of objects of 64 bytes.";
        let mut table = Table::new(&format!("{title}\n{HEADER}"));
        table.begin("Functions of C.");
        for (name, act) in functions::FUNCTIONS {
            table.show(name, &functions::counts(act));
        }
        table.compare_or_bless(&Path::new(FOLDER).join("functions.golden"));
    });
}

fn with_two_cpus(test: impl FnOnce(Rseq, [CpuId; 2])) {
    match (Rseq::find(), processor::cpus().as_slice()) {
        (Ok(rseq), &[home, away, ..]) => test(rseq, [home, away]),
        (Ok(_), _) => left_out("frees on another CPU, and the table with them: there is only one"),
        (Err(why), _) => left_out(why),
    }
}

fn count_scene(scene: &pages::Scene) -> Table {
    let mut table = Table::new(HEADER);
    table.show(scene.name, &scene.counts(Linux));
    table
}

#[test]
fn exceeded_budget_is_reported() {
    let (kept, exceeded) = (count_scene(&pages::PAIR), count_scene(&pages::PAIR_AND_LOOK));
    assert_eq!(kept.difference(&count_scene(&pages::PAIR)), "");
    let difference = exceeded.difference(&kept);
    assert_eq!(difference.lines().count(), 2, "exactly one line must be removed and one added:\n{difference}");
    assert!(pages::PAIR_AND_LOOK.counts(Linux).loads > pages::PAIR.counts(Linux).loads);
}
