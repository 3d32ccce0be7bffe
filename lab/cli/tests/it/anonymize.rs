//! Recordings without names: `freehold export --anonymize`, and `--anonymize` of the commands that record.
//!
//! The last tests record this machine, which needs root and tracefs. Where these are missing, they print a message and
//! pass.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use freehold_trace::facts::{CacheFacts, HeapFacts, StackCount, StackFacts, Task};
use freehold_trace::{Facts, Reader};
use serde_json::Value;

use crate::common::recorder::can_record;
use crate::common::{Sandbox, assert_refused, facts, freehold, json, stderr, text};

/// Names of tasks that every machine has, and that a copy keeps.
const KEPT: [&str; 9] =
    ["", "freehold", "kcompactd0", "khugepaged", "ksoftirqd", "kswapd0", "kworker", "other", "swapper"];

/// Length from which a name cannot be in compressed data by chance.
const LENGTH_MIN: usize = 6;

/// Returns the path of a bundled recording.
fn bundled(name: &str) -> String {
    format!("{}/../../recordings/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn facts_of(path: &str) -> Facts {
    Reader::open(path).expect("the recording can be read").facts().clone()
}

/// Asserts that the file at `path` contains none of these names: longer ones in none of its bytes, and all of them in
/// no text of its facts.
fn assert_names_absent<'n>(path: &str, names: impl IntoIterator<Item = &'n str>) {
    let bytes = fs::read(path).unwrap();
    let bytes = String::from_utf8_lossy(&bytes);
    let facts = serde_json::to_string(&facts_of(path)).unwrap();
    for name in names {
        assert!(name.len() < LENGTH_MIN || !bytes.contains(name), "{name:?} is in the bytes of {path}");
        assert!(!facts.contains(&format!("{name:?}")), "{name:?} is in the facts of {path}");
    }
}

/// Returns the JSON output of a command on a recording, with the task names of `facts` replaced by indices, and
/// without the recording's path and kernel release.
fn neutral_json(arguments: &[&str], facts: &Facts) -> Value {
    let names: BTreeMap<_, _> = facts.tasks.iter().map(|task| task.name.as_str()).rev().zip(0..).collect();
    let mut report = json(arguments);
    neutralize(&mut report, &names);
    report
}

