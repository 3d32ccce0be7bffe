//! Tests of the advice document: its sentences, their order, and the commands to apply and undo a change.

use freehold_report::terminal::Style;
use freehold_trace::facts::{Sample, ZoneFacts};

use super::*;
use crate::advice::candidates;
use crate::report::course::Course;
use crate::report::fidelity::{FidelityMeasure, FidelityRow};
use crate::report::metrics::{Metric, Metrics};

fn machine() -> Facts {
    let zone = ZoneFacts { managed: 1 << 20, ..ZoneFacts::default() };
    let mut facts = Facts { page_size: 4096, zones_start: vec![zone], ..Facts::default() };
    let set = [("vm.watermark_boost_factor", "15000"), ("transparent_hugepage.defrag", "always [madvise] never")];
    facts.settings.extend(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
    facts
}

/// Returns that machine after 1000 direct reclaims.
fn under_pressure() -> Facts {
    let samples = [0, 1000].map(|stalls| Sample { vmstat: vec![stalls], ..Sample::default() });
    Facts { vmstat_names: vec!["allocstall_normal".to_owned()], samples: samples.to_vec(), ..machine() }
}

fn outcome(stalls: u64) -> ReplayOutcome {
    ReplayOutcome {
        policy: "linux-6.12".to_owned(),
        metrics: Metrics::new().with_count(Metric::AllocStalls, stalls),
        nudged: Vec::new(),
        fidelity: vec![FidelityRow::new(FidelityMeasure::AllocStalls, 1000.0, 1000.0, None)],
        unreplayed: Vec::new(),
        assumptions: vec!["Under x=1 it is so.".to_owned(), "Every movable block can be moved.".to_owned()],
        course: Course::default(),
    }
}

/// Returns the advice on recordings with 1000 direct reclaims. `stay` gives the number that remains under some
/// candidates.
fn advice(stay: &[(&str, u64)], recordings: usize) -> AdviceReport {
    let candidates = candidates(&machine());
    let stalls = |candidate: &Candidate| {
        let named = stay.iter().find(|(setting, _)| *setting == candidate.setting.to_string());
        outcome(named.map_or(1000, |(_, stalls)| *stalls))
    };
    let facts = |number| RecordingFacts {
        file: format!("{number}.parquet"),
        kernel_release: "6.12.1".to_owned(),
        cpus: 2,
        replay_cpus: 2,
        duration_seconds: 1.0,
        rows: 10_000,
        guesses: Vec::new(),
    };
    let subject = |number| Subject {
        facts: facts(number),
        machine: Arc::new(under_pressure()),
        requests: 5000,
        now: outcome(1000),
        nudged: Vec::new(),
        tried: candidates.iter().map(stalls).collect(),
    };
    let subjects: Vec<Subject> = (0..recordings).map(subject).collect();
    AdviceReport::new(&subjects, &candidates, &machine(), 0.02, Extent::Settings)
}

/// Replaces all white space, including line breaks, by single spaces.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn advice_lists_the_best_setting_first_with_apply_and_undo() {
    let report = advice(&[("vm.watermark_boost_factor=0", 700), ("transparent_hugepage.defrag=defer", 100)], 1);
    let order: Vec<&str> = report.proposed().map(|(setting, _)| setting.name).collect();
    assert_eq!(order, ["transparent_hugepage.defrag", "vm.watermark_boost_factor"]);
    let text = report.text(Style::PLAIN);
    for part in [
        "worth testing: transparent_hugepage.defrag=defer, vm.watermark_boost_factor=0.",
        "direct reclaims -90.0 %",
        "measure before and after grep allocstall /proc/vmstat",
        "apply echo defer > /sys/kernel/mm/transparent_hugepage/defrag apply sysctl -w vm.watermark_boost_factor=0",
        "undo echo madvise > /sys/kernel/mm/transparent_hugepage/defrag",
        "undo sysctl -w vm.watermark_boost_factor=15000",
        "vm.min_free_kbytes - leave it - not recorded",
    ] {
        let [text, part] = [&text, part].map(unwrapped);
        assert!(text.contains(&part), "no {part:?} in\n{text}");
    }
    assert_eq!(report.assumptions, ["Every movable block can be moved."]);
}

#[test]
fn several_recordings_have_an_interval() {
    let text = advice(&[("vm.watermark_boost_factor=0", 700)], 3).text(Style::PLAIN);
    let text = unwrapped(&text);
    assert!(text.contains("direct reclaims -30.0 % (-30.0 % to -30.0 %)"), "{text}");
    assert!(text.contains("worth testing: vm.watermark_boost_factor=0."), "{text}");
}

#[test]
fn no_gain_proposes_no_setting() {
    let report = advice(&[("vm.watermark_boost_factor=0", 1500)], 1);
    let text = report.text(Style::PLAIN);
    assert!(text.contains("leave all settings: no gain") && !text.contains("apply"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert!(json["settings"].as_array().unwrap().iter().all(|setting| setting["apply"].is_null()));
}
