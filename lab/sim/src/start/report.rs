//! Report of a start, for people and programs.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::report::{Column, Report, Table, Value};
use serde::Serialize;

use super::layout::{Kind, Layout};
use super::{Figures, Start, age};

/// Difference in the share of free pageblocks, in percentage points, above which the report mentions it.
const UNLIKE: f64 = 10.0;

/// A start in figures.
#[derive(Clone, Debug, Serialize)]
pub struct StartReport {
    /// Name of the machine or drawn start.
    pub subject: String,
    /// Age at which the share of pageblocks with fixed pages is nearest.
    pub age: u8,
    /// Figures of the start.
    pub figures: Figures,
    /// Figures of each kind of pageblock.
    pub layout: Layout,
}

impl StartReport {
    /// Creates the report of a start.
    pub fn new(subject: String, start: &Start) -> StartReport {
        let layout = Layout::from_start(start);
        let figures = layout.total();
        StartReport { subject, age: age::nearest_age(&figures), figures, layout }
    }

    fn pageblocks(&self) -> Table {
        let figures = &self.figures;
        let all = figures.pageblocks;
        let rows = [
            share_row("all", figures.pageblocks, all),
            share_row("wholly free", figures.free_pageblocks, all),
            share_row("one huge page of a task", figures.huge_pageblocks, all),
            share_row("with fixed pages (neither movable nor reclaimable)", figures.fixed_pageblocks, all),
            share_row("of the others, with reclaimable kernel objects", figures.reclaimable_pageblocks, all),
        ];
        Table::new("Pageblocks", Column::several(&["kind"], &["count", "share"]), rows)
    }

    fn pages(&self) -> Table {
        let figures = &self.figures;
        let all = figures.pages();
        let rows = [
            share_row("all", figures.pages(), all),
            share_row("free", figures.free, all),
            share_row("fixed (neither movable nor reclaimable)", figures.fixed, all),
            share_row("reclaimable kernel objects", figures.reclaimable, all),
            share_row("of files", figures.file, all),
            share_row("- active", figures.active, all),
            share_row("of tasks", figures.task, all),
        ];
        Table::new("Pages", Column::several(&["kind"], &["count", "share"]), rows)
    }
}

impl StartReport {
    fn age_sentence(&self) -> String {
        format!(
            "Age {}, by the share of pageblocks with fixed pages (60 is the median of published measurements of \
             servers)",
            self.age
        )
    }

    /// Returns a sentence on the share of free pageblocks if it differs much from a machine of that age, whose memory
    /// is full of page cache.
    fn difference_sentence(&self) -> Option<String> {
        let [here, there] = [self.figures, age::figures(self.age, self.figures.pageblocks)]
            .map(|figures| figures.free_pageblocks as f64 * 100.0 / figures.pageblocks.max(1) as f64);
        ((here - there).abs() > UNLIKE).then(|| {
            format!(
                "Wholly free pageblocks: {here:.1} % here, {there:.1} % at that age; results about huge pages differ \
                 accordingly"
            )
        })
    }

    /// Returns the table of the contents of each kind of pageblock.
    fn kinds(&self) -> Table {
        let columns = Column::several(&["pageblocks"], &["count", "fixed", "reclaimable", "movable", "free"]);
        Table::new("Kinds of pageblocks", columns, Kind::ALL.map(|kind| kind_row(kind, &self.layout.kind(kind))))
    }
}

/// Returns the row of a kind of pageblock, with the shares of its uses.
fn kind_row(kind: Kind, figures: &Figures) -> Vec<Value> {
    let uses = [figures.fixed, figures.reclaimable, figures.file + figures.task, figures.free];
    let mut row = vec![Value::text(kind.about()), Value::count(figures.pageblocks)];
    row.extend(uses.map(|count| share(count, figures.pages())));
    row
}

/// Returns a row of a count and its share of all.
fn share_row(what: &str, count: u64, all: u64) -> Vec<Value> {
    vec![Value::text(what), Value::count(count), share(count, all)]
}

fn share(part: u64, whole: u64) -> Value {
    Value::Share(part as f64 / whole.max(1) as f64)
}

impl Document for StartReport {
    fn reports(&self) -> Cow<'_, [Report]> {
        let subject = vec![self.subject.clone()];
        let conclusions = [Some(self.age_sentence()), self.difference_sentence()].into_iter().flatten().collect();
        let pageblocks = Table { conclusions, ..self.pageblocks() };
        Cow::Owned(vec![Report { subject, tables: vec![pageblocks, self.pages(), self.kinds()], ..Report::default() }])
    }
}
