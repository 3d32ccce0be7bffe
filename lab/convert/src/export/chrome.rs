//! Export to the JSON format of Perfetto and `chrome://tracing`: an object with `traceEvents`.
//!
//! Process 1 is memory. It has counters of allocated and freed pages by order, of blocks that moved between free lists
//! and per-CPU lists, and of free pages. If the recording has samples, it also has counters of free memory by order.
//! Process 2 has the tasks that did more than allocate: their reclaim and compaction are spans, and failures and
//! fallbacks are instants.
//! The format: "Trace Event Format" (Google, 2016).

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use freehold_trace::event::{Row, Section};
use freehold_trace::recording::Recording;
use freehold_trace::{Facts, PartFile};
use serde::Serialize;
use serde_json::{Value, json};

use super::tracks::{Edge, FreePages, Window, edge, instant};
use super::walk::{ExportSummary, for_each, unwritten};
use crate::error::Error;

/// Process numbers. Viewers group tracks by process.
const MEMORY: u32 = 1;
const TASKS: u32 = 2;
/// Number of values of a counter over the whole recording, and the shortest time between two values in nanoseconds.
const WINDOWS: u64 = 5000;
const WINDOW_MIN: u64 = 100_000;

/// An event in the format of the viewers.
#[derive(Serialize)]
struct Event<'a, A: Serialize> {
    name: &'a str,
    ph: &'a str,
    /// Time in microseconds.
    ts: f64,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'a str>,
    args: A,
}

/// Writes the events of a recording over time.
///
/// # Errors
/// If the recording cannot be read, or the file cannot be written. No file remains then.
pub fn chrome(recording: &Path, out: &Path) -> Result<ExportSummary, Error> {
    let recording = Recording::open(recording)?;
    let failed = unwritten(out);
    let part = PartFile::create(out).map_err(&failed)?;
    let mut viewer = Viewer::new(BufWriter::with_capacity(1 << 20, part), recording.reader.facts());
    viewer.open().map_err(&failed)?;
    for_each(&recording, |row| viewer.row(row).map_err(&failed))?;
    let (mut file, bytes) = viewer.close().map_err(&failed)?;
    file.flush().map_err(&failed)?;
    let mut part = file.into_inner().map_err(|error| failed(error.into_error()))?;
    part.publish().map_err(&failed)?;
    Ok(ExportSummary { bytes })
}

/// Converter of rows to events.
struct Viewer<'r, W: Write> {
    file: W,
    bytes: u64,
    facts: &'r Facts,
    window: Window,
    unused: FreePages,
    /// Length of a window in nanoseconds (first field), and start of the current one (second field).
    length: u64,
    began: u64,
    /// Open spans of each task, the latest last.
    open: BTreeMap<u32, Vec<&'static str>>,
    latest: u64,
}

