//! `freehold heap` on live processes: one whose malloc is Freehold, and others.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use crate::common::recorder::can_record;
use crate::common::{Sandbox, assert_refused, build_library, freehold, json, text};
use freehold_trace::Reader;

/// A `cat` that waits for input; it ends when the value is dropped.
struct Cat(Child);

impl Cat {
    /// Starts `cat` with `command`, and returns after it has repeated a line.
    fn start(command: &mut Command) -> Cat {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("`cat` must be installed");
        child.stdin.as_mut().unwrap().write_all(b"word\n").unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "word\n");
        Cat(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Cat {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ended = self.0.wait();
    }
}

fn under_freehold() -> Cat {
    build_library();
    Cat::start(Command::new(assert_cmd::cargo::cargo_bin("freehold")).args(["run", "--", "cat"]))
}

#[test]
fn heap_of_a_process_under_freehold_is_shown() {
    let cat = under_freehold();
    let heap = &json(&["heap", &cat.pid(), "--json", "-"]);
    assert_eq!(heap["process"]["name"], "cat");
    let objects = heap["memory"]["objects"].as_u64().unwrap();
    assert!(objects > 0 && heap["process"]["resident"].as_u64().unwrap() > objects, "{heap}");
    assert!(heap["sizes"].as_array().unwrap().iter().any(|size| size["objects"].as_u64().unwrap() > 0));
    let said = text(&["heap", &cat.pid(), "--blocks", "1"]);
    assert!(said.starts_with(&format!("process {}, cat\n", cat.pid())) && said.contains("contents"), "{said}");
    assert!(said.contains("\n33-48 B ") && !said.contains("kmalloc"), "{said}");
    let sizes = heap["sizes"].as_array().unwrap();
    let size = sizes.iter().find(|size| size["name"] == "kmalloc-48").expect("JSON must have names of caches");
    assert_eq!(size["request_bytes"], serde_json::json!([33, 48]));
}

#[test]
fn heap_of_another_process_is_an_error() {
    let cat = Cat::start(&mut Command::new("cat"));
    assert_refused(&freehold(&["heap", &cat.pid()]), "(cat) does not run with Freehold's malloc");
    assert_refused(&freehold(&["heap", "4294967295"]), "there is no process 4294967295");
}

/// Returns the samples of an answer in the OpenMetrics format, by name and labels, after a check of its form.
fn samples(answer: &str) -> Vec<(&str, u64)> {
    let (mut types, mut samples) = (Vec::new(), Vec::new());
    assert!(answer.ends_with("\n# EOF\n"), "{answer}");
    for line in answer.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            types.push(family.split_once(' ').expect("a family has a type").0);
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').expect("a sample has a value");
            let family = name.split('{').next().unwrap_or_default();
            assert_eq!(types.last(), Some(&family.strip_suffix("_info").unwrap_or(family)), "{line}");
            samples.push((name, value.parse().expect("the value is a whole number")));
        }
    }
    for family in types.iter().filter(|family| family.ends_with("_bytes")) {
        assert!(answer.contains(&format!("# UNIT {family} bytes\n")), "{answer}");
        assert!(answer.contains(&format!("# HELP {family} ")), "{answer}");
    }
    samples
}

#[test]
fn openmetrics_totals_are_the_sums_of_all_sizes() {
    let cat = under_freehold();
    let answer = text(&["heap", &cat.pid(), "--openmetrics"]);
    let samples = samples(&answer);
    assert!(answer.contains(&format!("freehold_heap_process_info{{pid=\"{}\",name=\"cat\"}} 1\n", cat.pid())));
    assert!(answer.contains("freehold_heap_size_live_bytes{kind=\"objects\",size=\"64\"}"), "{answer}");
    // `cat` waits, so two readings of its heap agree.
    let states = &json(&["heap", &cat.pid(), "--json", "-"])["states"];
    for state in ["live", "cached", "kept", "returned"] {
        let name = format!("freehold_heap_{state}_bytes");
        let total = samples.iter().find(|(sample, _)| *sample == name).expect("the total is there").1;
        let part = format!("freehold_heap_size_{state}_bytes{{");
        let sum: u64 = samples.iter().filter(|(sample, _)| sample.starts_with(&part)).map(|(_, bytes)| bytes).sum();
        assert_eq!(sum, total, "{state}: {answer}");
        assert_eq!(states["total"][state], total, "{state}: {states}");
    }
    assert!(states["total"]["live"].as_u64().unwrap() > 0, "{states}");
}

#[test]
fn watch_prints_a_row_each_time_and_ends_with_the_process() {
    let cat = under_freehold();
    let mut watch = Command::new(assert_cmd::cargo::cargo_bin("freehold"));
    watch.args(["heap", &cat.pid(), "--watch", "0.1"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let headings = lines.next().expect("the headings are printed first");
    for heading in ["live KiB", "cached KiB", "kept KiB", "returned KiB", "most live memory in"] {
        assert!(headings.contains(heading), "{headings}");
    }
    for _ in 0..3 {
        let row = lines.next().expect("the process has not ended");
        let numbers = row.split_whitespace().take(5).filter(|number| number.parse::<u64>().is_ok()).count();
        assert_eq!(numbers, 5, "{row}");
    }
    let pid = cat.pid();
    drop(cat);
    let output = watch.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("freehold: process {pid} has ended\n"));
}

#[test]
fn unusable_watches_are_refused() {
    for wrong in ["0", "-1", "x", "nan"] {
        let output = freehold(&["heap", "1", &format!("--watch={wrong}")]);
        assert_refused(&output, "give a number of seconds from 0.1 to 86400");
    }
    assert_refused(&freehold(&["heap", "1", "--watch", "--openmetrics"]), "exclude each other");
    for option in ["--watch", "--openmetrics"] {
        assert_refused(&freehold(&["heap", "4294967295", option]), "there is no process 4294967295");
        let cat = Cat::start(&mut Command::new("cat"));
        assert_refused(&freehold(&["heap", &cat.pid(), option]), "(cat) does not run with Freehold's malloc");
    }
}

#[test]
fn recording_contains_the_heaps_of_its_command() {
    if !can_record() {
        return;
    }
    build_library();
    let sandbox = Sandbox::new();
    let out = sandbox.argument("heap.parquet");
    let binary = assert_cmd::cargo::cargo_bin("freehold");
    let mut recorder = Command::new(&binary);
    let words = ["record", "--quiet", "--duration", "1", "--out", &out, "--"];
    let command = [binary.to_str().unwrap(), "run", "--", "cat"];
    let mut recorder = recorder.args(words).args(command).stdin(Stdio::piped()).spawn().unwrap();
    // `cat` waits until this pipe is closed.
    let _words = recorder.stdin.take();
    assert!(recorder.wait().unwrap().success());
    let facts = Reader::open(&out).unwrap().facts().clone();
    let [heap] = &facts.heaps[..] else { panic!("one process has a heap: {:?}", facts.heaps) };
    assert!(heap.name == "cat" && heap.threads.contains(&heap.pid), "{heap:?}");
    assert!(heap.moments.iter().all(|moment| moment.objects > 0 && moment.resident > moment.objects), "{heap:?}");
    let heaps = &json(&["inspect", &out, "--json", "-"])["heaps"];
    assert!(heaps[0]["pages"].as_u64().unwrap() > 0, "the heap must have pages: {heaps}");
}
