//! What keeps others off a CPU's lists, and what it costs: restartable sequences between nothing at all and a lock.

use freehold_objects::Work;

use super::lists::titles;
use super::{Findings, Who};
use crate::bench::Settings;
use crate::bench::bar::Bar;
use crate::bench::contest::Contest;
use crate::bench::sheet::{Entry, Sheet, bars};

/// Most that a sequence may take, by what nothing at all takes.
const ABOVE_NOTHING: Bar = Bar::RatioAtMost(1.6);
/// Most that a sequence may take, by what a lock takes: a quarter.
const BELOW_LOCK: Bar = Bar::RatioAtMost(0.25);

/// Pairs of each size under each primitive.
pub fn primitives(contest: &Contest, settings: &Settings, findings: &mut Findings) {
    let [nothing, rseq, locked] = [Who::ThreadLocal, Who::Tagged, Who::Locked].map(|who| who as usize);
    let (mut rows, mut above, mut below) = (Vec::new(), Vec::new(), Vec::new());
    for at in contest.cells_of(Work::Pair, 0) {
        let duel = |a, bar| contest.duel_in(a, rseq, at, settings.margin).map(|duel| duel.with_bar(bar));
        let (over, under) = (duel(nothing, ABOVE_NOTHING), duel(locked, BELOW_LOCK));
        for (a, duel) in [(nothing, &over), (locked, &under)] {
            duel.iter().for_each(|duel| findings.note(contest, a, rseq, at, duel));
        }
        rows.push(vec![
            Entry::plain(contest.cells[at].size),
            Entry::ticks(contest.ticks(nothing, at)),
            Entry::ticks(contest.ticks(rseq, at)),
            Entry::ticks(contest.ticks(locked, at)),
            Entry::duel(over.as_ref()),
            Entry::bar(over.as_ref()),
            Entry::duel(under.as_ref()),
            Entry::bar(under.as_ref()),
        ]);
        above.extend(over);
        below.extend(under);
    }
    findings.sheets.push(Sheet {
        title: "What keeps others off a CPU's lists".to_owned(),
        about:
            "Ticks of a pair of tagged lists: with nothing, where each thread stands for a CPU of its own and is never moved, \
                which is the least that sections could cost; with restartable sequences; with a lock for each CPU. \
                Objects of 16384 bytes come from the page allocator, whose own locks are the same in all three."
                .to_owned(),
        columns: titles(&["bytes", "nothing", "rseq", "a lock", "rseq/nothing", "bar", "rseq/lock", "bar"]),
        words: 0,
        rows,
        conclusions: vec![
            format!("Against nothing, the bar is {}.", bars(&above)),
            format!("Against a lock, the bar is {}.", bars(&below)),
        ],
    });
}
