//! Report on an inspection, from the machine down to single tasks.
//!
//! At a terminal, the first screen ([`super::screen`]) is printed unless everything was requested. The whole report
//! starts with sentences on the pressure on memory, then what failed. Tables without rows are left out, so a recording
//! of a calm machine gives a short text. Notes of the recorder are at the end.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::number::{ABSENT, count, decimal, duration, percent};
use freehold_report::report::{Caveats, Column, Report, Table, Value, terminal};
use freehold_report::terminal::Style;
use freehold_trace::recording::name_of;

use super::memory::{MemoryRow, ON_LISTS};
use super::{Extent, Inspection, course, kswapd_state, mechanisms, shortage};

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;
/// Most counters of `/proc/vmstat` in the table; JSON contains all.
const VMSTAT_ROWS: usize = 24;

/// Most stacks in the table, and most functions of each stack, the innermost first; JSON contains all.
const STACK_ROWS: usize = 16;
const STACK_FRAMES: usize = 8;

/// Meaning of the row of [`ON_LISTS`].
const ABOUT_LISTS: &str = "On per-CPU lists: pages that a later event found on such a list. The other pages on these \
                           lists count as unknown. At the end all of them do, since no event follows.";

/// Settings in the table, which affect the numbers below most; JSON contains all.
const SETTINGS: [&str; 16] = [
    "transparent_hugepage.enabled",
    "transparent_hugepage.defrag",
    "transparent_hugepage.shmem_enabled",
    "transparent_hugepage.khugepaged.defrag",
    "vm.min_free_kbytes",
    "vm.watermark_scale_factor",
    "vm.watermark_boost_factor",
    "vm.lowmem_reserve_ratio",
    "vm.percpu_pagelist_high_fraction",
    "vm.compaction_proactiveness",
    "vm.extfrag_threshold",
    "vm.defrag_mode",
    "vm.zone_reclaim_mode",
    "vm.swappiness",
    "vm.overcommit_memory",
    "vm.nr_hugepages",
];

impl Document for Inspection {
    fn reports(&self) -> Cow<'_, [Report]> {
        let mut tables = vec![
            self.failures_table(usize::MAX),
            self.work_table(),
            self.free_memory_table(),
            self.zones_table(),
            self.states_table(),
            self.uses_table(),
            self.settings_table(),
            self.kinds_table(),
            self.orders_table(),
            self.gfp_table(),
            self.migratetypes_table(),
            self.lifetimes_table(),
            self.pairing_table(),
            self.zone_lock_table(),
            self.fallbacks_table(),
            self.reclaim_table(),
            mechanisms::table(&self.mechanisms),
            kswapd_state::table(&self.kswapd_at_reclaim),
            self.compaction_table(),
            self.fragmentation_table(),
            self.stalls_table(),
            self.vmstat_table(),
            self.tasks_table(),
            self.stacks_table(),
            self.heaps_table(),
        ];
        tables.retain(|table| !table.rows.is_empty() || !table.conclusions.is_empty());
        Cow::Owned(vec![Report {
            subject: self.subject(),
            verdict: self.guessed().into_iter().chain(self.in_short()).collect(),
            tables,
            plots: course::plots(&[(&name_of(&self.file), &self.course)]),
            maps: self.map.iter().cloned().collect(),
            caveats: self.caveats(),
            ..Report::default()
        }])
    }

    fn text(&self, style: Style) -> String {
        match self.extent {
            Extent::FirstScreen => terminal::text(&self.first_screen(), style),
            Extent::Everything => self.reports().iter().map(|report| terminal::text(report, style)).collect(),
        }
    }
}

impl Inspection {
    fn subject(&self) -> Vec<String> {
        let machine = &self.machine;
        let what = if self.is_snapshot() {
            "a snapshot".to_owned()
        } else {
            let command = machine.command.as_deref().unwrap_or("no command");
            format!("{:.3} s of {command}", machine.duration_seconds)
        };
        vec![
            self.file.clone(),
            format!(
                "Linux {} on {}, {} CPUs, pages of {} bytes, pageblocks of order {}; {what}, written by {}",
                machine.kernel_release,
                machine.machine,
                machine.cpus,
                machine.page_size,
                machine.pageblock_order,
                machine.writer
            ),
        ]
    }

