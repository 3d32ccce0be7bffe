//! First screen of `freehold inspect`, of 80 columns and 24 rows: failed allocations, reclaim and compaction, free memory
//! at the end, and pressure. `--all` prints all tables instead.

use freehold_report::number::{ABSENT, count, decimal, duration, percent};
use freehold_report::report::{Column, Detail, Report, Table, Value};
use freehold_trace::recording::name_of;

use super::work::{TaskCount, WorkRow};
use super::{FailureRow, Inspection};

/// Maximum number of rows of failed allocations on the first screen. If there are more, the last of these sums up the rest.
const FAILURE_ROWS: usize = 4;
/// Maximum number of tasks that are named for one kind of work.
const TASKS: usize = 3;

impl Inspection {
    /// Returns the report of the first screen.
    pub(crate) fn first_screen(&self) -> Report {
        let mut tables = match self.is_snapshot() {
            true => vec![self.uses_table()],
            false => vec![self.failures_table(FAILURE_ROWS), self.work_table()],
        };
        let mut memory = self.free_memory_table();
        memory
            .rows
            .push(vec![Value::text("more"), Value::text("all tables: --all, map: --map; next: freehold advise FILE")]);
        tables.push(memory);
        tables.retain(|table| !table.rows.is_empty());
        for table in &mut tables {
            table.about.clear();
            table.title.clear();
        }
        Report {
            subject: vec![format!("{}: {}", name_of(&self.file), self.machine_line())],
            verdict: self.guesses().into_iter().chain(self.lost()).chain(self.headline()).collect(),
            tables,
            detail: Detail::Tables,
            ..Report::default()
        }
    }

    /// Returns a sentence if parts of the recording are assumptions of an importer.
    fn guesses(&self) -> Option<String> {
        let has_guesses = !self.machine.guesses.is_empty();
        has_guesses.then(|| "Imported recording: parts of it are guessed (--all lists the guesses).".to_owned())
    }

    /// Describes the machine and the length of the recording.
    fn machine_line(&self) -> String {
        let machine = &self.machine;
        let length = match (&machine.command, self.is_snapshot()) {
            (_, true) => "a snapshot".to_owned(),
            (Some(command), false) => format!("{:.1} s of {command}", machine.duration_seconds),
            (None, false) => format!("{:.1} s", machine.duration_seconds),
        };
        format!("Linux {}, CPUs {}, {length}", machine.kernel_release, machine.cpus)
    }

    /// Returns a sentence if events were lost.
    fn lost(&self) -> Option<String> {
        (self.machine.lost > 0).then(|| format!("Events lost: {}. Counts are too low.", count(self.machine.lost)))
    }

    /// Returns the table of failed allocations with at most `most` rows.
    pub(crate) fn failures_table(&self, most: usize) -> Table {
        let shown = if self.failures.len() > most { most - 1 } else { self.failures.len() };
        let (rows, rest) = self.failures.split_at(shown);
        let mut cells: Vec<_> = rows.iter().map(failure_cells).collect();
        if !rest.is_empty() {
            let failed = rest.iter().map(|row| row.failed).sum::<u64>();
            let text = format!("(other rows: {})", count(rest.len() as u64));
            cells.push(vec![Value::count(failed), Value::None, Value::Text(text), Value::None, Value::None]);
        }
        let columns = Column::several(&[], &["failed", "order"]);
        let words = Column::several(&["GFP class", "kernel log", "task"], &[]);
        let about = "Kernel log: whether the kernel may log `page allocation failure`. It does not if the request has \
                     __GFP_NOWARN, because the caller can do without the pages.";
        Table { about: about.to_owned(), ..Table::new("Failed allocations", [columns, words].concat(), cells) }
    }

    /// Returns the table of reclaim and compaction.
    pub(crate) fn work_table(&self) -> Table {
        let rows = self.work.iter().map(|row| {
            let time = row.ns.filter(|_| row.count > 0).map_or(Value::None, Value::duration);
            vec![
                Value::text(row.work.name()),
                Value::count(row.count),
                time,
                Value::count(row.pages),
                Value::Text(self.describe_workers(row)),
            ]
        });
        let columns =
            [Column::several(&["work"], &["count", "time", "pages"]), vec![Column::words("CPU time or tasks")]];
        let about = "Count: passes of kswapd, wake-ups of kcompactd, or requests. Time: elapsed time of the requests \
                     and compactions. Pages: reclaimed or, by compaction, moved. The last column has the CPU time of \
                     kernel threads, and the tasks that waited.";
        let table = Table::new("Reclaim and compaction", columns.concat(), rows);
        Table { about: about.to_owned(), ..table }
    }

