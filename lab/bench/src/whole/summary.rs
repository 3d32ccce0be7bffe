//! Summary of programs: the mean and the worst ratio of Freehold's cost to that of the C library's malloc, and to that
//! of the best other malloc of each program.
//!
//! The best other malloc of a program is chosen by its median in the first half of the rounds, and compared in the
//! other half. A choice and a comparison in the same rounds would favour the luckiest malloc.

use std::ops::Range;

use freehold_report::report::{Column, Table, Value};
use freehold_stats::intervals::median;
use freehold_workloads::malloc::Table as LoadTable;
use serde::Serialize;

use super::costs::Costs;
use super::ratio::{CPU, Figure, PEAK, Ratio, format_cell};
use super::roster::LIBC_PLACE;

/// Compared figures and their names.
const FIGURES: [(&str, Figure); 2] = [("CPU time", CPU), ("peak resident memory", PEAK)];

/// A row of the summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SummaryRow {
    /// Description of the other malloc.
    other: &'static str,
    figure: &'static str,
    /// Geometric mean over the programs.
    mean: Option<Ratio>,
    /// Highest ratio of a program, and the name of the program.
    worst: Option<Ratio>,
    worst_program: String,
    /// Name of the program and of the malloc that it is compared with.
    others: Vec<(String, String)>,
}

/// A program, and the malloc that Freehold is compared with.
type Pair = (usize, usize);

/// Summarizes the programs. `rivals` are the mallocs that may be the best of a program, and `names` those of all
/// mallocs.
pub(super) fn summarize(costs: &Costs<'_>, rivals: &[usize], names: &[String]) -> Vec<SummaryRow> {
    let programs = costs.loads_of(LoadTable::Programs);
    let (all, half) = (costs.rounds.len(), costs.rounds.len() / 2);
    let mut rows = Vec::new();
    for (name, figure) in FIGURES {
        let pairs: Vec<Pair> = programs.iter().map(|&program| (program, LIBC_PLACE)).collect();
        rows.push(compare(costs, &pairs, 0..all, figure).named("libc", name, costs, &pairs, names));
    }
    for (name, figure) in FIGURES {
        let pairs =
            programs.iter().filter_map(|&program| Some((program, best(costs, program, rivals, 0..half, figure)?)));
        let pairs: Vec<Pair> = pairs.collect();
        rows.push(compare(costs, &pairs, half..all, figure).named(
            "the best of each program",
            name,
            costs,
            &pairs,
            names,
        ));
    }
    rows
}

/// Returns the malloc with the lowest median in these rounds, among those that completed the program in all of them.
fn best(costs: &Costs<'_>, program: usize, rivals: &[usize], rounds: Range<usize>, figure: Figure) -> Option<usize> {
    let mut lowest: Option<(usize, f64)> = None;
    for &rival in rivals {
        let values = costs.rounds[rounds.clone()].iter().map(|round| round[program][rival].as_ref().map(figure));
        let Some(mut values) = values.collect::<Option<Vec<f64>>>().filter(|values| !values.is_empty()) else {
            continue;
        };
        let value = median(&mut values);
        if lowest.is_none_or(|(_, least)| value < least) {
            lowest = Some((rival, value));
        }
    }
    lowest.map(|(rival, _)| rival)
}

/// Mean and worst ratio over pairs.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    mean: Option<Ratio>,
    worst: Option<(usize, Ratio)>,
}

/// Compares Freehold with the other malloc of each pair in these rounds.
fn compare(costs: &Costs<'_>, pairs: &[Pair], rounds: Range<usize>, figure: Figure) -> Comparison {
    let seed = costs.request.seed;
    let mut worst: Option<(usize, Ratio)> = None;
    for pair in pairs {
        let ratio = Ratio::from_logs(&mean_logs(costs, std::slice::from_ref(pair), rounds.clone(), figure), seed);
        if let Some(ratio) = ratio.filter(|ratio| worst.is_none_or(|(_, high)| ratio.ratio > high.ratio)) {
            worst = Some((pair.0, ratio));
        }
    }
    Comparison { mean: Ratio::from_logs(&mean_logs(costs, pairs, rounds, figure), seed), worst }
}

/// Returns the mean logarithm of the ratios of all pairs, for each round in which all of them have a ratio.
fn mean_logs(costs: &Costs<'_>, pairs: &[Pair], rounds: Range<usize>, figure: Figure) -> Vec<f64> {
    let mut means = Vec::new();
    for round in costs.rounds[rounds].iter().filter(|_| !pairs.is_empty()) {
        let logs = pairs.iter().map(|&(program, other)| {
            let (ours, theirs) = (round[program][0].as_ref()?, round[program][other].as_ref()?);
            Some((figure(ours) / figure(theirs)).ln())
        });
        means.extend(logs.sum::<Option<f64>>().map(|sum| sum / pairs.len() as f64));
    }
    means
}

