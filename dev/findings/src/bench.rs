//! Page of a benchmark: the question, the method, the results, and the command that wrote the page.
//!
//! The page is written for readers who did not see the run, and is meant to be committed as `docs/findings/NAME.md`.

use std::time::Duration;

use freehold_bench::decide::{self, Margin};
use freehold_bench::recipe::Recipe;
use freehold_bench::report::{BenchReport, BenchResult};
use freehold_bench::{Bench, Effort, Method, Request, Settings};
use freehold_report::markdown::wrapped;
use freehold_report::report::Report;
use freehold_report::report::markdown::format_table;
use freehold_timing::clock::{self, Place};

use crate::data_table::DataTable;
use crate::error::Error;
use crate::{Args, Page, command};

/// Maximum runs of a comparison, and its maximum time in seconds.
const RUNS: usize = 320;
const SECONDS: u64 = 8;
/// Maximum runs in a quick run.
const RUNS_QUICK: usize = 2;
/// Differences up to this many percent count as no change.
const MARGIN: f64 = 2.0;

/// Measures one benchmark as `freehold bench NAME` does without options, and writes its page.
///
/// # Errors
/// Returns an error if the benchmark cannot be measured on this machine.
pub(crate) fn measure(bench: &'static Bench, args: &Args) -> Result<Page, Error> {
    let Place { cpu, partner } = clock::pin(None)?;
    let settings = Settings {
        effort: if args.quick { Effort::Quick } else { Effort::Full },
        margin: Margin::percent(MARGIN).expect("it is a percentage"),
        runs_max: if args.quick { RUNS_QUICK } else { RUNS },
        time: Duration::from_secs(SECONDS),
        seed: 1,
        cpu,
        partner,
        peers: None,
        mallocs: Vec::new(),
    };
    let (a, b) = (freehold_policies::parse(bench.a)?, freehold_policies::parse(bench.b)?);
    let mut recipe = Recipe::new(&[bench.method], &settings, &[&a, &b]);
    recipe.program.command = command(bench.name, args);
    let request = Request { settings, a, rivals: vec![b] };
    let result = bench.measure(&request, bench.plan(&request)?)?;
    let report = BenchReport { recipe, benches: vec![result] };
    Ok(Page { name: format!("{}.md", bench.name), text: page(bench, &report.benches[0], &report) })
}

/// Formats the page of one benchmark as Markdown.
fn page(bench: &Bench, result: &BenchResult, report: &BenchReport) -> String {
    let sections = [
        format!("# `{}`: {}", bench.name, bench.asks),
        format!(
            "This page was written by `{}`, on the machine that the recipe at the end names.",
            report.recipe.program.command
        ),
        format!("## What was asked\n\n{}", bench.question),
        format!("## What is timed\n\n{}", cases(bench, report.recipe.effort)),
        format!("## What came out\n\n{}", results(result, report)),
        format!("## How to read it\n\n{}", bench.reading),
        disturbances(result),
        format!("## How it was measured\n\n{}", method(bench, report)),
        format!("## Recipe\n\n{}", recipe(result, report)),
    ];
    let sections: Vec<String> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    wrapped(&(sections.join("\n\n") + "\n"))
}

fn cases(bench: &Bench, effort: Effort) -> String {
    let lines = (bench.cases)()
        .into_iter()
        .map(|case| format!("`{}`: {}; in {} {}.", case.name, case.about, bench.unit, case.operation));
    let cases = list(lines);
    match effort {
        Effort::Full => cases,
        Effort::Quick => format!(
            "{cases}\n\nThis was a quick run, which does about a hundredth of that: it says that it works, and not how fast."
        ),
    }
}

fn results(result: &BenchResult, report: &BenchReport) -> String {
    result.reports(&report.recipe).iter().flat_map(format_report).collect::<Vec<_>>().join("\n\n")
}