fn neutralize(value: &mut Value, names: &BTreeMap<&str, usize>) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| neutralize(value, names)),
        Value::Object(members) => {
            members.retain(|key, value| match key.as_str() {
                "file" | "kernel_release" => false,
                // In a comparison, this is a path.
                "recording" => !value.is_string(),
                _ => true,
            });
            for (key, value) in members {
                let number = value.as_str().filter(|_| key == "task").and_then(|name| names.get(name));
                match number {
                    Some(number) => *value = (*number).into(),
                    None => neutralize(value, names),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn anonymized_copy_gives_the_same_results() {
    let sandbox = Sandbox::new();
    for name in ["guest-build.parquet", "oracle-pressure.parquet"] {
        let (original, copy) = (bundled(name), sandbox.argument(name));
        let shown = text(&["export", &original, "--anonymize", &copy]);
        assert!(shown.starts_with(&format!("{copy}: ")) && shown.lines().count() == 1, "{shown}");
        let (before, after) = (facts_of(&original), facts_of(&copy));
        assert_eq!(before.format, after.format, "the format determines the meaning of the facts");
        let rows = [&original, &copy].map(|path| Reader::open(path).unwrap());
        assert!(rows[0].rows().map(Result::unwrap).eq(rows[1].rows().map(Result::unwrap)), "{name}: rows differ");
        for options in [&["replay", "--json", "-"][..], &["compare", "--b", "linux-6.12,pcp=merge", "--json", "-"]] {
            let [of_original, of_copy] = [(&original, &before), (&copy, &after)].map(|(path, facts)| {
                let arguments = [&options[..1], &[path.as_str()], &options[1..]].concat();
                neutral_json(&arguments, facts)
            });
            assert!(of_original == of_copy, "{name}: the JSON of {options:?} differs");
        }
    }
}

#[test]
fn no_task_name_of_a_bundled_recording_is_in_its_copy() {
    let sandbox = Sandbox::new();
    for name in ["build.parquet", "pressure.parquet"] {
        let (original, copy) = (bundled(name), sandbox.argument(name));
        text(&["export", &original, "--anonymize", &copy]);
        let facts = facts_of(&original);
        let secret: Vec<&str> =
            facts.tasks.iter().map(|task| task.name.as_str()).filter(|name| !KEPT.contains(name)).collect();
        assert!(secret.len() > 3, "{name}: {secret:?}");
        assert_names_absent(&copy, secret.into_iter().chain(facts.command.as_deref()).chain(["fc-v669"]));
        let ids = facts_of(&copy).tasks.iter().map(|task| task.pid).max();
        assert!(ids.is_some_and(|id| id as usize <= facts.tasks.len()), "{name}: thread ids up to {ids:?}");
    }
}

/// Returns facts with a name in every place that can have one.
fn facts_with_names() -> Facts {
    let task = |pid, name: &str| Task { pid, name: name.to_owned() };
    let cache = |name: &str| CacheFacts { name: name.to_owned(), ..CacheFacts::default() };
    let symbols = ["secretfs_read [secretfs]", "secret_alloc"].map(str::to_owned).to_vec();
    let stack = StackCount { frames: vec![0, 1], task: 1, order: 0, samples: 2 };
    Facts {
        writer: "secret-recorder 1".to_owned(),
        kernel_release: "6.12.1-secret-vendor".to_owned(),
        command: Some("secret-program".to_owned()),
        tasks: vec![task(0, ""), task(4321, "secret-task"), task(99, "kworker/0:1-secret-device")],
        caches_start: vec![cache("secret_cache"), cache("dentry")],
        caches_end: vec![cache("secret_cache"), cache("secret_cache_2")],
        heaps: vec![HeapFacts { pid: 4321, name: "secret-task".to_owned(), ..HeapFacts::default() }],
        stacks: Some(StackFacts { period: 256, symbols, stacks: vec![stack] }),
        notes: vec!["recorded on secret-host".to_owned(), "end state: scanned in 1 ms".to_owned()],
        guesses: vec!["Only secret-task was traced.".to_owned()],
        ..facts()
    }
}

#[test]
fn no_name_of_any_kind_is_in_a_copy() {
    let sandbox = Sandbox::new();
    let original = sandbox.recording_with("r.parquet", &facts_with_names());
    assert!(fs::read(&original).unwrap().windows(6).any(|part| part == b"secret"), "the original has names");
    let copy = sandbox.argument("copy.parquet");
    text(&["export", &original, "--anonymize", &copy]);
    assert_names_absent(&copy, ["secret", "secretfs", "vendor"]);
    let facts = facts_of(&copy);
    assert_eq!((facts.tasks[1].pid, &facts.heaps[0].name), (facts.heaps[0].pid, &facts.tasks[1].name));
    assert_eq!(facts.notes.len(), 2, "{:?}", facts.notes);
    let mode = fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = sandbox.argument("again.parquet");
    text(&["export", &copy, "--anonymize", &again]);
    assert_eq!(fs::read(&copy).unwrap(), fs::read(&again).unwrap(), "a copy of a copy is equal");
}

#[test]
fn snapshot_can_be_anonymized() {
    let sandbox = Sandbox::new();
    let (original, copy) = (bundled("host-build.parquet"), sandbox.argument("s.parquet"));
    text(&["export", &original, "--anonymize", &copy]);
    let facts = facts_of(&copy);
    assert!(facts.is_snapshot());
    assert_names_absent(&copy, ["xfs_inode", "btrfs_inode", "kvm_vcpu", "nf_conntrack", "ext4_inode_cache"]);
    let names: Vec<_> = facts.caches_start.iter().map(|cache| cache.name.as_str()).collect();
    assert!(names.contains(&"dentry") && names.contains(&"kmalloc-64") && names.contains(&"cache-1"), "{names:?}");
    assert!(text(&["inspect", &copy]).contains("a snapshot"));
}

fn assert_export_refused(arguments: &[&str], part: &str) {
    assert_refused(&freehold(&[&["export"], arguments].concat()), part);
}

#[test]
fn invalid_anonymization_is_refused_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    let before = fs::read(&recording).unwrap();
    fs::write(sandbox.path("old"), "old").unwrap();
    let old = sandbox.argument("old");
    assert_export_refused(&[&recording, "--anonymize", &old], "old exists; give --force to replace it");
    assert_export_refused(&[&recording, "--anonymize", &recording], "would be overwritten");
    assert_export_refused(&[&recording, "--anonymize", &recording, "--force"], "would be overwritten");
    std::os::unix::fs::symlink(&recording, sandbox.path("link")).unwrap();
    assert_export_refused(&[&recording, "--anonymize", &sandbox.argument("link"), "--force"], "would be overwritten");
    assert_export_refused(&[&old, "--anonymize", &sandbox.argument("new")], "is not a Parquet file");
    assert_export_refused(&[&sandbox.argument("none"), "--anonymize", &sandbox.argument("new")], "none");
    assert_export_refused(&[&recording, "--anonymize", "-"], "cannot be written to stdout");
    assert_export_refused(&[&recording, "--anonymize", "/nowhere/x"], "/nowhere/x");
    assert_export_refused(&[&recording, "--anonymize", &old, "--chrome", &old, "--force"], "the same target");
    assert_eq!((fs::read(&recording).unwrap(), fs::read(&old).unwrap()), (before, b"old".to_vec()));
    assert_eq!(sandbox.listing(), ["link", "old", "r.parquet"]);
    text(&["export", &recording, "--anonymize", &old, "--force"]);
    assert!(Reader::open(&old).is_ok());
    let mode = fs::metadata(&old).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "a replaced file does not pass on its mode");
}

#[test]
fn recorder_writes_no_names_on_request() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let program = sandbox.argument("secret-program");
    fs::copy("/bin/sh", &program).unwrap();
    let out = sandbox.argument("r.parquet");
    let script = "i=0; while [ $i -lt 50 ]; do /bin/true; i=$((i+1)); done";
    let output = freehold(&["record", "--anonymize", "-q", "-o", &out, "--", &program, "-c", script]);
    assert!(output.status.success(), "{}", stderr(&output));
    let facts = facts_of(&out);
    assert_eq!(facts.command.as_deref(), Some("command"));
    assert!(facts.tasks.iter().any(|task| task.name == "task-1"), "{:?}", facts.tasks);
    assert_names_absent(&out, ["secret-program", "/bin/true", "true"]);
    assert!(!facts.kernel_release.contains('-'), "{}", facts.kernel_release);
    assert!(text(&["inspect", &out, "--all"]).contains("task-1"));
}

#[test]
fn snapshot_contains_no_names_on_request() {
    if !can_record() {
        return;
    }
    let sandbox = Sandbox::new();
    let out = sandbox.argument("s.parquet");
    let output = freehold(&["snapshot", "--anonymize", "-q", "-o", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let facts = facts_of(&out);
    assert!(!facts.kernel_release.contains('-'), "{}", facts.kernel_release);
    assert!(facts.notes.iter().any(|note| note.starts_with("anonymized: ")), "{:?}", facts.notes);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if release.contains('-') && Path::new(&out).is_file() {
        assert_names_absent(&out, [release.trim()]);
    }
}
