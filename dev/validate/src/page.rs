//! The pages docs/fidelity.md, docs/findings/kernels.md and docs/findings/advice.md, written to files or to stdout.

use freehold_report::markdown::wrapped;
use freehold_report::output;

use crate::Args;
use crate::advice::{self, JudgedAdvice};
use crate::cell::Half;
use crate::error::Error;
use crate::prediction::{self, PredictedRow};
use crate::suite::{self, CellResult};

/// Writes a page to the file in `args`, or prints it.
///
/// # Errors
/// Returns an error if the page cannot be written.
pub(crate) fn emit(args: &Args, text: &str) -> Result<(), Error> {
    match &args.out {
        Some(file) => output::write_atomically(file, text.as_bytes())?,
        None => output::print(text.as_bytes())?,
    }
    Ok(())
}

/// Formats the page of the published changes.
pub(crate) fn changes(args: &Args, sections: &[String]) -> String {
    let recipe =
        format!("```sh\ncargo xtask oracle --changes --runs {} --out docs/findings/kernels.md\n```\n", args.runs);
    let mut parts = vec![KERNELS, &recipe];
    parts.extend(sections.iter().map(String::as_str));
    join_parts(&parts)
}

/// Formats the page that compares advice with its outcome.
pub(crate) fn advice(args: &Args, judged: &[JudgedAdvice]) -> String {
    let recipe =
        format!("```sh\ncargo xtask oracle --advice --runs {} --out docs/findings/advice.md\n```\n", args.runs);
    let (summary, table) = (advice::summary(judged), advice::table(judged));
    join_parts(&[ADVICE, &recipe, "## Levels by outcome", &summary, "## Load by load", &table])
}

fn join_parts(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().map(|part| part.trim_end()).collect();
    wrapped(&(parts.join("\n\n") + "\n"))
}

