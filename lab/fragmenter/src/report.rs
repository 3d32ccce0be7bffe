//! Report of the fragmentation of a machine's memory, for people and programs.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::report::{Column, Report, Table, Value};
use serde::Serialize;

use super::kind::Kind;
use super::zones::Free;

/// Denominator of the maximum share of lost pageblocks that compaction may free for the proof to hold.
pub(crate) const RETURNED_PART: u64 = 10;

/// Result of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct KindReport {
    /// The kind.
    pub kind: Kind,
    /// Whether each page is in the requested frame. Otherwise the kernel placed the pages, and the result was measured.
    pub page_by_page: bool,
    /// Pageblocks for which pages were allocated.
    pub pageblocks: u64,
    /// Pageblocks that were to hold pages of this kind.
    pub wanted_pageblocks: u64,
    /// Pageblocks that hold pages of this kind.
    pub held_pageblocks: u64,
    /// Pages that were to be held.
    pub wanted_pages: u64,
    /// Pages that are held.
    pub held_pages: u64,
}

impl KindReport {
    fn row(&self) -> Vec<Value> {
        vec![
            Value::text(self.kind),
            Value::text(if self.page_by_page { "page by page" } else { "in order of allocation" }),
            Value::count(self.pageblocks),
            Value::count(self.wanted_pageblocks),
            Value::count(self.held_pageblocks),
            Value::count(self.wanted_pages),
            Value::count(self.held_pages),
        ]
    }
}

/// Result of the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// At most a tenth of the lost pageblocks became free, and most of the control's did.
    Holds,
    /// More than a tenth of the lost pageblocks became free.
    Returned,
    /// No pageblock was lost, or compaction gave up before it reached the control.
    Nothing,
}

/// Effect of compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// Pageblocks that were wholly free, and hold pages since.
    pub lost_pageblocks: u64,
    /// Lost pageblocks that compaction of all memory made free again.
    pub returned_pageblocks: u64,
    /// Pageblocks with movable pages that were made as a control.
    pub control_pageblocks: u64,
    /// Pageblocks of the control that compaction made free again.
    pub control_returned: u64,
}

impl Proof {
    /// Returns the result of the proof.
    pub fn verdict(&self) -> Verdict {
        match () {
            () if self.returned_pageblocks * RETURNED_PART > self.lost_pageblocks => Verdict::Returned,
            () if self.lost_pageblocks == 0 || self.control_returned * 2 <= self.control_pageblocks => Verdict::Nothing,
            () => Verdict::Holds,
        }
    }
}

/// Free memory at several moments.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Moments {
    /// At the start.
    pub before: Free,
    /// After memory was fragmented.
    pub applied: Free,
    /// After all memory was compacted, if it was.
    pub compacted: Option<Free>,
    /// At the end of the requested time.
    pub held: Free,
    /// After everything was undone.
    pub undone: Free,
}

/// Report of the fragmentation.
#[derive(Clone, Debug, Serialize)]
pub struct FragmentReport {
    /// Description of the machine and the request.
    pub subject: String,
    /// Result of each kind.
    pub kinds: Vec<KindReport>,
    /// Free memory of the whole machine.
    pub free: Moments,
    /// Effect of compaction, if it was requested.
    pub proof: Option<Proof>,
    /// Pageblocks whose pins were replaced by pins elsewhere while memory stayed fragmented.
    pub renewed_pageblocks: u64,
    /// Remarks on the result.
    pub notes: Vec<String>,
}

impl FragmentReport {
    fn kinds(&self) -> Table {
        let numbers = ["pageblocks", "requested", "with pages", "pages requested", "pages held"];
        let table = Table::new(
            "Placed pages",
            Column::several(&["kind", "placed"], &numbers),
            self.kinds.iter().map(KindReport::row),
        );
        Table { conclusions: self.conclusions(), ..table }
    }

    fn conclusions(&self) -> Vec<String> {
        let (mut all, mut wanted, mut held) = (0, 0, 0);
        for kind in &self.kinds {
            all += kind.pageblocks;
            wanted += kind.wanted_pageblocks;
            held += kind.held_pageblocks;
        }
        let reached = format!(
            "Pageblocks with such pages: {held} of {all} ({:.1} %); requested: {wanted} ({:.1} %)",
            percentage(held, all),
            percentage(wanted, all)
        );
        let renewed = (self.renewed_pageblocks > 0)
            .then(|| format!("Pageblocks that were replaced by others meanwhile: {}", self.renewed_pageblocks));
        [reached].into_iter().chain(renewed).chain(self.proof.map(|proof| proof_sentence(&proof))).collect()
    }

    fn moments(&self) -> Table {
        let Moments { before, applied, compacted, held, undone } = self.free;
        let moments = [
            ("before", Some(before)),
            ("applied", Some(applied)),
            ("compacted", compacted),
            ("at the end", Some(held)),
            ("undone", Some(undone)),
        ];
        let rows = moments.into_iter().filter_map(|(moment, free)| {
            let Free { pages, pageblocks, unusable_free_index_order9 } = free?;
            Some(vec![
                Value::text(moment),
                Value::count(pages),
                Value::count(pageblocks),
                Value::decimal(Some(unusable_free_index_order9)),
            ])
        });
        let numbers = ["free pages", "free pageblocks", "unusable index"];
        Table::new("The machine", Column::several(&["moment"], &numbers), rows)
    }
}

fn percentage(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

/// Formats the effect of compaction and the conclusion from it.
fn proof_sentence(proof: &Proof) -> String {
    let Proof { lost_pageblocks, returned_pageblocks, control_pageblocks, control_returned } = proof;
    let verdict = match proof.verdict() {
        Verdict::Holds => "the pages cannot be moved",
        Verdict::Returned => "the pages can be moved",
        Verdict::Nothing if *lost_pageblocks == 0 => "no proof, since no pageblock was lost",
        Verdict::Nothing => "no proof, since compaction did not free the control",
    };
    format!(
        "Compaction freed {returned_pageblocks} of {lost_pageblocks} lost pageblocks, and {control_returned} of \
         {control_pageblocks} of the control: {verdict}"
    )
}

impl Document for FragmentReport {
    fn reports(&self) -> Cow<'_, [Report]> {
        let subject = [self.subject.clone()].into_iter().chain(self.notes.iter().cloned()).collect();
        Cow::Owned(vec![Report { subject, tables: vec![self.kinds(), self.moments()], ..Report::default() }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_a_tenth_of_the_pageblocks_may_return() {
        for (lost_pageblocks, returned_pageblocks, control_returned, expected) in [
            (20, 2, 16, Verdict::Holds),
            (20, 0, 9, Verdict::Holds),
            (20, 3, 16, Verdict::Returned),
            (20, 20, 0, Verdict::Returned),
            (20, 0, 8, Verdict::Nothing),
            (0, 0, 16, Verdict::Nothing),
        ] {
            let proof = Proof { lost_pageblocks, returned_pageblocks, control_pageblocks: 16, control_returned };
            assert_eq!(proof.verdict(), expected, "{proof:?}");
        }
    }
}