    /// Returns the CPU time of a kernel thread, or the tasks that waited.
    fn describe_workers(&self, row: &WorkRow) -> String {
        let seconds = self.machine.duration_seconds;
        match (row.work.is_in_background(), row.cpu_ns) {
            (true, Some(ns)) if seconds > 0.0 => {
                format!("CPU time {} ({} of a CPU)", duration(ns), percent(ns as f64 / 1e9 / seconds))
            }
            (true, Some(ns)) => format!("CPU time {}", duration(ns)),
            (true, None) => "CPU time needs --events sched".to_owned(),
            (false, _) => list_tasks(&row.tasks, row.count),
        }
    }

    /// Returns the table of free memory at the end, and of pressure.
    pub(crate) fn free_memory_table(&self) -> Table {
        let mut rows = Vec::new();
        if let Some(free) = &self.free_memory {
            let [of_free, of_all] = [free.free_pages, free.managed_pages].map(|pages| self.mebibytes(pages));
            let share = percent(free.free_pages as f64 / free.managed_pages.max(1) as f64);
            let orders = free.free_pages_by_order.iter().map(|&pages| self.mebibytes(pages)).collect::<Vec<_>>();
            rows.push(("free at the end", format!("{of_free} of {of_all} MiB ({share})")));
            rows.push(("- MiB by order", format!("{} (order 0 to {})", orders.join(" "), orders.len().max(1) - 1)));
            let index = free.unusable_free_index_order9.map_or(ABSENT.to_owned(), decimal);
            let huge = free.huge_page_share.map_or(ABSENT.to_owned(), percent);
            rows.push(("- for huge pages", format!("{huge} of the free memory (unusable free index {index})")));
        }
        if !self.is_snapshot() {
            rows.push(("pressure", format!("{}; OOM kills {}", self.pressure(), self.oom_kills())));
        }
        let rows = rows.into_iter().map(|(name, text)| vec![Value::text(name), Value::Text(text)]);
        Table::new("Free memory and pressure", Column::several(&["memory", "value"], &[]), rows)
    }

    /// Returns the shares of the time in which tasks waited for memory.
    fn pressure(&self) -> String {
        let waits = self.stalls.iter().filter_map(|stall| {
            let kind = stall.name.strip_prefix("memory.")?;
            Some(format!("{kind} {}", percent(stall.share)))
        });
        let waits: Vec<_> = waits.collect();
        if waits.is_empty() { "PSI not recorded".to_owned() } else { format!("PSI memory {}", waits.join(", ")) }
    }

    fn oom_kills(&self) -> String {
        self.reclaim.oom_kills.map_or(ABSENT.to_owned(), count)
    }

    /// Formats pages as MiB: with a decimal below ten.
    fn mebibytes(&self, pages: u64) -> String {
        let mebibytes = pages as f64 * f64::from(self.machine.page_size) / f64::from(1 << 20);
        if mebibytes > 0.0 && mebibytes < 9.95 { format!("{mebibytes:.1}") } else { count(mebibytes.round() as u64) }
    }
}

fn failure_cells(row: &FailureRow) -> Vec<Value> {
    vec![
        Value::count(row.failed),
        Value::count(u64::from(row.order)),
        Value::text(&row.gfp_class),
        Value::text(if row.is_logged { "page allocation failure" } else { "none (NOWARN)" }),
        Value::text(if row.task.is_empty() { "unknown" } else { &row.task }),
    ]
}

/// Lists the most frequent tasks: with their counts if these add up to `total`.
fn list_tasks(tasks: &[TaskCount], total: u64) -> String {
    let sum: u64 = tasks.iter().map(|task| task.count).sum();
    let names = tasks.iter().take(TASKS).map(|task| match sum == total {
        true => format!("{} {}", task.name, count(task.count)),
        false => task.name.clone(),
    });
    let mut names: Vec<_> = names.collect();
    if tasks.len() > TASKS {
        names.push(format!("other names {}", count((tasks.len() - TASKS) as u64)));
    }
    names.join(", ")
}
