//! The inspection as tables, from the machine down to single tasks.
//!
//! A chapter without content is left out, so that a calm recording gives a short text.

use comfy_table::Table;
use freehold_measure::formats::Document;
use freehold_measure::number::{ABSENT, count, decimal, duration, percent};
use freehold_measure::terminal::{Column, Style, Tone, table_text};

use super::Inspection;

/// Counters of `/proc/vmstat` in the table; JSON has all.
const VMSTAT_ROWS: usize = 24;

/// Settings in the table, because they decide most about the numbers below; JSON has all.
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
    fn reports(&self) -> std::borrow::Cow<'_, [freehold_measure::report::Report]> {
        std::borrow::Cow::Borrowed(&[])
    }

    fn text(&self, style: Style) -> String {
        let chapters = [
            self.machine_text(style),
            self.zones_text(style),
            self.settings_text(style),
            self.kinds_text(style),
            self.orders_text(style),
            self.gfp_text(style),
            self.migratetypes_text(style),
            self.lifetimes_text(style),
            self.pairing_text(style),
            self.zone_lock_text(style),
            self.fallbacks_text(style),
            self.reclaim_text(style),
            self.compaction_text(style),
            self.fragmentation_text(style),
            self.vmstat_text(style),
            self.tasks_text(style),
        ];
        let filled: Vec<_> = chapters.into_iter().filter(|chapter| !chapter.is_empty()).collect();
        filled.join("\n")
    }
}

/// A heading and a table below it; nothing if the table is empty.
fn chapter(title: &str, table: &Table, style: Style) -> String {
    if table.is_empty() {
        return String::new();
    }
    style.heading(title) + &table_text(table)
}

/// A table row of plain cells.
fn row<const N: usize>(style: Style, cells: [String; N]) -> Vec<comfy_table::Cell> {
    cells.into_iter().map(|text| style.cell(text, Tone::Plain)).collect()
}

/// `count`, or a dash for nothing at all.
fn optional(number: Option<u64>) -> String {
    number.map_or(ABSENT.to_owned(), count)
}

impl Inspection {
    fn machine_text(&self, style: Style) -> String {
        let machine = &self.machine;
        let mut text = style.heading(&self.file);
        text += &format!(
            "Linux {} on {}, {} CPUs, pages of {} bytes, pageblocks of order {}\n",
            machine.kernel_release, machine.machine, machine.cpus, machine.page_size, machine.pageblock_order
        );
        let command = machine.command.as_deref().unwrap_or("no command");
        text += &format!("{:.3} s of {command}, written by {}\n", machine.duration_seconds, machine.writer);
        text += &match machine.lost {
            0 => "no events lost\n".to_owned(),
            lost => format!("{} events lost: counts are too low and some frees lack their allocation\n", count(lost)),
        };
        let notes: Vec<_> = machine.notes.iter().map(|note| format!("note: {note}\n")).collect();
        text + &notes.concat()
    }

    fn zones_text(&self, style: Style) -> String {
        let mut table = style.table(&[
            Column::Number("node"),
            Column::Text("zone"),
            Column::Number("managed"),
            Column::Number("min"),
            Column::Number("low"),
            Column::Number("high"),
            Column::Number("boost"),
            Column::Number("free at start"),
            Column::Number("at end"),
            Column::Number("batch"),
            Column::Number("on CPU lists"),
        ]);
        for zone in &self.zones {
            table.add_row(row(
                style,
                [
                    zone.node.to_string(),
                    zone.name.clone(),
                    count(zone.managed),
                    count(zone.min),
                    count(zone.low),
                    count(zone.high),
                    count(zone.boost),
                    count(zone.free_start),
                    optional(zone.free_end),
                    optional(zone.pcp_batch.map(u64::from)),
                    count(zone.pcp_pages_start),
                ],
            ));
        }
        chapter("Zones (pages)", &table, style)
    }

    fn settings_text(&self, style: Style) -> String {
        let mut table = style.table(&[Column::Text("setting"), Column::Text("value")]);
        for name in SETTINGS {
            if let Some(value) = self.settings.get(name) {
                table.add_row(row(style, [name.to_owned(), value.clone()]));
            }
        }
        chapter("Settings", &table, style)
    }

    fn kinds_text(&self, style: Style) -> String {
        let mut table = style.table(&[Column::Text("rows"), Column::Number("count"), Column::Number("per second")]);
        for kind in &self.kinds {
            let rate = kind.per_second.map_or(ABSENT.to_owned(), |rate| count(rate.round() as u64));
            table.add_row(row(style, [kind.kind.clone(), count(kind.events), rate]));
        }
        chapter("Rows by kind", &table, style)
    }