    /// Returns a sentence if parts of the recording are assumptions of an importer.
    fn guessed(&self) -> Option<String> {
        (!self.machine.guesses.is_empty()).then(|| {
            "Imported recording: parts of it are guessed, see `Guesses`. The events are as recorded.".to_owned()
        })
    }

    /// Returns the assumptions of the importer and the notes of the recorder.
    fn caveats(&self) -> Vec<Caveats> {
        let guesses = Caveats { title: "Guesses".into(), sentences: self.machine.guesses.clone() };
        let notes = Caveats { title: "Notes of the recorder".into(), sentences: self.machine.notes.clone() };
        let has_guesses = !guesses.sentences.is_empty();
        has_guesses.then_some(guesses).into_iter().chain([notes]).collect()
    }

    /// Returns whether the recording is a snapshot, which has no events.
    pub(crate) fn is_snapshot(&self) -> bool {
        self.machine.duration_seconds == 0.0
    }

    /// Summarises the events, the pressure on memory and the fragmentation.
    fn in_short(&self) -> Vec<String> {
        if self.is_snapshot() {
            let start = self.fragmentation.first().and_then(|moment| moment.unusable_free_index_order9);
            let sentence =
                start.map(|part| format!("Free memory in blocks too small for a huge page: {}.", percent(part)));
            return sentence.into_iter().collect();
        }
        let (reclaim, pairing) = (&self.reclaim, &self.pairing);
        let lost = match self.machine.lost {
            0 => "no events lost".to_owned(),
            lost => {
                format!("{} events lost, so that counts are too low and some frees have no allocation", count(lost))
            }
        };
        let failed = self.orders.iter().map(|order| order.failed).sum();
        let mut pressure = shortage::describe(reclaim, failed, self.has_reclaim_events());
        pressure.extend((failed == 0).then(|| shortage::NO_FAILURE.to_owned()));
        let ends = [self.fragmentation.first(), self.fragmentation.last()]
            .map(|moment| moment.and_then(|moment| moment.unusable_free_index_order9).map(percent));
        let fragmentation = match ends {
            [Some(start), Some(end)] => vec![format!(
                "Free memory in blocks too small for a huge page: {start} at the start, {end} at the end."
            )],
            _ => Vec::new(),
        };
        let (allocations, frees) = (count(pairing.allocations), count(pairing.frees));
        [vec![format!("{allocations} allocations and {frees} frees; {lost}.")], pressure, fragmentation].concat()
    }

    /// Returns the first lines of the first screen: whether memory was short.
    pub(crate) fn headline(&self) -> Vec<String> {
        if self.is_snapshot() {
            return self.in_short();
        }
        shortage::headline(&self.reclaim, &self.failures, self.has_reclaim_events())
    }

    /// Returns whether the recording would show reclaim: it has counters of the kernel, or an event of reclaim.
    fn has_reclaim_events(&self) -> bool {
        let names = ["Reclaim", "Kswapd", "LruShrink", "LruIsolate", "Pgdat"];
        !self.vmstat_names.is_empty() || self.kinds.iter().any(|row| names.iter().any(|name| row.kind.contains(name)))
    }

    fn zones_table(&self) -> Table {
        let numbers = [
            "managed",
            "min",
            "low",
            "high",
            "boost",
            "free at start",
            "free at end",
            "batch",
            "on CPU lists at start",
        ];
        let columns = [vec![Column::numbers("node")], Column::several(&["zone"], &numbers)].concat();
        let rows = self.zones.iter().map(|zone| {
            let marks = [zone.managed, zone.min, zone.low, zone.high, zone.boost, zone.free_start];
            let lists = [zone.free_end, zone.pcp_batch.map(u64::from), Some(zone.pcp_pages_start)];
            let name = [Value::text(zone.node), Value::text(&zone.name)];
            name.into_iter().chain(marks.map(Value::count)).chain(lists.map(Value::count)).collect()
        });
        Table::new("Zones (pages)", columns, rows)
    }

    fn states_table(&self) -> Table {
        let has_lists = self.memory.iter().any(|row| row.state == ON_LISTS);
        let about = if has_lists { ABOUT_LISTS.to_owned() } else { String::new() };
        Table { about, ..self.memory_table("Memory by state (pages)", "state", &self.memory) }
    }

    pub(crate) fn uses_table(&self) -> Table {
        self.memory_table("Allocated memory by use (pages)", "use", &self.uses)
    }

