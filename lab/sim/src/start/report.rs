//! What a start looks like, for people and programs.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::report::{Column, Report, Table, Value};
use serde::Serialize;

use super::layout::{Kind, Layout};
use super::{Figures, Start, age};

/// A difference in free pageblocks, in percentage points, that is worth a sentence.
const UNLIKE: f64 = 10.0;

/// A start in figures.
#[derive(Clone, Debug, Serialize)]
pub struct StartReport {
    /// Whose memory it is.
    pub subject: String,
    /// The age whose share of pageblocks with something unmovable comes nearest.
    pub age: u8,
    /// Its figures.
    pub figures: Figures,
    /// Those of each kind of pageblock.
    pub layout: Layout,
}

impl StartReport {
    /// The report of a start.
    pub fn new(subject: String, start: &Start) -> StartReport {
        let layout = Layout::of(start);
        let figures = layout.total();
        StartReport { subject, age: age::nearest(&figures), figures, layout }
    }

    fn pageblocks(&self) -> Table {
        let figures = &self.figures;
        let row =
            |what: &str, count: u64| vec![Value::text(what), Value::count(count), share(count, figures.pageblocks)];
        let rows = [
            row("all", figures.pageblocks),
            row("free as a whole", figures.free_pageblocks),
            row("one huge page of a task", figures.huge_pageblocks),
            row("with something that can be neither moved nor given up", figures.fixed_pageblocks),
            row("of the others, with objects that shrinkers give up", figures.reclaimable_pageblocks),
        ];
        Table::new("Pageblocks", Column::several(&["which"], &["count", "share"]), rows)
    }

    fn pages(&self) -> Table {
        let figures = &self.figures;
        let row = |what: &str, count: u64| vec![Value::text(what), Value::count(count), share(count, figures.pages())];
        let rows = [
            row("all", figures.pages()),
            row("free", figures.free),
            row("can be neither moved nor given up", figures.fixed),
            row("kernel objects that shrinkers give up", figures.reclaimable),
            row("of files", figures.file),
            row("- active ones", figures.active),
            row("of tasks", figures.task),
        ];
        Table::new("Pages", Column::several(&["which"], &["count", "share"]), rows)
    }
}

impl StartReport {
    fn told(&self) -> String {
        format!(
            "Age {}: by the share of pageblocks with something that can be neither moved nor given up (60 is the median \
             of servers of which that was published)",
            self.age
        )
    }

    /// Where a machine of that age is otherwise: it is full of page cache.
    fn unlike(&self) -> Option<String> {
        let whole = |figures: &Figures| figures.free_pageblocks as f64 * 100.0 / figures.pageblocks.max(1) as f64;
        let (here, there) = (whole(&self.figures), whole(&age::figures(self.age, self.figures.pageblocks)));
        ((here - there).abs() > UNLIKE).then(|| {
            format!(
                "Here {here:.1} % of pageblocks are free as a whole, and {there:.1} % at that age: huge pages fare \
                 differently there"
            )
        })
    }

    /// What every kind of pageblock is full of.
    fn kinds(&self) -> Table {
        let row = |kind: Kind| {
            let figures = self.layout.kind(kind);
            let of = |count| share(count, figures.pages());
            let uses = [figures.fixed, figures.reclaimable, figures.file + figures.task, figures.free];
            [Value::text(kind.about()), Value::count(figures.pageblocks)].into_iter().chain(uses.map(of)).collect()
        };
        let columns = Column::several(&["pageblocks"], &["count", "fixed", "reclaimable", "movable", "free"]);
        Table::new("Kinds of pageblocks", columns, Kind::ALL.map(row))
    }
}

fn share(part: u64, whole: u64) -> Value {
    Value::Share(part as f64 / whole.max(1) as f64)
}

impl Document for StartReport {
    fn reports(&self) -> Cow<'_, [Report]> {
        let subject = vec![self.subject.clone()];
        let conclusions = [Some(self.told()), self.unlike()].into_iter().flatten().collect();
        let pageblocks = Table { conclusions, ..self.pageblocks() };
        Cow::Owned(vec![Report { subject, tables: vec![pageblocks, self.pages(), self.kinds()], ..Report::default() }])
    }
}