    fn orders_text(&self, style: Style) -> String {
        let mut table = style.table(&[
            Column::Number("order"),
            Column::Number("allocations"),
            Column::Number("failed"),
            Column::Number("frees"),
            Column::Number("share"),
        ]);
        for order in &self.orders {
            table.add_row(row(
                style,
                [
                    order.order.to_string(),
                    count(order.allocations),
                    count(order.failed),
                    count(order.frees),
                    percent(order.share),
                ],
            ));
        }
        chapter("Orders", &table, style)
    }

    fn gfp_text(&self, style: Style) -> String {
        let mut table = style.table(&[
            Column::Text("class"),
            Column::Number("allocations"),
            Column::Number("failed"),
            Column::Number("share"),
        ]);
        for class in &self.gfp_classes {
            table.add_row(row(
                style,
                [class.name.clone(), count(class.allocations), count(class.failed), percent(class.share)],
            ));
        }
        chapter("GFP classes (modifiers such as __GFP_ZERO left out; JSON has whole masks)", &table, style)
    }

    fn migratetypes_text(&self, style: Style) -> String {
        let mut table = style.table(&[
            Column::Text("type"),
            Column::Number("requests"),
            Column::Number("blocks from the zone"),
            Column::Number("blocks to the zone"),
        ]);
        for entry in &self.migratetypes {
            table.add_row(row(
                style,
                [
                    entry.migratetype.to_owned(),
                    count(entry.requests),
                    count(entry.blocks_from_zone),
                    count(entry.blocks_to_zone),
                ],
            ));
        }
        chapter("Migratetypes", &table, style)
    }

    fn lifetimes_text(&self, style: Style) -> String {
        let mut table = style.table(&[
            Column::Number("order"),
            Column::Number("freed"),
            Column::Number("median"),
            Column::Number("p90"),
            Column::Number("p99"),
            Column::Number("alive at end"),
            Column::Number("share"),
        ]);
        for entry in &self.lifetimes {
            let age = |ns| {
                if entry.freed == 0 { ABSENT.to_owned() } else { duration(ns) }
            };
            table.add_row(row(
                style,
                [
                    entry.order.to_string(),
                    count(entry.freed),
                    age(entry.median_ns),
                    age(entry.p90_ns),
                    age(entry.p99_ns),
                    count(entry.live_at_end),
                    percent(entry.live_share),
                ],
            ));
        }
        chapter("Lifetimes of blocks allocated in the recording (quantiles of those freed)", &table, style)
    }

    fn pairing_text(&self, style: Style) -> String {
        let pairing = &self.pairing;
        if pairing.frees == 0 {
            return String::new();
        }
        let mut text = style.heading("Frees and their allocations");
        text += &format!(
            "{} of {} frees found their allocation; {} of those ({}) on another CPU than it\n",
            count(pairing.paired),
            count(pairing.frees),
            count(pairing.freed_on_another_cpu),
            percent(pairing.freed_on_another_cpu_share),
        );
        let mut table = style.table(&[
            Column::Text("unmatched or odd"),
            Column::Number("events"),
            Column::Number("share"),
            Column::Text("why"),
        ]);
        for odd in pairing.unmatched.iter().filter(|odd| odd.events > 0) {
            table.add_row(row(style, [odd.name.to_owned(), count(odd.events), percent(odd.share), odd.why.to_owned()]));
        }
        if !table.is_empty() {
            text += &table_text(&table);
        }
        text
    }

    fn zone_lock_text(&self, style: Style) -> String {
        let mut table = style.table(&[
            Column::Text("held for"),
            Column::Number("holds"),
            Column::Number("blocks"),
            Column::Number("pages"),
            Column::Number("pages a hold"),
        ]);
        for entry in self.zone_lock.by_purpose.iter().filter(|entry| entry.sections > 0) {
            table.add_row(row(
                style,
                [
                    entry.purpose.to_owned(),
                    count(entry.sections),
                    count(entry.blocks),
                    count(entry.pages),
                    entry.pages_per_section.map_or(ABSENT.to_owned(), decimal),
                ],
            ));
        }
        let text = chapter("Zone lock, estimated", &table, style);
        if text.is_empty() {
            return text;
        }
        let rate = self.zone_lock.sections_per_1000_operations.map_or(ABSENT.to_owned(), decimal);
        text + &format!(
            "{} holds, {rate} per 1000 allocations and frees; events of one CPU, task, zone and kind at most {} apart \
             count as one\n",
            count(self.zone_lock.sections),
            duration(self.zone_lock.gap_ns),
        )
    }