/// Formats the page of the suite, of predictions, or of both.
pub(crate) fn fidelity(args: &Args, judged: &[CellResult], predicted: &[PredictedRow]) -> String {
    let mut parts = vec!["# Fidelity".to_owned(), OPENING.to_owned(), recipe(args)];
    if !judged.is_empty() {
        parts.push(suite_opening(args, judged.len()));
        for (half, about) in [(Half::HeldOut, HELD_OUT), (Half::Open, OPEN)] {
            parts.push(format!("## The suite, {half}\n\n{about}\n\n{}", suite::table(judged, half)));
            parts.push(format!("### Errors by cell, {half}\n\n{CELLS}\n\n{}", suite::cells(judged, half)));
            parts.push(format!("### Failed requests, {half}\n\n{FAILED}\n\n{}", suite::failures(judged, half)));
        }
    }
    if !predicted.is_empty() {
        parts.push(format!("## Prediction\n\n{PREDICTION}\n\n{}", prediction::in_short(predicted)));
        parts.push(format!("### Predictions by row\n\n{PREDICTED_ROWS}\n\n{}", prediction::table(predicted)));
    }
    parts.push(DIFFERENCES.to_owned());
    let failed = failed(judged, predicted);
    if !failed.is_empty() {
        parts.push(format!("## Cells and pairs without results\n\n{failed}"));
    }
    join_parts(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Formats the list of cells and pairs that failed, each with its reason.
fn failed(judged: &[CellResult], predicted: &[PredictedRow]) -> String {
    let cells = judged.iter().filter_map(|judged| Some((judged.cell.name(), judged.runs.as_ref().err()?)));
    let pairs = predicted
        .iter()
        .filter_map(|pair| Some((format!("{} as {}", pair.cell.name(), pair.to), pair.outcome.as_ref().err()?)));
    cells.chain(pairs).map(|(name, why)| format!("- {name}: {why}\n")).collect()
}

/// Path of the track record of predictions, which `freehold advise` contains.
const TRACK_RECORD: &str = "lab/replay/src/advice/track-record.json";
const KERNELS: &str = "# `kernels`: What did the published changes do in real kernels, and does the engine \
    agree?\n\nEach table is about one load. The load is booted on the last kernel before a change and on the first \
    kernel with it, on two CPUs with 1 GiB. Numbers are means of all boots ± their standard deviation. The intervals \
    of a table hold together at 95 %. A change, in Linux and in the engine, is that of the geometric means if all \
    boots gave more than zero, and otherwise that of the means. It may therefore differ from the ratio of the means \
    beside it. Two kernels differ in more than one change. Only the engine can show the effect of one change alone.";
const ADVICE: &str = "# `advise`: Are its levels right in booted kernels?\n\nEach load is booted on Linux 6.12 with \
    the kernel's default, and as often with another value of one setting. `freehold advise --all` reads the recordings \
    of the first group and gives that value a level. The outcome is read from the kernel's own counts in both groups. \
    Concerns are failed requests, direct reclaims, direct compactions, huge pages served, pages scanned, and blocks \
    taken and drained by per-CPU lists, in this order. The first concern whose change is decided determines the \
    outcome: *helped* if the concern got better, *harmed* if it got worse. A load without a decided change is \
    *neutral*. A change is decided if its interval is beyond 2 % on one side. The intervals of the six concerns of a \
    load hold together at 95 %. The guests are emulated, and their clock counts instructions.";
/// Limits of the figures and the reasons for the differences; written by hand.
const DIFFERENCES: &str = include_str!("differences.txt");
const OPENING: &str = "This page compares the engine with real kernels. A kernel is booted in QEMU and records a \
    workload. The recording is replayed under the rules of the same kernel, and the results of the engine are compared \
    with those of the kernel. No parameter of the engine is fitted to a recording.";
const HELD_OUT: &str = "Workloads, sizes, or both that are not examined while the engine is tuned. The claims in the \
    README are about these cells.";
const OPEN: &str = "Workloads and sizes that may be examined while the engine is tuned.";
const CELLS: &str = "A cell is a kernel, a workload, a number of CPUs and a size of memory. An entry is *kernel's \
    value: engine's error (kernel's spread)*, from means of all runs.";
const FAILED: &str = "Repeated failures of one request count once. The table shows how many failures two sides have in \
    common, as a share of all failures of either side: by task and order, and by tenths of a second. Two runs of one \
    kernel show the largest share that can be expected.";
const PREDICTION: &str = "This is the use of the tool: a recording of one kernel is replayed under the rules of \
    another kernel, or under another setting. The result is compared with that other kernel, or with the same kernel \
    under that setting, on the same workload and machine. *Predicted* is the change between the two replays of the \
    first kernel's recordings, and *kernel* is the change between the two kernels. A direction is decided if the \
    interval of the kernel's change is beyond 2 % on one side, or within 2 % on both sides. A size is right if it is \
    within that interval, which is wide if the kernels' results vary much. Both scores are compared with those of the \
    prediction that nothing changes. `freehold advise` prints how often predictions about each setting came true. \
    Another size of memory cannot be replayed, because a recording is about the frames that existed.";
const PREDICTED_ROWS: &str = "Each interval holds at 95 % by itself.";

fn suite_opening(args: &Args, cells: usize) -> String {
    format!(
        "{cells} cells, each booted {} times, because a row cannot be predicted better than it repeats. An error \
         compares the means over all runs of a cell. The kernel's spread is the standard deviation of its runs, as a \
         share of their mean. An error is within the spread if it is at most two standard deviations. The CPUs of a \
         guest take turns in one thread of the emulator, whose clock counts instructions. Times are therefore those of \
         this clock, and not those of a real machine.",
        args.runs
    )
}

fn recipe(args: &Args) -> String {
    let suite = if args.suite { format!(" --suite --cells {}", args.cells) } else { String::new() };
    let prediction = if args.prediction { format!(" --prediction --pairs {}", args.pairs) } else { String::new() };
    let (runs, seed) = (args.runs, args.seed);
    let track = if args.prediction { format!(" \\\n  --track-record {TRACK_RECORD}") } else { String::new() };
    format!(
        "```sh\ncargo xtask oracle{suite}{prediction} --runs {runs} --seed {seed} --out docs/fidelity.md{track}\n```\n"
    )
}
