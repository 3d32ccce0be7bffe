//! Answers as values: they equal the output of the program, and work can be cancelled before it is done.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::{Sandbox, text};
use clap::Parser;
use freehold_cli::{Cli, answer};
use freehold_report::formats::Views;
use freehold_report::observer::{Cancellation, Observer};
use freehold_report::origin;
use freehold_report::terminal::Style;

/// Returns the answer of `freehold` with these arguments.
pub(crate) fn answered(words: &[&str]) -> Box<dyn Views> {
    let cli = Cli::try_parse_from(["freehold"].iter().chain(words)).expect("the arguments must be valid");
    answer(cli.command.expect("the arguments must name a command")).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// Returns the path of a recording of this repository.
pub(crate) fn bundled(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings").join(name)
}

#[test]
fn library_answer_equals_the_program_output() {
    origin::built_from(freehold_cli::COMMIT);
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    for words in [
        vec!["inspect", &recording],
        vec!["inspect", &recording, "--all"],
        vec!["inspect", &recording, "--map"],
        vec!["replay", &recording, "--explain"],
        vec!["compare", &recording, "--all"],
        vec!["sim", "--list"],
        vec!["sim", "steady", "--quick", "--cpus", "1", "--vmstat"],
        vec!["age", "--age", "30"],
    ] {
        let given: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let answer = origin::asked_by(&given, || answered(&words));
        let json = [&words[..], &["--json", "-"]].concat();
        assert_eq!(String::from_utf8(answer.json()).unwrap(), text(&json), "{words:?}");
        assert_eq!(answer.text(Style::PLAIN), text(&words), "{words:?}");
        let page = [&words[..], &["--html", "-"]].concat();
        let wants_map = matches!(words[0], "inspect" | "replay" | "compare");
        if !wants_map {
            assert_eq!(origin::asked_by(&given, || answer.page()), text(&page), "{words:?}");
        }
    }
}

/// Cancels the work as soon as it reports progress.
fn ended(words: &[&str]) -> Result<(), Cancellation> {
    let observer = Arc::new(Observer::default());
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let observer = &observer;
        scope.spawn(move || {
            while is_done.recv_timeout(Duration::from_millis(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
                if observer.stages().iter().any(|stage| stage.done > 0) {
                    return observer.stop();
                }
            }
        });
        let worked = observer.watch(|| answered(words));
        drop(done);
        worked.map(|_| ())
    })
}

#[test]
fn cancelled_work_stops_and_leaves_no_files() {
    let pressure = bundled("pressure.parquet");
    let pressure = pressure.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept.jsonl");
    let kept = kept.to_str().unwrap();
    // These use replays with a stack per waiting task, simulated CPUs with a stack each, jobs on all threads, and
    // files.
    for words in [
        vec!["replay", pressure],
        vec!["compare", pressure, "--b", "linux-6.12"],
        vec!["advise", pressure],
        vec!["inspect", pressure],
        vec!["sim", "purge", "--cpus", "64"],
        vec!["sim", "webhost", "--memory", "1GiB", "--seeds", "4"],
        vec!["fleet", "webhost", "--hosts", "8", "--memory", "1GiB", "--resume", kept],
    ] {
        assert_eq!(ended(&words), Err(Cancellation), "{words:?}");
    }
    let left: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["kept.jsonl"], "only the completed work of the fleet may be left");
    // The threads and stacks can be used again.
    assert!(!answered(&["replay", pressure]).json().is_empty());
}
