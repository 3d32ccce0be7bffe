//! Test of a recorder that is killed. It is a separate program, because its ftrace instance remains visible to all
//! until the next recorder removes it.

#[path = "it/common/mod.rs"]
mod common;

use common::recorder::{Recorder, can_record};
use common::{Sandbox, freehold, stderr};
use rustix::process::Signal;

#[test]
fn next_recorder_removes_leftovers_of_a_killed_recorder() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.argument("r.parquet");
    let mut recorder = Recorder::start(&["record", "--out", &file]);
    recorder.signal(Signal::KILL);
    recorder.child.wait().unwrap();
    assert!(sandbox.listing().is_empty(), "{:?}", sandbox.listing());
    assert!(recorder.instance.is_dir(), "a killed recorder leaves its instance");
    let output = freehold(&["record", "--duration", "0.01", "--out", &file]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!recorder.instance.exists());
}