    fn memory_table(&self, title: &str, of: &'static str, rows: &[MemoryRow]) -> Table {
        let moments: &[&str] = if self.is_snapshot() { &["pages"] } else { &["at start", "at end"] };
        let cells = rows.iter().map(|row| {
            // Pages on lists count as unknown at the end, since no later event identifies them.
            let end = (row.state != ON_LISTS).then_some(row.end);
            let pages = [Some(row.start), end].map(Value::count).into_iter().take(moments.len());
            [Value::text(row.state)].into_iter().chain(pages).collect()
        });
        Table::new(title, Column::several(&[of], moments), cells)
    }

    fn settings_table(&self) -> Table {
        let known = SETTINGS.iter().filter_map(|&name| Some((name, self.settings.get(name)?)));
        let rows = known.map(|(name, value)| vec![Value::text(name), Value::text(value)]);
        Table::new("Settings", Column::several(&["setting", "value"], &[]), rows)
    }

    fn kinds_table(&self) -> Table {
        let rows = self.kinds.iter().map(|kind| {
            let rate = kind.per_second.map(|rate| rate.round() as u64);
            vec![Value::text(&kind.kind), Value::count(kind.events), Value::count(rate)]
        });
        Table::new("Rows by kind", Column::several(&["rows"], &["count", "per second"]), rows)
    }

    fn orders_table(&self) -> Table {
        let rows = self.orders.iter().map(|order| {
            let counts = [u64::from(order.order), order.allocations, order.failed, order.frees];
            counts.map(Value::count).into_iter().chain([Value::Share(order.share)]).collect()
        });
        let columns = Column::several(&[], &["order", "allocations", "failed", "frees", "share"]);
        Table::new("Orders", columns, rows)
    }

    fn gfp_table(&self) -> Table {
        let rows = self.gfp_classes.iter().map(|class| {
            let counts = [class.allocations, class.failed].map(Value::count);
            [vec![Value::text(&class.name)], counts.to_vec(), vec![Value::Share(class.share)]].concat()
        });
        let columns = Column::several(&["class"], &["allocations", "failed", "share"]);
        Table::new("GFP classes (without modifiers such as __GFP_ZERO; JSON has whole masks)", columns, rows)
    }

    fn migratetypes_table(&self) -> Table {
        let rows = self.migratetypes.iter().map(|entry| {
            let counts = [entry.requests, entry.blocks_from_zone, entry.blocks_to_zone].map(Value::count);
            [vec![Value::text(entry.migratetype)], counts.to_vec()].concat()
        });
        let numbers = ["requests", "blocks from the zone", "blocks to the zone"];
        Table::new("Migratetypes", Column::several(&["type"], &numbers), rows)
    }

    fn lifetimes_table(&self) -> Table {
        let rows = self.lifetimes.iter().map(|entry| {
            let ages = [entry.median_ns, entry.p90_ns, entry.p99_ns]
                .map(|ns| if entry.freed == 0 { Value::None } else { Value::duration(ns) });
            let counts = [u64::from(entry.order), entry.freed].map(Value::count);
            let alive = [Value::count(entry.live_at_end), Value::Share(entry.live_share)];
            [counts.to_vec(), ages.to_vec(), alive.to_vec()].concat()
        });
        let columns = Column::several(&[], &["order", "freed", "median", "p90", "p99", "alive at end", "share"]);
        Table::new("Lifetimes of blocks allocated in the recording (quantiles of the freed blocks)", columns, rows)
    }

    fn pairing_table(&self) -> Table {
        let pairing = &self.pairing;
        let odd = pairing.unmatched.iter().filter(|odd| odd.events > 0).map(|odd| {
            vec![Value::text(odd.name), Value::count(odd.events), Value::Share(odd.share), Value::text(odd.why)]
        });
        let columns = [Column::several(&["unmatched or odd"], &["events", "share"]), vec![Column::words("why")]];
        let found = (pairing.frees > 0).then(|| {
            format!(
                "{} of {} frees are paired with their allocation; {} of these ({}) are on another CPU.",
                count(pairing.paired),
                count(pairing.frees),
                count(pairing.freed_on_another_cpu),
                percent(pairing.freed_on_another_cpu_share),
            )
        });
        let table = Table::new("Frees and their allocations", columns.concat(), odd);
        Table { conclusions: found.into_iter().collect(), ..table }
    }

