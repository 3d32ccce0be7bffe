//! Ten thousand tasks in one sweep. It takes minutes, so it runs nightly.

use std::fs;

use crate::common::{Sandbox, facts, json};
use freehold_trace::Facts;

/// Number of recordings.
const RECORDINGS: u64 = 1000;
const TASKS: u64 = 10;

#[test]
#[ignore = "takes minutes: cargo xtask nightly --only sweep"]
fn sweep_of_ten_thousand_tasks_completes() {
    let sandbox = Sandbox::new();
    let plan = sandbox.argument("plan.toml");
    let cpus =
        "title = 'x'\nkind = 'replay'\na = 'linux-6.12'\nb = ['freehold']\n[axes]\ncpus = ['recorded', 1, 2, 4, 8]\n";
    fs::write(&plan, cpus).unwrap();
    fs::create_dir(sandbox.path("recordings")).unwrap();
    for number in 0..RECORDINGS {
        let differing = Facts { writer: format!("test {number}"), ..facts() };
        sandbox.recording_with(&format!("recordings/{number}.parquet"), &differing);
    }
    let (recordings, into) = (sandbox.argument("recordings"), sandbox.argument("a"));
    let document = json(&["sweep", &plan, &recordings, "--into", &into, "--json", "-"]);
    assert_eq!(document["tasks"].as_u64(), Some(RECORDINGS * TASKS));
    // A second run has nothing to do, and yields the same verdict.
    assert_eq!(json(&["sweep", &plan, &recordings, "--into", &into, "--json", "-"]), document);
    let pooled = &document["verdicts"][0]["groups"][0]["measures"][0]["pooled"];
    assert!(pooled["cases"].as_u64().is_some(), "{pooled}");
}
