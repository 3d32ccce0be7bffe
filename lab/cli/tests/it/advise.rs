//! `freehold advise`: its output for a bundled recording, its JSON, and its refusals.

use crate::common::{Sandbox, assert_refused, facts, freehold, json, rows, text, write};
use freehold_trace::Facts;
use freehold_trace::event::Section;

const SETTINGS: [&str; 8] = [
    "vm.min_free_kbytes",
    "vm.watermark_scale_factor",
    "vm.percpu_pagelist_high_fraction",
    "vm.watermark_boost_factor",
    "vm.compaction_proactiveness",
    "vm.extfrag_threshold",
    "vm.defrag_mode",
    "transparent_hugepage.defrag",
];

fn bundled(name: &str) -> String {
    format!("{}/../../recordings/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns the facts of the small recording with settings of the machine.
fn set() -> Facts {
    let mut facts = facts();
    facts.settings.extend(
        [("vm.min_free_kbytes", "512"), ("vm.watermark_scale_factor", "10")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    facts
}

#[test]
fn calm_machine_gets_no_advice() {
    let said = text(&["advise", &bundled("oracle-calm.parquet")]);
    for part in ["leave all settings: no gain", "Memory was never short", "vm.watermark_boost_factor", "too few events"]
    {
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
    assert!(!said.contains("sysctl -w vm"), "no setting may be recommended:\n{said}");
}

#[test]
fn advise_json_has_the_documented_members() {
    let found = json(&["advise", &bundled("oracle-calm.parquet"), "--all", "--json", "-"]);
    for member in ["recordings", "policy", "margin", "settings", "not_judged", "caveats", "assumptions"] {
        assert!(found.get(member).is_some(), "no {member}");
    }
    assert_eq!((&found["policy"], &found["margin"]), (&"linux-6.12".into(), &0.02.into()));
    let settings = found["settings"].as_array().unwrap();
    assert!(SETTINGS.iter().all(|name| settings.iter().any(|setting| setting["name"] == *name)), "{settings:?}");
    for setting in settings {
        for member in ["now", "proposed", "reason", "track_record", "apply", "undo", "candidates"] {
            assert!(setting.get(member).is_some(), "no {member} in {setting}");
        }
        assert_ne!(setting["proposed"].is_null(), setting["reason"].is_null(), "{setting}");
        for candidate in setting["candidates"].as_array().unwrap() {
            assert_ne!(candidate["value"], setting["now"]);
            assert_eq!(candidate["effects"][5]["name"], "zone_lock_acquisitions");
            for member in ["now", "then", "change", "interval", "recordings", "verdict"] {
                assert!(candidate["effects"][0].get(member).is_some(), "no {member} in {candidate}");
            }
            assert!(candidate["memory"]["kept_free_bytes"].is_i64(), "{candidate}");
        }
    }
    assert!(settings.iter().any(|setting| setting["track_record"]["pairs"].as_u64() > Some(0)));
}

#[test]
fn all_option_shows_every_candidate() {
    let recording = bundled("oracle-calm.parquet");
    let few = text(&["advise", &recording]);
    let all = text(&["advise", &recording, "--all"]);
    for part in ["All tried values", "Assumptions"] {
        assert!(all.contains(part) && !few.contains(part), "{part:?} in\n{all}");
    }
}

#[test]
fn recordings_of_a_machine_are_judged_together() {
    let sandbox = Sandbox::new();
    let recordings = ["a.parquet", "b.parquet", "c.parquet"].map(|name| {
        std::fs::copy(bundled("oracle-calm.parquet"), sandbox.path(name)).unwrap();
        sandbox.argument(name)
    });
    let [a, b, c] = &recordings;
    let found = json(&["advise", a, b, c, "--all", "--json", "-"]);
    assert_eq!(found["recordings"].as_array().unwrap().len(), 3);
    let locks = &found["settings"][0]["candidates"][0]["effects"][5];
    assert_eq!((&locks["recordings"], locks["interval"].is_array()), (&3.into(), true), "{locks}");
}

#[test]
fn unsuitable_recordings_are_refused() {
    let sandbox = Sandbox::new();
    let good = sandbox.recording_with("good.parquet", &set());
    assert_refused(&freehold(&["advise", &sandbox.recording("unset.parquet")]), "has no recorded value of any setting");
    let torn = sandbox.recording_with("torn.parquet", &Facts { lost: 1000, ..set() });
    assert_refused(&freehold(&["advise", &good, &torn]), "the kernel dropped 20.0 % of the events");
    let other = sandbox.recording_with("other.parquet", &Facts { kernel_release: "6.18.1".to_owned(), ..set() });
    assert_refused(&freehold(&["advise", &good, &other]), "on machines that differ in kernel");
    let events: Vec<_> = rows().into_iter().filter(|row| row.kind.section() != Section::Start).collect();
    write(&sandbox.path("headless.parquet"), &events, &set());
    assert_refused(&freehold(&["advise", &sandbox.argument("headless.parquet")]), "there is no start state");
    assert_refused(&freehold(&["advise", &good]), "is too large in every measure of advice");
    assert_refused(&freehold(&["advise", &good, &good]), "given twice");
    assert_refused(&freehold(&["advise", &good, "--margin", "200"]), "the margin cannot be 200");
}
