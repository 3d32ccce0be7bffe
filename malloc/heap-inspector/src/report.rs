//! The heap map as a report.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::number::{count, percent};
use freehold_report::report::{Caveats, Column, Report, Table, Value};

use crate::map::{BlockPin, HeapMap};
use crate::slabs::BLOCK;

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
            caveats: vec![Caveats { title: "How this was read".into(), sentences: self.reading() }],
            ..Report::default()
        }])
    }
}

impl HeapMap {
    fn in_short(&self) -> Vec<String> {
        let memory = &self.memory;
        let all = memory.in_memory();
        let share = if all == 0 { 0.0 } else { memory.used() as f64 / all as f64 };
        let mut sentences = vec![
            format!(
                "The heap has {} of the {} that the process has in memory.",
                size(all),
                size(self.process.resident)
            ),
            format!(
                "The program uses {} of it ({}); {} lie idle in slabs or at hand, {} are free.",
                size(memory.used()),
                percent(share),
                size(memory.idle()),
                size(memory.free())
            ),
        ];
        let sparse: u64 = self.fullness.iter().skip(1).take(2).map(|row| row.blocks).sum();
        if let Some(pin) = self.pins.first() {
            sentences.push(format!(
                "Blocks of 2 MiB that are kept by half of their pages or less: {}, most of them, {}, by {} among others or \
                 alone.",
                count(sparse),
                count(pin.blocks),
                pin.name
            ));
        }
        sentences
    }

    fn reading(&self) -> Vec<String> {
        let mut sentences = vec![
            "The allocator's tables were copied, and no object; the process was not stopped for it, so numbers need not be \
             of one moment."
                .to_owned(),
        ];
        if self.process.is_hardened {
            sentences.push(
                "The process looks for misuse of memory: objects that are held after they were freed count as in use."
                    .to_owned(),
            );
        }
        sentences
    }

    fn memory_table(&self) -> Table {
        let memory = &self.memory;
        let cached_runs = if self.process.is_hardened { "runs held after they were freed" } else { "runs at hand" };
        let objects = [("objects in use", memory.objects), ("objects at hand", memory.cached)];
        let pages = [
            ("slabs, in which they lie", memory.slabs),
            ("pages of no slab", memory.free_pages),
            ("runs of pages in use", memory.runs),
            (cached_runs, memory.cached_runs),
            ("free runs", memory.free_runs),
        ];
        let object_rows = objects.map(|(what, bytes)| memory_row(what, bytes, None));
        let page_rows = pages.map(|(what, amount)| memory_row(what, amount.bytes, Some(amount.in_memory)));
        let columns =
            vec![Column::words("what"), Column::counting("size", "KiB"), Column::counting("in memory", "KiB")];
        let about = "What is not in memory was never written to, was given back, or is swapped out.";
        Table { about: about.to_owned(), ..Table::new("Memory", columns, object_rows.into_iter().chain(page_rows)) }
    }

    fn sizes_table(&self) -> Table {
        let rows = self.sizes.iter().map(|row| {
            let used = if row.room == 0 { 0.0 } else { row.objects as f64 / row.room as f64 };
            let counts = [row.objects, row.cached, row.slabs].map(Value::count);
            let ends = [row.bytes / KIB, row.blocks].map(Value::count);
            [vec![Value::text(&row.name)], counts.to_vec(), vec![Value::Share(used)], ends.to_vec()].concat()
        });
        let numbers = ["objects in use", "at hand", "slabs", "in use", "KiB of slabs", "blocks"];
        let table = Table::new("Sizes", Column::several(&["cache"], &numbers), rows);
        Table {
            about: "Each size is a cache; sheaves are the arrays that say what CPUs have at hand.".to_owned(),
            ..table
        }
    }

    fn runs_table(&self) -> Table {
        let rows = self
            .runs
            .iter()
            .map(|row| vec![Value::Text(size(row.most_bytes)), Value::count(row.runs), Value::count(row.bytes / KIB)]);
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
        let columns = Column::several(&["pages that are slabs"], &["blocks", "KiB of no slab in memory"]);
        Table::new(format!("Blocks of {BLOCK} pages"), columns, rows)
    }

    fn pins_table(&self) -> Table {
        let rows = self.pins.iter().map(|row| {
            let counts = [row.blocks, row.alone, row.unused, row.slabs, row.objects, row.cached];
            [vec![Value::text(&row.name)], counts.map(Value::count).to_vec()].concat()
        });
        let numbers = ["blocks", "alone in", "no object in use in", "slabs", "objects in use", "at hand"];
        let title = "What pins blocks of which half or less are slabs";
        Table::new(title, Column::several(&["cache"], &numbers), rows)
    }

    fn blocks_table(&self) -> Table {
        let rows = self.blocks.iter().map(|row| {
            let mut pins: Vec<_> = row.pins.iter().take(PINS).map(in_words).collect();
            pins.extend((row.pins.len() > PINS).then(|| format!("{} sizes more", row.pins.len() - PINS)));
            vec![
                Value::Text(format!("{:#x}", row.address)),
                Value::count(u64::from(row.slab_pages)),
                Value::count(u64::from(row.free_pages) * PAGE_KIB),
                Value::Text(pins.join("; ")),
            ]
        });
        let mut columns = Column::several(&["block"], &["pages that are slabs", "KiB of no slab in memory"]);
        columns.push(Column::words("what lies in it"));
        Table::new("The emptiest blocks that are not free", columns, rows)
    }
}

fn memory_row(what: &str, bytes: u64, in_memory: Option<u64>) -> Vec<Value> {
    vec![Value::text(what), Value::count(bytes.div_ceil(KIB)), Value::count(in_memory.map(|bytes| bytes.div_ceil(KIB)))]
}

fn in_words(pin: &BlockPin) -> String {
    let slabs = if pin.slabs == 1 { "slab" } else { "slabs" };
    let cached = if pin.cached == 0 { String::new() } else { format!(", {} at hand", pin.cached) };
    format!("{}: {} {slabs}, {} in use{cached}", pin.name, pin.slabs, pin.objects)
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
    fn sizes_are_rounded_up_in_the_unit_that_suits_them() {
        assert_eq!([0, 1, 1024, 1 << 20, (5 << 20) + 1].map(size), ["0 KiB", "1 KiB", "1 KiB", "1 MiB", "6 MiB"]);
    }

    #[test]
    fn what_lies_in_a_block_is_told_by_size() {
        let pin = BlockPin { name: "kmalloc-64".to_owned(), slabs: 2, objects: 3, cached: 1 };
        assert_eq!(in_words(&pin), "kmalloc-64: 2 slabs, 3 in use, 1 at hand");
        assert_eq!(in_words(&BlockPin { slabs: 1, cached: 0, ..pin }), "kmalloc-64: 1 slab, 3 in use");
    }
}