impl<'r, W: Write> Viewer<'r, W> {
    fn new(file: W, facts: &'r Facts) -> Viewer<'r, W> {
        let length = (facts.duration / WINDOWS).max(WINDOW_MIN);
        let (window, unused, open) = (Window::default(), FreePages::default(), BTreeMap::new());
        Viewer { file, bytes: 0, facts, window, unused, length, began: 0, open, latest: 0 }
    }

    fn open(&mut self) -> std::io::Result<()> {
        let facts = self.facts;
        let about = json!({
            "kernel": facts.kernel_release, "machine": facts.machine, "cpus": facts.cpus, "writer": facts.writer,
            "lost": facts.lost, "guesses": facts.guesses,
        });
        let head = format!("{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[\n");
        self.bytes += head.len() as u64;
        self.file.write_all(head.as_bytes())?;
        // The first event has no comma before it.
        self.write(&json!({"name": "process_name", "ph": "M", "pid": MEMORY, "args": {"name": "memory"}}), "")?;
        self.event(&json!({"name": "process_name", "ph": "M", "pid": TASKS, "args": {"name": "tasks"}}))?;
        self.samples()
    }

    /// Writes free memory by order from the kernel's samples.
    fn samples(&mut self) -> std::io::Result<()> {
        let facts = self.facts;
        for sample in &facts.samples {
            for (zone, free) in facts.zones_start.iter().zip(&sample.buddyinfo) {
                let name = format!("free pages by order: {} of node {}", zone.name, zone.node);
                let orders = free.iter().enumerate().map(|(order, blocks)| {
                    (format!("order {order:02}"), Value::from(blocks.saturating_mul(1 << order.min(40))))
                });
                let args: serde_json::Map<String, Value> = orders.collect();
                self.counter(&name, sample.time, &args)?;
            }
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) -> std::io::Result<()> {
        if row.kind.section() == Section::Start {
            self.unused.observe(row);
            return Ok(());
        }
        if row.time >= self.began + self.length {
            self.end_window()?;
            let next = self.began + self.length;
            self.began = row.time - row.time % self.length;
            // A counter keeps its value until the next one, so windows without events need a value of zero.
            if self.began > next {
                self.quiet_from(next)?;
            }
        }
        self.latest = row.time;
        self.window.observe(row);
        self.unused.observe(row);
        match edge(row.kind) {
            Some(Edge::Begin(name)) => self.begin(row, name),
            Some(Edge::End(name)) => self.end(row, name),
            None => match instant(row) {
                Some(name) => self.moment(row, name),
                None => Ok(()),
            },
        }
    }

    /// Writes the counts of a window, at the time of its start.
    fn end_window(&mut self) -> std::io::Result<()> {
        let window = std::mem::take(&mut self.window);
        let began = self.began;
        self.counter("pages allocated", began, window.allocated)?;
        self.counter("pages freed", began, window.freed)?;
        let lists = json!({"refilled": window.refilled, "drained": window.drained});
        self.counter("blocks between free lists and CPUs", began, lists)?;
        self.counter("unallocated pages", began, json!({"pages": self.unused.pages()}))
    }

    /// Writes counts of zero from this time on.
    fn quiet_from(&mut self, time: u64) -> std::io::Result<()> {
        let nothing = Window::default();
        self.counter("pages allocated", time, nothing.allocated)?;
        self.counter("pages freed", time, nothing.freed)?;
        self.counter("blocks between free lists and CPUs", time, json!({"refilled": 0, "drained": 0}))
    }

    fn begin(&mut self, row: &Row, name: &'static str) -> std::io::Result<()> {
        self.name_task(row.task)?;
        self.open.entry(row.task).or_default().push(name);
        self.span("B", row, name, details(row))
    }

    /// Ends a span, and the spans that began in it and have no end. An end without a begin is ignored.
    fn end(&mut self, row: &Row, name: &'static str) -> std::io::Result<()> {
        let Some(place) = self.open.get(&row.task).and_then(|open| open.iter().rposition(|open| *open == name)) else {
            return Ok(());
        };
        let ended = self.open.get_mut(&row.task).map(|open| open.split_off(place)).unwrap_or_default();
        ended.iter().rev().try_for_each(|name| self.span("E", row, name, details(row)))
    }

    fn moment(&mut self, row: &Row, name: &'static str) -> std::io::Result<()> {
        self.name_task(row.task)?;
        let ts = microseconds(row.time);
        self.event(&Event { name, ph: "i", ts, pid: TASKS, tid: row.task, s: Some("t"), args: details(row) })
    }

    /// Writes the name of a task the first time that the task is shown.
    fn name_task(&mut self, task: u32) -> std::io::Result<()> {
        if self.open.contains_key(&task) {
            return Ok(());
        }
        self.open.insert(task, Vec::new());
        let own = self.facts.tasks.get(task as usize);
        let name = own.map_or_else(|| format!("task {task}"), |own| format!("{} {}", own.name, own.pid));
        self.event(&json!({"name": "thread_name", "ph": "M", "pid": TASKS, "tid": task, "args": {"name": name}}))
    }

    fn span(&mut self, ph: &str, row: &Row, name: &str, args: Value) -> std::io::Result<()> {
        self.event(&Event { name, ph, ts: microseconds(row.time), pid: TASKS, tid: row.task, s: None, args })
    }

    fn counter(&mut self, name: &str, time: u64, args: impl Serialize) -> std::io::Result<()> {
        self.event(&Event { name, ph: "C", ts: microseconds(time), pid: MEMORY, tid: 0, s: None, args })
    }

    fn event(&mut self, event: &impl Serialize) -> std::io::Result<()> {
        self.write(event, ",\n")
    }

    fn write(&mut self, event: &impl Serialize, before: &str) -> std::io::Result<()> {
        let text = serde_json::to_string(event)?;
        self.bytes += (before.len() + text.len()) as u64;
        self.file.write_all(before.as_bytes())?;
        self.file.write_all(text.as_bytes())
    }

    /// Ends the open spans and the file.
    fn close(mut self) -> std::io::Result<(W, u64)> {
        self.end_window()?;
        let time = self.latest;
        for (task, open) in std::mem::take(&mut self.open) {
            for name in open.into_iter().rev() {
                let row = Row { time, task, ..Row::new(freehold_trace::Kind::Alloc) };
                self.span("E", &row, name, json!({"cut off": "by the end of the recording"}))?;
            }
        }
        const END: &[u8] = b"\n]}\n";
        self.file.write_all(END)?;
        Ok((self.file, self.bytes + END.len() as u64))
    }
}

/// Returns the details of a row for the viewer.
fn details(row: &Row) -> Value {
    let [a, b, c] = row.args;
    json!({"cpu": row.cpu, "order": row.order, "gfp": crate::gfp::class(row.gfp), "args": [a, b, c]})
}

fn microseconds(time: u64) -> f64 {
    time as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use freehold_trace::event::{Kind, NO_PFN};
    use freehold_trace::facts::Task;

    use super::*;

    fn viewed(rows: &[Row]) -> Vec<Value> {
        let facts = Facts {
            duration: 1_000_000,
            tasks: vec![Task::default(), Task { pid: 7, name: "a\"</b>\u{1b}\n".to_owned() }],
            ..Facts::default()
        };
        let mut viewer = Viewer::new(Vec::new(), &facts);
        viewer.open().unwrap();
        rows.iter().for_each(|row| viewer.row(row).unwrap());
        let (bytes, count) = viewer.close().unwrap();
        assert_eq!(bytes.len() as u64, count);
        let mut all: Value = serde_json::from_slice(&bytes).unwrap();
        all["traceEvents"].take().as_array().unwrap().clone()
    }

    /// Returns the values of a counter at each of its events.
    fn counts(events: &[Value], name: &str, key: &str) -> Vec<u64> {
        let counters = events.iter().filter(|event| event["name"] == name);
        counters.map(|event| event["args"][key].as_u64().unwrap()).collect()
    }

    fn row(kind: Kind, time: u64) -> Row {
        Row { time, task: 1, pfn: 8, ..Row::new(kind) }
    }

    #[test]
    fn spans_are_closed_and_unopened_ends_skipped() {
        let events = viewed(&[
            row(Kind::CompactionEnd, 1),
            row(Kind::DirectReclaimBegin, 2),
            row(Kind::CompactionBegin, 3),
            row(Kind::DirectReclaimEnd, 4),
            row(Kind::KswapdWake, 5),
        ]);
        let spans: Vec<(&str, &str)> = events
            .iter()
            .filter(|event| matches!(event["ph"].as_str(), Some("B" | "E")))
            .map(|event| (event["ph"].as_str().unwrap(), event["name"].as_str().unwrap()))
            .collect();
        let expected = [
            ("B", "direct reclaim"),
            ("B", "compaction"),
            ("E", "compaction"),
            ("E", "direct reclaim"),
            ("B", "kswapd awake"),
            ("E", "kswapd awake"),
        ];
        assert_eq!(spans, expected);
        let names: Vec<&Value> = events.iter().filter(|event| event["name"] == "thread_name").collect();
        assert_eq!((names.len(), &names[0]["args"]["name"]), (1, &json!("a\"</b>\u{1b}\n 7")));
    }

    #[test]
    fn counters_are_summed_per_window() {
        let free = Row { order: 4, ..row(Kind::StartFree, 0) };
        let failed = Row { pfn: NO_PFN, ..row(Kind::Alloc, 150_000) };
        let events = viewed(&[free, row(Kind::Alloc, 1), row(Kind::Alloc, 2), row(Kind::Free, 120_000), failed]);
        assert_eq!(counts(&events, "pages allocated", "order 0"), [2, 0]);
        assert_eq!(counts(&events, "pages freed", "order 0"), [0, 1]);
        assert_eq!(counts(&events, "unallocated pages", "pages"), [14, 15]);
        assert!(events.iter().any(|event| event["name"] == "allocation failed" && event["ph"] == "i"));
    }
}