    fn zone_lock_table(&self) -> Table {
        let lock = &self.zone_lock;
        let rows = lock.by_purpose.iter().filter(|entry| entry.sections > 0).map(|entry| {
            let counts = [entry.sections, entry.blocks, entry.pages].map(Value::count);
            let each = Value::decimal(entry.pages_per_section);
            [vec![Value::text(entry.purpose)], counts.to_vec(), vec![each]].concat()
        });
        let columns = Column::several(&["held for"], &["holds", "blocks", "pages", "pages per hold"]);
        let table = Table::new("Zone lock, estimated", columns, rows);
        let rate = lock.sections_per_1000_operations.map_or(ABSENT.to_owned(), decimal);
        let counted = format!(
            "{} holds, {rate} per 1000 allocations and frees. Events of one CPU, task, zone and kind that are at \
             most {} apart count as one hold.",
            count(lock.sections),
            duration(lock.gap_ns),
        );
        let conclusions = if table.rows.is_empty() { Vec::new() } else { vec![counted] };
        Table { conclusions, ..table }
    }

    fn fallbacks_table(&self) -> Table {
        let rows = self.fallbacks.iter().map(|entry| {
            let types = [entry.wanted, entry.gave].map(Value::text);
            types.into_iter().chain([entry.claims, entry.steals].map(Value::count)).collect()
        });
        let title = "Fallbacks (a claim changes the type of the pageblock, a steal does not)";
        Table::new(title, Column::several(&["wanted", "gave"], &["claims", "steals"]), rows)
    }

    fn reclaim_table(&self) -> Table {
        let reclaim = &self.reclaim;
        let rows: [Fact; 15] = [
            ("passes of kswapd", reclaim.kswapd_wakes, Value::count),
            ("kswapd back to sleep", reclaim.kswapd_sleeps, Value::count),
            ("direct reclaims, by events", reclaim.direct_reclaims, Value::count),
            ("direct reclaims, by counters", reclaim.allocstall.unwrap_or(0), Value::count),
            ("time in direct reclaim", reclaim.direct_reclaim_ns, Value::duration),
            ("pages reclaimed directly", reclaim.direct_reclaimed_pages, Value::count),
            ("reclaims of control groups", reclaim.memcg_reclaims, Value::count),
            ("time in reclaims of control groups", reclaim.memcg_reclaim_ns, Value::duration),
            ("pages reclaimed for control groups", reclaim.memcg_reclaimed_pages, Value::count),
            ("reclaims of one node", reclaim.node_reclaims, Value::count),
            ("pages reclaimed from one node", reclaim.node_reclaimed_pages, Value::count),
            ("OOM kills", reclaim.oom_kills.unwrap_or(0), Value::count),
            ("inactive pages scanned", reclaim.inactive_scanned_pages, Value::count),
            ("inactive pages reclaimed", reclaim.inactive_reclaimed_pages, Value::count),
            ("active pages deactivated", reclaim.deactivated_pages, Value::count),
        ];
        facts_table("Reclaim", rows)
    }

    fn compaction_table(&self) -> Table {
        let compaction = &self.compaction;
        let ends = compaction.results.iter().map(|(result, runs)| (format!("ended with {result}"), *runs));
        let rows: [Fact; 5] = [
            ("runs over a zone", compaction.runs, Value::count),
            ("time", compaction.ns, Value::duration),
            ("pages moved", compaction.migrated_pages, Value::count),
            ("pages not moved", compaction.failed_pages, Value::count),
            ("attempted huge page collapses", compaction.collapses, Value::count),
        ];
        let mut table = facts_table("Compaction", rows);
        table.rows.extend(ends.map(|(what, runs)| vec![Value::Text(what), Value::count(runs)]));
        table
    }

    fn fragmentation_table(&self) -> Table {
        let rows = self.fragmentation.iter().map(|entry| {
            let blocks: Vec<_> = entry.free_blocks.iter().map(u64::to_string).collect();
            vec![
                Value::text(entry.moment),
                Value::Text(format!("{:.1}", entry.seconds)),
                Value::count(entry.free_pages),
                entry.unusable_free_index_order9.map_or(Value::None, Value::Share),
                Value::Text(blocks.join(" ")),
            ]
        });
        let columns = Column::several(&["moment"], &["second", "free pages", "unusable for order 9"]);
        let columns = [columns, vec![Column::words("free blocks by order")]].concat();
        Table::new("Fragmentation", columns, rows)
    }

