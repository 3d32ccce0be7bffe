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
            parts.push(format!("### Cell by cell, {half}\n\n{CELLS}\n\n{}", suite::cells(judged, half)));
            parts.push(format!("### Failed requests, {half}\n\n{FAILED}\n\n{}", suite::failures(judged, half)));
        }
    }
    if !predicted.is_empty() {
        parts.push(format!("## Prediction\n\n{PREDICTION}\n\n{}", prediction::in_short(predicted)));
        parts.push(format!("### Row by row\n\n{PREDICTED_ROWS}\n\n{}", prediction::table(predicted)));
    }
    parts.push(DIFFERENCES.to_owned());
    let failed = failed(judged, predicted);
    if !failed.is_empty() {
        parts.push(format!("## What gave no numbers\n\n{failed}"));
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
const KERNELS: &str = "# `kernels`: What did the published changes do in real kernels, and does the engine say the same?\n\n\
    Each table stands on one load, booted on the kernel before a change and on the one that has it, on two CPUs with 1 GiB. \
    Numbers are means of all boots, ± their standard deviation; intervals hold together at 95 %. A change, of Linux and of \
    the engine, is that of the geometric means where all boots gave more than zero, and that of the means elsewhere: so it \
    may differ from the ratio of the means beside it. Two kernels differ in more than one change: what a change does alone, \
    only the engine can say.";
const ADVICE: &str = "# `advise`: Are its levels right in booted kernels?\n\n\
    Each load is booted on Linux 6.12 as the kernel is, and as often with another value of one setting. `freehold advise \
    --all` reads the recordings of the first group and gives that value a level. The outcome is read from the kernel's own \
    counts in both groups. Concerns are failed requests, direct reclaims, direct compactions, huge pages served, pages \
    scanned, and blocks taken and drained by per-CPU lists, in this order. The first concern whose change is decided gives \
    the outcome: *helped* if it got better, *harmed* if it got worse. A load without a decided change is *neutral*. A change \
    is decided if its interval lies beyond 2 % on one side. Intervals of the six concerns of a load hold together at 95 %. \
    The guests are emulated, and their clock counts instructions.";
/// Limits of the figures and the reasons for the differences; written by hand.
const DIFFERENCES: &str = include_str!("differences.txt");
const OPENING: &str = "How near the engine comes to real kernels. A kernel is booted in QEMU and records a workload; the \
    recording is replayed under the rules of that very kernel; and what the engine did is held against what the kernel did. \
    Nothing in the engine is fitted to a recording.";
const HELD_OUT: &str =
    "Workloads, sizes, or both that nobody looks at while the engine is tuned. What README claims is said of these.";
const OPEN: &str = "Workloads and sizes that may be looked at while the engine is tuned.";
const CELLS: &str =
    "Kernel, workload, CPUs, memory; each row is *kernel: engine's error (kernel's spread)*, of means of all runs.";
const FAILED: &str = "What is asked again in vain counts once. Shares are of what both have of each task and order, or of \
    each tenth of a second, among what either has. Two runs of one kernel say how much that can be.";
const PREDICTION: &str = "What users do with the tool: recorded on one kernel, replayed under the rules of another or under \
    another setting, and held against that other kernel, or the same one set so, on the same workload and machine. \
    *Predicted* is the change between the two replays of the first kernel's recordings, *the kernel* the change between the \
    two kernels. A direction is decided where the interval of the kernel's change lies beyond 2 % on one side, or within \
    2 % on both; a size is right within that interval, which is wide where kernels repeat badly. Both are held against \
    predicting that nothing changes. `freehold advise` says how often it came true for each setting. Another size of memory cannot be replayed: a recording is about the frames that there \
    were.";
const PREDICTED_ROWS: &str = "Intervals hold each at 95 %.";

fn suite_opening(args: &Args, cells: usize) -> String {
    format!(
        "{cells} cells, each booted {} times, since no row can be predicted better than it repeats. An error is that of the \
         means over all runs of a cell; the kernel's spread is the standard deviation of its runs as a share of their mean; \
         an error is within it if it is no more than two deviations. CPUs of a guest take turns in one thread of the emulator, \
         whose clock counts instructions: times are those of that clock, and of no machine.",
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
