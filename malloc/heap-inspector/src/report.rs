//! The heap map as a report.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::number::{count, percent};
use freehold_report::report::{Caveats, Column, Report, Table, Value};

use crate::map::{BlockPin, HeapMap};
use crate::slabs::BLOCK;
use crate::states::{HEADINGS, StateBytes};

/// Bytes of a KiB.
const KIB: u64 = 1 << 10;
/// Most caches that the text lists for a block; JSON lists all.
const PINS: usize = 5;
/// KiB of a page.
const PAGE_KIB: u64 = 4;

impl Document for HeapMap {
    fn reports(&self) -> Cow<'_, [Report]> {
        let mut tables = vec![
            self.memory_table(),
            self.sizes_table(),
            self.runs_table(),
            self.fullness_table(),
            self.pins_table(),
            self.blocks_table(),
        ];
        tables.retain(|table| !table.rows.is_empty());
        Cow::Owned(vec![Report {
            subject: vec![format!("process {}, {}", self.process.pid, self.process.name)],
            verdict: self.in_short(),
            tables,
            caveats: vec![Caveats { title: "How the heap was read".into(), sentences: self.reading() }],
            ..Report::default()
        }])
    }
}

impl HeapMap {
    /// Returns a short report: the totals by state, and those of the `most` sizes with most live memory.
    pub fn report_states(&self, most: usize) -> Report {
        let process = &self.process;
        let all = states_row("all".to_owned(), &self.states.total);
        let parts = self.states.largest(most).into_iter().map(|part| states_row(part.label(), &part.bytes));
        let headings = HEADINGS.map(|heading| Column::counting(heading, "KiB"));
        let columns = [Column::words("memory")].into_iter().chain(headings).collect();
        Report {
            subject: vec![format!("process {}, {}: {} resident", process.pid, process.name, size(process.resident))],
            tables: vec![Table::new("Memory", columns, [all].into_iter().chain(parts))],
            ..Report::default()
        }
    }

    fn in_short(&self) -> Vec<String> {
        let memory = &self.memory;
        let all = memory.in_memory();
        let share = if all == 0 { 0.0 } else { memory.used() as f64 / all as f64 };
        let mut sentences = vec![
            format!("In memory: {} of the heap, of {} of the process.", size(all), size(self.process.resident)),
            format!(
                "Of the heap: {} in use by the program ({}), {} idle in slabs or cached on CPUs, {} free.",
                size(memory.used()),
                percent(share),
                size(memory.idle()),
                size(memory.free())
            ),
        ];
        let sparse: u64 = self.fullness.iter().skip(1).take(2).map(|row| row.blocks).sum();
        if let Some(pin) = self.pins.first() {
            sentences.push(format!(
                "Blocks of 2 MiB of which half of the pages or less are slabs: {}. Most frequent objects: {}, in {} \
                 of them.",
                count(sparse),
                bytes_of_requests(pin.request_bytes, &pin.name),
                count(pin.blocks)
            ));
        }
        sentences
    }

    fn reading(&self) -> Vec<String> {
        let mut sentences = vec![
            "The allocator's tables were copied while the process ran, so the numbers may be of different times. No \
             object was copied."
                .to_owned(),
        ];
        if self.process.is_hardened {
            sentences.push("The process is hardened: freed objects in quarantine count as in use.".to_owned());
        }
        sentences
    }

    fn memory_table(&self) -> Table {
        let memory = &self.memory;
        let cached_runs = if self.process.is_hardened { "freed runs in quarantine" } else { "cached runs" };
        let objects = [("objects in use", memory.objects), ("cached objects", memory.cached)];
        let pages = [
            ("slabs that contain these objects", memory.slabs),
            ("free pages", memory.free_pages),
            ("runs of pages in use", memory.runs),
            (cached_runs, memory.cached_runs),
            ("free runs", memory.free_runs),
        ];
        let object_rows = objects.map(|(what, bytes)| memory_row(what, bytes, None));
        let page_rows = pages.map(|(what, amount)| memory_row(what, amount.bytes, Some(amount.in_memory)));
        let columns =
            vec![Column::words("what"), Column::counting("size", "KiB"), Column::counting("in memory", "KiB")];
        let about =
            "Pages that are not in memory were never written to, were returned to the system, or are swapped out.";
        Table { about: about.to_owned(), ..Table::new("Memory", columns, object_rows.into_iter().chain(page_rows)) }
    }

    fn sizes_table(&self) -> Table {
        let rows = self.sizes.iter().map(|row| {
            let used = if row.room == 0 { 0.0 } else { row.objects as f64 / row.room as f64 };
            let counts = [row.objects, row.cached, row.slabs].map(Value::count);
            let ends = [row.bytes / KIB, row.blocks].map(Value::count);
            let cache = Value::Text(bytes_of_requests(row.request_bytes, &row.name));
            [vec![cache], counts.to_vec(), vec![Value::Share(used)], ends.to_vec()].concat()
        });
        let numbers = ["objects in use", "cached", "slabs", "in use", "KiB of slabs", "blocks"];
        let table = Table::new("Sizes", Column::several(&["cache"], &numbers), rows);
        Table {
            about: "Each cache serves requests of a range of bytes. Sheaves are arrays with the addresses of objects \
                    that CPUs cache."
                .to_owned(),
            ..table
        }
    }

