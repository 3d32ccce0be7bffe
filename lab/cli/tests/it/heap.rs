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
