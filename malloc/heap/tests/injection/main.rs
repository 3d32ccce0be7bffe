//! Injection tests: no event between two instructions of a section may lose an object, or cause an object to be handed
//! out twice.
//!
//! A random stress test almost never hits a window of one instruction. These tests therefore set a breakpoint at each
//! instruction of a function that performs one operation, one breakpoint at a time. When the thread reaches the
//! breakpoint, the kernel delivers a signal, and so restarts the section if the thread was in one. The signal's handler
//! then causes an interference: the thread migrates to another CPU, the handler itself allocates or frees, or another
//! CPU drains the list or takes a slab away. Afterwards the operation continues, and at its end all objects are
//! counted.
//!
//! Some interferences from another CPU must not restart the section. For these the handler sends the thread back to its
//! instruction with the descriptor stored again, and the other CPU completes its part after the operation.
//!
//! ```text
//! code       finds the instructions of a function
//! trap       breakpoints and the handler
//! helper     a thread on the other CPU
//! stage      a small world, with the location of each object
//! between    the interferences
//! probes     the functions under test, and their scenes
//! whole      the same tests with the whole engine
//! budget     counts the instructions that are executed without interference
//! cases      combinations: each instruction with each interference, once, twice, and two at two instructions
//! ```

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/fault_injection.rs"]
mod fault_injection;

mod between;
mod budget;
mod cases;
mod code;
mod defective;
mod helper;
mod probes;
mod stage;
mod trap;
mod whole;

use std::sync::{Mutex, PoisonError};

use freehold_malloc::os::rseq::Rseq;
use freehold_malloc::os::rseq::arch::planted::{LateEnd, Missing, Planted, ShortEnd, StaleCpu, UnarmedRetry};

use between::{Between, Fence, Look};
use cases::{Report, Setting};
use common::skip_message::left_out;
use probes::{Scene, Sound};

/// Serialises the tests, because interruptions affect the whole process.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a test alone, if restartable sequences are available.
fn with_setting(test: impl FnOnce(&Setting)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match Rseq::find() {
        Ok(rseq) => Setting::with(rseq, test),
        Err(why) => left_out(why),
    }
}

#[test]
#[ignore = "fails where there is nothing to interrupt, as all else here then passes; `cargo xtask ci --only soak` asks it first"]
fn restartable_sections_are_available() {
    let mut is_something = false;
    with_setting(|_| is_something = true);
    assert!(is_something, "restartable sections are not available, so no test of this harness was run");
}

#[test]
fn interference_at_every_instruction_once_and_twice() {
    with_setting(|setting| {
        let mut report = Report::default();
        for scene in Scene::ALL {
            scene.run::<Sound>(|stage| cases::once_and_twice(setting, stage, &mut report));
        }
        println!("{report}");
        assert_eq!(report.violations, Vec::<String>::new());
        assert!(report.cases >= 800, "{report}");
        assert!(report.restarts > report.cases / 2, "the kernel must restart more than half of the sections: {report}");
    });
}

#[test]
#[ignore = "takes minutes where nothing is optimised; `cargo xtask ci --only soak` runs it"]
fn interference_at_any_two_instructions() {
    with_setting(|setting| {
        let mut report = Report::default();
        for scene in Scene::CORE.into_iter().chain(Scene::SHEAVES) {
            scene.run::<Sound>(|stage| cases::two_places(setting, stage, &mut report));
        }
        println!("{report}");
        assert_eq!(report.violations, Vec::<String>::new());
        assert!(report.cases >= 800, "{report}");
    });
}

#[test]
#[ignore = "takes a minute where nothing is optimised; `cargo xtask ci --only soak` runs it"]
fn interference_in_the_whole_engine() {
    with_setting(|setting| {
        let mut report = Report::default();
        whole::every_way(setting, &mut report);
        println!("{report}");
        assert_eq!(report.violations, Vec::<String>::new());
        assert!(report.cases >= 800, "{report}");
    });
}

#[test]
fn missing_sections_in_the_whole_engine_are_detected() {
    with_setting(|setting| {
        let mut report = Report::default();
        whole::with_defect::<Missing>(setting, &mut report);
        println!("{report}");
        assert!(!report.violations.is_empty(), "sections that are missing are not caught");
    });
}

#[test]
fn fast_paths_keep_their_budget() {
    with_setting(budget::check);
}

/// Runs all cases on sections with a defect, and returns the first violation.
fn catch<D: Planted + 'static>(setting: &Setting, scenes: &[Scene]) -> Option<String> {
    let mut report = Report::default();
    for &scene in scenes {
        scene.run::<D>(|stage| {
            cases::once_and_twice(setting, stage, &mut report);
            cases::two_places(setting, stage, &mut report);
        });
    }
    println!("{}: {report}", D::DEFECT);
    report.violations.into_iter().next()
}

fn is_caught<D: Planted + 'static>() {
    for scenes in [Scene::CORE.as_slice(), &Scene::SHEAVES] {
        with_setting(|setting| match catch::<D>(setting, scenes) {
            Some(violation) => println!("caught: {violation}"),
            None if setting.has_two_cpus() || D::DEFECT != StaleCpu::DEFECT => panic!("{} is not caught", D::DEFECT),
            None => left_out("a stale CPU does no harm where there is only one"),
        });
    }
}

#[test]
fn missing_sections_are_detected() {
    is_caught::<Missing>();
}

#[test]
fn stale_cpu_is_detected() {
    is_caught::<StaleCpu>();
}

#[test]
fn late_section_end_is_detected() {
    is_caught::<LateEnd>();
}

#[test]
fn unarmed_retry_is_detected() {
    is_caught::<UnarmedRetry>();
}

#[test]
fn short_section_is_detected() {
    is_caught::<ShortEnd>();
}

/// Tests a defect on the other side of the protocol: the sections are sound, but the drain that takes from them is not.
fn other_side_is_caught(between: &[Between], scenes: &[Scene]) {
    with_setting(|setting| {
        let mut report = Report::default();
        for scene in scenes {
            scene.run::<Sound>(|stage| cases::once_with(setting, stage, between, &mut report));
        }
        println!("{report}");
        assert!(!report.violations.is_empty(), "{between:?} is not caught");
    });
}

#[test]
fn drain_without_a_second_check_is_detected() {
    for scenes in [Scene::CORE.as_slice(), &Scene::SHEAVES] {
        other_side_is_caught(&[Between::DrainBegun(Look::Once)], scenes);
    }
}

#[test]
fn takeover_without_a_fence_is_detected() {
    other_side_is_caught(&[Between::DisownBegun(Fence::Forgotten)], &Scene::CORE);
}