    fn runs_table(&self) -> Table {
        let rows =
            self.runs.iter().filter(|row| row.runs > 0).map(|row| {
                vec![Value::Text(size(row.most_bytes)), Value::count(row.runs), Value::count(row.bytes / KIB)]
            });
        Table::new("Runs of pages in use", Column::several(&[], &["up to", "runs", "KiB"]), rows)
    }

    fn fullness_table(&self) -> Table {
        let rows = self.fullness.iter().filter(|row| row.blocks > 0).map(|row| {
            let pages = match row.most_pages {
                0 => "none".to_owned(),
                BLOCK => "all".to_owned(),
                most => format!("up to {most}"),
            };
            vec![Value::Text(pages), Value::count(row.blocks), Value::count(row.free_pages * PAGE_KIB)]
        });
        let columns = Column::several(&["pages that are slabs"], &["blocks", "KiB of free pages in memory"]);
        Table::new(format!("Blocks of {BLOCK} pages"), columns, rows)
    }

    fn pins_table(&self) -> Table {
        let rows = self.pins.iter().map(|row| {
            let counts = [row.blocks, row.alone, row.unused, row.slabs, row.objects, row.cached];
            let cache = Value::Text(bytes_of_requests(row.request_bytes, &row.name));
            [vec![cache], counts.map(Value::count).to_vec()].concat()
        });
        let numbers = [
            "blocks",
            "blocks without other caches",
            "blocks without objects in use",
            "slabs",
            "objects in use",
            "cached",
        ];
        let title = "Caches that pin blocks of which half or less are slabs";
        Table::new(title, Column::several(&["cache"], &numbers), rows)
    }

    fn blocks_table(&self) -> Table {
        let rows = self.blocks.iter().map(|row| {
            let mut pins: Vec<_> = row.pins.iter().take(PINS).map(in_words).collect();
            pins.extend((row.pins.len() > PINS).then(|| format!("{} more sizes", row.pins.len() - PINS)));
            vec![
                Value::Text(format!("{:#x}", row.address)),
                Value::count(u64::from(row.slab_pages)),
                Value::count(u64::from(row.free_pages) * PAGE_KIB),
                Value::Text(pins.join("; ")),
            ]
        });
        let mut columns = Column::several(&["block"], &["pages that are slabs", "KiB of free pages in memory"]);
        columns.push(Column::words("contents"));
        Table::new("Emptiest blocks that are not free", columns, rows)
    }
}

fn states_row(name: String, bytes: &StateBytes) -> Vec<Value> {
    let numbers = bytes.in_order().map(|bytes| Value::count(bytes.div_ceil(KIB)));
    [Value::Text(name)].into_iter().chain(numbers).collect()
}

fn memory_row(what: &str, bytes: u64, in_memory: Option<u64>) -> Vec<Value> {
    vec![Value::text(what), Value::count(bytes.div_ceil(KIB)), Value::count(in_memory.map(|bytes| bytes.div_ceil(KIB)))]
}

fn in_words(pin: &BlockPin) -> String {
    let slabs = if pin.slabs == 1 { "slab" } else { "slabs" };
    let cached = if pin.cached == 0 { String::new() } else { format!(", {} cached", pin.cached) };
    let bytes = bytes_of_requests(pin.request_bytes, &pin.name);
    format!("{bytes}: {} {slabs}, {} in use{cached}", pin.slabs, pin.objects)
}

/// Formats the bytes of the requests that a cache serves, or the kind of a cache that serves none.
fn bytes_of_requests(bytes: Option<[u32; 2]>, name: &str) -> String {
    match bytes {
        Some([least, most]) => format!("{}-{} B", count(least.into()), count(most.into())),
        None => format!("sheaves ({name})"),
    }
}

/// Formats bytes in KiB or MiB.
fn size(bytes: u64) -> String {
    match bytes {
        ..1_048_576 => format!("{} KiB", count(bytes.div_ceil(KIB))),
        _ => format!("{} MiB", count(bytes.div_ceil(KIB * KIB))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_with_a_suitable_unit() {
        assert_eq!([0, 1, 1024, 1 << 20, (5 << 20) + 1].map(size), ["0 KiB", "1 KiB", "1 KiB", "1 MiB", "6 MiB"]);
    }

    #[test]
    fn block_contents_are_described_by_size() {
        let request_bytes = Some([1025, 1280]);
        let pin = BlockPin { name: "kmalloc-1280".to_owned(), request_bytes, slabs: 2, objects: 3, cached: 1 };
        assert_eq!(in_words(&pin), "1,025-1,280 B: 2 slabs, 3 in use, 1 cached");
        assert_eq!(in_words(&BlockPin { slabs: 1, cached: 0, ..pin }), "1,025-1,280 B: 1 slab, 3 in use");
        assert_eq!(bytes_of_requests(None, "sheaf-1k"), "sheaves (sheaf-1k)");
    }
}