    fn fallbacks_text(&self, style: Style) -> String {
        let mut table = style.table(&[
            Column::Text("wanted"),
            Column::Text("gave"),
            Column::Number("claims"),
            Column::Number("steals"),
        ]);
        for entry in &self.fallbacks {
            table.add_row(row(
                style,
                [entry.wanted.to_owned(), entry.gave.to_owned(), count(entry.claims), count(entry.steals)],
            ));
        }
        chapter("Fallbacks (a claim takes the pageblock over, a steal leaves it its type)", &table, style)
    }

    fn reclaim_text(&self, style: Style) -> String {
        let reclaim = &self.reclaim;
        let mut table = style.table(&[Column::Text("what"), Column::Number("number")]);
        for (name, number, shown) in [
            ("kswapd woken", reclaim.kswapd_wakes, count as fn(u64) -> String),
            ("kswapd asleep again", reclaim.kswapd_sleeps, count),
            ("direct reclaims", reclaim.direct_reclaims, count),
            ("time in direct reclaim", reclaim.direct_reclaim_ns, duration),
            ("pages reclaimed directly", reclaim.direct_reclaimed_pages, count),
            ("inactive pages scanned", reclaim.inactive_scanned_pages, count),
            ("inactive pages reclaimed", reclaim.inactive_reclaimed_pages, count),
            ("active pages deactivated", reclaim.deactivated_pages, count),
        ] {
            if number > 0 {
                table.add_row(row(style, [name.to_owned(), shown(number)]));
            }
        }
        chapter("Reclaim", &table, style)
    }

    fn compaction_text(&self, style: Style) -> String {
        let compaction = &self.compaction;
        let mut table = style.table(&[Column::Text("what"), Column::Number("number")]);
        if compaction.runs > 0 {
            table.add_row(row(style, ["runs over a zone".to_owned(), count(compaction.runs)]));
            table.add_row(row(style, ["time".to_owned(), duration(compaction.ns)]));
            table.add_row(row(style, ["pages moved".to_owned(), count(compaction.migrated_pages)]));
            table.add_row(row(style, ["pages not moved".to_owned(), count(compaction.failed_pages)]));
        }
        for (result, runs) in &compaction.results {
            table.add_row(row(style, [format!("ended with {result}"), count(*runs)]));
        }
        if compaction.collapses > 0 {
            table.add_row(row(style, ["huge page collapses tried".to_owned(), count(compaction.collapses)]));
        }
        chapter("Compaction", &table, style)
    }

    fn fragmentation_text(&self, style: Style) -> String {
        let mut table = style.table(&[
            Column::Text("moment"),
            Column::Number("second"),
            Column::Number("free pages"),
            Column::Number("unusable for order 9"),
            Column::Text("free blocks by order"),
        ]);
        for entry in &self.fragmentation {
            let blocks: Vec<_> = entry.free_blocks.iter().map(u64::to_string).collect();
            table.add_row(row(
                style,
                [
                    entry.moment.to_owned(),
                    format!("{:.1}", entry.seconds),
                    count(entry.free_pages),
                    entry.unusable_free_index_order9.map_or(ABSENT.to_owned(), percent),
                    blocks.join(" "),
                ],
            ));
        }
        chapter("Fragmentation", &table, style)
    }

    fn vmstat_text(&self, style: Style) -> String {
        let mut largest: Vec<_> = self.vmstat.iter().collect();
        largest.sort_by_key(|entry| std::cmp::Reverse(entry.delta.unsigned_abs()));
        let mut table = style.table(&[
            Column::Text("counter"),
            Column::Number("start"),
            Column::Number("end"),
            Column::Number("change"),
        ]);
        for entry in largest.iter().take(VMSTAT_ROWS) {
            let sign = if entry.delta < 0 { "-" } else { "+" };
            let change = format!("{sign}{}", count(entry.delta.unsigned_abs()));
            table.add_row(row(style, [entry.name.clone(), count(entry.start), count(entry.end), change]));
        }
        let title = format!("/proc/vmstat, the {} largest of {} changes", table.row_count(), largest.len());
        chapter(&title, &table, style)
    }

    fn tasks_text(&self, style: Style) -> String {
        let mut table = style.table(&[
            Column::Text("task"),
            Column::Number("tasks"),
            Column::Number("allocations"),
            Column::Number("frees"),
            Column::Number("share"),
        ]);
        for task in &self.tasks {
            table.add_row(row(
                style,
                [task.name.clone(), count(task.tasks), count(task.allocations), count(task.frees), percent(task.share)],
            ));
        }
        chapter("Tasks by name", &table, style)
    }
}
