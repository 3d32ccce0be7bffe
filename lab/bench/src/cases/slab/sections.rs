//! The cost of the primitives that keep other threads off a CPU's lists: restartable sequences, compared with no
//! exclusion and with a lock, as bare sections and in an allocator.

use freehold_object_loops::Work;
use freehold_report::report::{Table, Value};

use super::findings::Findings;
use super::rival::Primitive;
use super::rivals::SlabRival;
use crate::bar::Bar;
use crate::contest::Contest;
use crate::settings::Settings;
use crate::values;

/// Bar for sequences against no exclusion.
const ABOVE_NOTHING: Bar = Bar::RatioAtMost(1.6);
/// Bar for sequences against a lock: a quarter of its time.
const BELOW_LOCK: Bar = Bar::RatioAtMost(0.25);

/// Contestants of the contest of bare sections, in their order.
pub(super) const BARE: [(&str, Primitive); 3] =
    [("nothing", Primitive::ThreadLocal), ("rseq", Primitive::Rseq), ("a lock", Primitive::Locked)];

/// Adds the table of bare sections with their bars.
pub(super) fn bare(contest: &Contest, settings: &Settings, findings: &mut Findings) {
    let mut rows = Vec::new();
    for (a, bar) in [(0, ABOVE_NOTHING), (2, BELOW_LOCK)] {
        let duel = contest.duel_in(a, 1, 0, settings.margin).map(|duel| duel.with_bar(bar));
        duel.iter().for_each(|duel| findings.note(contest, a, 1, 0, duel));
        findings.summarize(&contest.names[a], &contest.names[1], duel.as_slice());
        rows.push(vec![
            Value::text(format!("rseq against {}", contest.names[a])),
            values::ticks(contest.ticks(a, 0)),
            values::ticks(contest.ticks(1, 0)),
            values::duel(duel.as_ref()),
            values::bar(duel.as_ref()),
        ]);
    }
    findings.tables.push(Table {
        title: "Exclusion alone".to_owned(),
        about:
            "Ticks of an object taken from a tagged list and put back, inlined: without exclusion, which is the lower \
                bound, with restartable sequences, and with a lock for each CPU."
                .to_owned(),
        columns: values::columns(1, ["comparison", "other", "rseq", "rseq/other", "bar"]),
        rows,
        conclusions: Vec::new(),
    });
}

/// Adds the table of pairs of each size under each primitive.
pub(super) fn primitives(contest: &Contest, settings: &Settings, findings: &mut Findings) {
    let [nothing, rseq, locked] =
        [SlabRival::ThreadLocal, SlabRival::Tagged, SlabRival::Locked].map(|rival| rival as usize);
    let (mut rows, mut above, mut below) = (Vec::new(), Vec::new(), Vec::new());
    for at in contest.cells_of(Work::Pair, 0) {
        let [over, under] = [(nothing, ABOVE_NOTHING), (locked, BELOW_LOCK)]
            .map(|(a, bar)| contest.duel_in(a, rseq, at, settings.margin).map(|duel| duel.with_bar(bar)));
        for (a, duel) in [(nothing, &over), (locked, &under)] {
            duel.iter().for_each(|duel| findings.note(contest, a, rseq, at, duel));
        }
        rows.push(vec![
            Value::text(contest.cells[at].size),
            values::ticks(contest.ticks(nothing, at)),
            values::ticks(contest.ticks(rseq, at)),
            values::ticks(contest.ticks(locked, at)),
            values::duel(over.as_ref()),
            values::bar(over.as_ref()),
            values::duel(under.as_ref()),
            values::bar(under.as_ref()),
        ]);
        above.extend(over);
        below.extend(under);
    }
    for (a, duels) in [(nothing, &above), (locked, &below)] {
        findings.summarize(&contest.names[a], &contest.names[rseq], duels);
    }
    findings.tables.push(Table {
        title: "Exclusion in an allocator".to_owned(),
        about: "Ticks of a pair of calls of the slab with tagged lists: without exclusion, with restartable sequences, and \
                with a lock for each CPU. Under Linux's sizes, objects of 16384 bytes come from the page allocator, which \
                has its own locks."
            .to_owned(),
        columns: values::columns(
            0,
            ["bytes", "nothing", "rseq", "a lock", "rseq/nothing", "bar of rseq/nothing", "rseq/lock", "bar of rseq/lock"],
        ),
        rows,
        conclusions: Vec::new(),
    });
}