    fn stalls_table(&self) -> Table {
        let rows = self.stalls.iter().map(|stall| {
            vec![
                Value::text(&stall.name),
                Value::Text(duration(stall.us.saturating_mul(1000))),
                Value::Share(stall.share),
            ]
        });
        let columns = Column::several(&["waited for"], &["time", "share of the run"]);
        Table::new("Pressure: at least one task waited (some), or all runnable tasks (full)", columns, rows)
    }

    fn vmstat_table(&self) -> Table {
        let mut largest: Vec<_> = self.vmstat.iter().collect();
        largest.sort_by_key(|entry| std::cmp::Reverse(entry.delta.unsigned_abs()));
        let rows = largest.iter().take(VMSTAT_ROWS).map(|entry| {
            let sign = if entry.delta < 0 { "-" } else { "+" };
            let change = Value::Text(format!("{sign}{}", count(entry.delta.unsigned_abs())));
            vec![Value::text(&entry.name), Value::count(entry.start), Value::count(entry.end), change]
        });
        let shown = largest.len().min(VMSTAT_ROWS);
        let title = format!("/proc/vmstat, the {shown} largest of {} changes", largest.len());
        Table::new(title, Column::several(&["counter"], &["start", "end", "change"]), rows)
    }

    fn heaps_table(&self) -> Table {
        let rows = self.heaps.iter().map(|heap| {
            let mib = [heap.resident, heap.objects, heap.runs, heap.idle, heap.free, heap.given_back]
                .map(|bytes| Value::count(bytes.div_ceil(MIB)));
            let seconds = Value::Text(format!("{:.1}", heap.seconds));
            let ends = vec![Value::count(heap.pages), Value::count(heap.looks as u64), seconds];
            [vec![Value::text(&heap.name), Value::count(u64::from(heap.pid))], ends, mib.to_vec()].concat()
        });
        let numbers =
            ["pid", "pages allocated", "samples", "second", "resident", "objects", "runs", "idle", "free", "returned"];
        let about = "MiB in the sample in which the process was largest. resident: memory of the whole process. \
                     objects, runs: objects and runs of pages in use by the program. idle: unused objects in \
                     slabs or cached. free: free pages of the heap. returned: memory returned to the system, or \
                     never written to.";
        let table =
            Table::new("Heaps of processes whose malloc is Freehold", Column::several(&["process"], &numbers), rows);
        Table { about: about.to_owned(), ..table }
    }

    fn stacks_table(&self) -> Table {
        let rows = self.stacks.iter().take(STACK_ROWS).map(|stack| {
            let frames = stack.frames.iter().skip_while(|name| is_allocator(name)).take(STACK_FRAMES);
            let frames = frames.map(String::as_str).collect::<Vec<_>>().join(" < ");
            vec![
                Value::Share(stack.share),
                Value::count(stack.pages),
                Value::count(stack.samples),
                Value::text(&stack.task),
                Value::text(&frames),
            ]
        });
        let columns = [
            Column::several(&[], &["share", "pages", "samples"]),
            vec![Column::words("most frequent task"), Column::words("call stack")],
        ]
        .concat();
        let shown = self.stacks.len().min(STACK_ROWS);
        let title = format!("Pages by stack, estimated from a sample: the {shown} largest of {}", self.stacks.len());
        Table::new(title, columns, rows)
    }

    fn tasks_table(&self) -> Table {
        let rows = self.tasks.iter().map(|task| {
            let counts = [task.tasks, task.allocations, task.frees].map(Value::count);
            [vec![Value::text(&task.name)], counts.to_vec(), vec![Value::Share(task.share)]].concat()
        });
        let columns = Column::several(&["task"], &["tasks", "allocations", "frees", "share"]);
        Table::new("Tasks by name", columns, rows)
    }
}

/// Returns whether a function is the page allocator itself or a thin layer over it. Every stack starts with such
/// functions.
fn is_allocator(name: &str) -> bool {
    name.contains("alloc") && ["pages", "folio"].iter().any(|what| name.contains(what))
}

/// A fact of a table: its name, its number, and the format of the number.
type Fact = (&'static str, u64, fn(u64) -> Value);

/// Returns a table of the facts whose number is not zero.
fn facts_table(title: &str, facts: impl IntoIterator<Item = Fact>) -> Table {
    let happened = facts.into_iter().filter(|(_, number, _)| *number > 0);
    let rows = happened.map(|(what, number, shown)| vec![Value::text(what), shown(number)]);
    Table::new(title, Column::several(&["counter"], &["number"]), rows)
}