impl Comparison {
    fn named(
        self,
        other: &'static str,
        figure: &'static str,
        costs: &Costs<'_>,
        pairs: &[Pair],
        names: &[String],
    ) -> SummaryRow {
        let loads = &costs.request.loads;
        let others = pairs.iter().map(|&(program, malloc)| (loads[program].name.clone(), names[malloc].clone()));
        SummaryRow {
            other,
            figure,
            mean: self.mean,
            worst: self.worst.map(|(_, ratio)| ratio),
            worst_program: self.worst.map_or_else(String::new, |(program, _)| loads[program].name.clone()),
            others: others.collect(),
        }
    }
}

/// Returns the table of the summary.
pub(super) fn summary_table(rows: &[SummaryRow]) -> Table {
    let columns = Column::several(&["other malloc", "figure"], &["geometric mean", "worst", "worst program"]);
    let rows = rows.iter().map(|row| {
        let worst = [format_cell(row.worst), Value::text(&row.worst_program)];
        [Value::text(row.other), Value::text(row.figure), format_cell(row.mean)].into_iter().chain(worst).collect()
    });
    Table::new(
        "Programs, summary: Freehold's cost divided by that of the other malloc",
        columns,
        rows.collect::<Vec<_>>(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::cost::{Cost, Rounds};
    use super::super::request::Request;
    use super::*;

    /// Returns the cost with this CPU time and twice this peak memory.
    fn cost(figure: u64) -> Option<Cost> {
        let (cpu_ns, peak_kib) = (figure, 2 * figure);
        let (resident_kib, charged_kib, steps) = (1, 0, 1);
        Some(Cost {
            cpu_ns,
            peak_kib,
            resident_kib,
            live_bytes: 0,
            start_kib: 0,
            faults: 0,
            steps,
            lost: 0,
            charged_kib,
        })
    }

    fn names() -> Vec<String> {
        ["freehold", "libc", "one", "two"].map(str::to_owned).to_vec()
    }

    fn summarize_rounds(rounds: &Rounds) -> Vec<SummaryRow> {
        let request = Request::planted(LoadTable::Programs, &["first", "second"]);
        let costs = Costs { request: &request, rounds, mallocs: 4 };
        summarize(&costs, &[1, 2, 3], &names())
    }

    /// Returns nine rounds of two programs. Freehold takes 100 at the first and 200 at the second, libc half as much
    /// and twice as much. The malloc `one` has `early` in the first four rounds, and `late` in the others.
    fn rounds(early: u64, late: u64) -> Rounds {
        let mut rounds = Rounds::new();
        for round in 0..9 {
            let one = if round < 4 { early } else { late };
            rounds.push(vec![
                vec![cost(100), cost(50), cost(one), cost(1000)],
                vec![cost(200), cost(400), cost(800), cost(800)],
            ]);
        }
        rounds
    }

    fn assert_ratio(ratio: Option<Ratio>, expected: f64) {
        let ratio = ratio.unwrap().ratio;
        assert!((ratio - expected).abs() < 1e-9, "{ratio} is not {expected}");
    }

    #[test]
    fn mean_and_worst_ratio_to_libc_are_of_all_rounds() {
        let rows = summarize_rounds(&rounds(40, 40));
        assert_eq!((rows[0].other, rows[0].figure, rows[1].figure), ("libc", "CPU time", "peak resident memory"));
        for row in &rows[..2] {
            assert_ratio(row.mean, 1.0);
            assert_ratio(row.worst, 2.0);
            assert_eq!(row.worst_program, "first");
        }
    }

    #[test]
    fn rival_is_chosen_and_compared_in_different_rounds() {
        let rows = summarize_rounds(&rounds(40, 25));
        let best = &rows[2];
        assert_eq!((best.others[0].1.as_str(), best.others[1].1.as_str()), ("one", "libc"));
        assert_ratio(best.worst, 4.0);
        assert_ratio(best.mean, (4.0_f64 * 0.5).sqrt());
        // A malloc that is best only in the later rounds is not chosen.
        assert_ratio(summarize_rounds(&rounds(60, 1))[2].worst, 2.0);
    }

    #[test]
    fn failed_rival_is_not_chosen_and_one_round_chooses_none() {
        let mut failed = rounds(40, 40);
        failed[1][0][2] = None;
        assert_eq!(summarize_rounds(&failed)[2].others[0].1, "libc");
        let one = summarize_rounds(&rounds(40, 40)[..1].to_vec());
        assert!(one[0].mean.is_some() && one[2].mean.is_none() && one[2].worst.is_none());
    }
}
