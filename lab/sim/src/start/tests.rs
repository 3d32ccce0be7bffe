//! Tests of starts: drawing the requested figures, writing and reading a start, and restoring it without lost pages.

use freehold::Policy;
use freehold::base::MigrateType;

use super::*;
use crate::costs::Costs;
use crate::machine::Machine;
use crate::run::{Setup, simulate};
use crate::window::Window;
use crate::workload::Workload;
use crate::workload::webhost::Webhost;

/// 64 MiB.
const MACHINE: Machine = Machine { pages: 1 << 14, nodes: 1 };
const PAGEBLOCKS: u64 = 32;

fn run_of(what: Use, order: u8, blocks: u16) -> Run {
    Run { what, order, blocks }
}

fn aged(age: u8, seed: u64) -> Start {
    draw_start(&age::layout(age, PAGEBLOCKS), seed)
}

#[test]
fn drawn_start_has_the_requested_figures() {
    for age in 0..=age::AGE_MAX {
        let wanted = age::figures(age, 4096);
        let found = Figures::from_start(&draw_start(&Layout::from_figures(&wanted), age.into()));
        let [found_fixed, wanted_fixed] =
            [found, wanted].map(|figures| Figures { file: 0, active: 0, task: 0, ..figures });
        assert_eq!(found_fixed, wanted_fixed, "{age}");
        let movable = (wanted.file + wanted.task).max(1);
        assert_eq!(found.file + found.task, wanted.file + wanted.task);
        assert!(
            found.file.abs_diff(wanted.file) * 50 < movable,
            "{age}: chance decides which movable page is a file's"
        );
    }
}

#[test]
fn start_depends_only_on_the_seed() {
    assert_eq!(aged(60, 7), aged(60, 7));
    assert_ne!(aged(60, 7), aged(60, 8));
}

#[test]
fn start_file_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("aged.parquet");
    let mut mixed = Start::default();
    for _ in 0..PAGEBLOCKS {
        mixed.push(
            MigrateType::Reclaimable,
            [run_of(Use::Fixed, 0, 100), run_of(Use::Reclaimable, 2, 100), run_of(Use::Free, 0, 12)],
        );
    }
    for start in [0, 30, 60, 90, 100].map(|age| aged(age, 1)).into_iter().chain([mixed]) {
        write(&start, &MACHINE, 2, &path).unwrap();
        let again = read(&path).unwrap();
        assert_eq!(Layout::from_start(&again), Layout::from_start(&start));
    }
}

#[test]
fn aged_start_loses_no_page() {
    [10, 60, 100].into_iter().for_each(|age| expect_nothing_lost(&aged(age, 1)));
}

#[test]
fn tasks_and_files_may_have_blocks_of_any_order() {
    let mut start = Start::default();
    for _ in 0..PAGEBLOCKS - 2 {
        start.push(
            MigrateType::Movable,
            [run_of(Use::Task, 2, 64), run_of(Use::Inactive, 4, 8), run_of(Use::Active, 3, 16)],
        );
    }
    expect_nothing_lost(&start);
}

/// Runs a host on this start, under two policies. Tasks end during the run, so that inherited memory is freed.
fn expect_nothing_lost(start: &Start) {
    let (costs, window) = (Costs::reference(), Window::after_ms(1, 3));
    let workload = Workload::Webhost(Box::new(Webhost { turnover_s: 1, anon_percent: 10, ..Webhost::default() }));
    for policy in [Policy::LINUX_6_12, Policy::default()] {
        let setup = Setup {
            workload: &workload,
            machine: &MACHINE,
            start: Some(start),
            cpus: 2,
            policy,
            seed: 1,
            costs: &costs,
            window,
        };
        // In debug builds the run itself counts lost pages.
        simulate(&setup).expect("nothing is lost");
    }
}

#[test]
fn larger_machine_repeats_its_start() {
    let start = aged(60, 1);
    let twice = start.repeated_to(64);
    assert_eq!(twice.pageblock(40), start.pageblock(8));
    assert_eq!(Figures::from_start(&twice), Figures::from_start(&start).scaled_to(64));
}

#[test]
#[should_panic(expected = "add up to all of its pages")]
fn incomplete_pageblock_panics() {
    Start::default().push(MigrateType::Movable, [Run { what: Use::Free, order: 0, blocks: 511 }]);
}

#[test]
fn joined_start_has_the_same_figures_in_fewer_runs() {
    let drawn = aged(60, 3);
    let joined = drawn.joined();
    assert_eq!(Figures::from_start(&joined), Figures::from_start(&drawn));
    assert!(joined.pageblocks().all(|pageblock| pageblock.runs.len() <= 7));
    let runs = |start: &Start| start.pageblocks().map(|pageblock| pageblock.runs.len()).sum::<usize>();
    assert!(runs(&joined) * 4 < runs(&drawn));
}