/// Formats the sides of a report, its verdict and its tables.
fn format_report(sides: &Report) -> Vec<String> {
    let [a, b] = &sides.sides;
    let named = (!a.is_empty()).then(|| format!("A is `{a}`, B is `{b}`."));
    let tables = sides.tables.iter().map(|table| match table.title.as_str() {
        "" => format_table(table),
        title => format!("### {title}\n\n{}", format_table(table)),
    });
    named.into_iter().chain(sides.verdict.iter().cloned()).chain(tables).collect::<Vec<_>>()
}

fn recipe(result: &BenchResult, report: &BenchReport) -> String {
    let rows = report
        .recipe
        .rows(&result.timing, |name| result.policies.contains(name))
        .into_iter()
        .map(|(word, meaning)| vec![word, meaning]);
    DataTable::new(&["what", "value"], rows).to_markdown()
}

/// Formats known disturbances of the measurement; empty if there are none.
fn disturbances(result: &BenchResult) -> String {
    let sentences = result.disturbances();
    if sentences.is_empty() { String::new() } else { format!("## What might disturb it\n\n{}", list(sentences)) }
}

fn method(bench: &Bench, report: &BenchReport) -> String {
    match bench.method {
        Method::Comparisons => by_comparisons(report),
        Method::Contest => by_contest(report),
    }
}

fn by_contest(report: &BenchReport) -> String {
    let margin = report.recipe.margin_percent;
    format!(
        "All contestants of a table live at the same time, and take turns on one pinned CPU. A *run* builds everybody \
         anew, in random order. The loops and sizes come in random order, and at each all contestants one after the \
         other, in random order too. There a loop is done once without being timed, then a few times, of which the \
         middle one counts. The ratio of two contestants is taken within a run, where both met the same machine; the \
         ratio shown is the median over the runs, and its interval the wider, at each end, of a bootstrap over the \
         runs and the exact one by rank, at {confidence} % confidence. A geometric mean has one ratio in each run, and \
         is judged in the same way. How many runs there are is settled by number and time, not by what comes out, so \
         the interval is looked at once.\n\n\
         What is counted is ticks of the time stamp counter, so what else ran on the CPU meanwhile does count; medians \
         do not heed it as long as that is rare. The verdict is *no change* if the interval lies within {margin} % \
         of 1, *better* or *worse* if it leaves 1 out otherwise, and else *within noise*.",
        confidence = 100.0 - decide::ERROR * 100.0,
    )
}

fn by_comparisons(report: &BenchReport) -> String {
    let recipe = &report.recipe;
    format!(
        "A and B live in one process at the same time, pinned to one CPU. A *run* builds both machines anew, once A \
         first and once B first, behind a spacer of random size: where their metadata happens to lie is chance, and \
         who comes first cancels. Each time it throws the first pairs of samples away, then takes pairs of one sample \
         each, in random order within the pair. What is timed is the thread's CPU time, so other programs do not \
         count. The run's result is the mean of its two halves, each the median of its pairs' ratios; the ratio shown \
         is the median over the runs. Its interval is the wider, at each end, of two: a bootstrap over the runs, and \
         the exact one by rank, because the bootstrap alone is too narrow when runs are few. The times beside it are \
         medians too, so their quotient is near the ratio but need not be it.\n\n\
         The verdict is *no change beyond {margin} %* if the interval lies between 1/{end} and {end}: two \
         one-sided tests, not slower and not faster by {margin} %. This holds even if the interval leaves 1 out: a \
         difference may be real and too small to matter. It is *better* or *worse* if the interval lies outside of \
         that range, or, when all runs are taken, if it leaves 1 out; otherwise *within noise*. The interval is looked at \
         after 20, 40, 80, ... runs, and the first clear answer ends the comparison. The chance of a false verdict, \
         {error} %, is split evenly between the looks, which is why the interval's confidence is above {confidence} \
         %.",
        margin = recipe.margin_percent,
        end = 1.0 + recipe.margin_percent / 100.0,
        error = decide::ERROR * 100.0,
        confidence = 100.0 - decide::ERROR * 100.0,
    )
}

/// Formats sentences as a Markdown list.
fn list(sentences: impl IntoIterator<Item = String>) -> String {
    sentences.into_iter().map(|sentence| format!("- {sentence}")).collect::<Vec<_>>().join("\n")
}
