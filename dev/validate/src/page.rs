//! The page docs/findings/advice.md, written to a file or to stdout.

use freehold_report::markdown::wrapped;
use freehold_report::output;

use crate::Args;
use crate::advice::{self, JudgedAdvice};
use crate::error::Error;

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

const ADVICE: &str = "# `advise`: Are its levels right in booted kernels?\n\n\
    Each load is booted on Linux 6.12 as the kernel is, and as often with another value of one setting. `freehold advise \
    --all` reads the recordings of the first group and gives that value a level. The outcome is read from the kernel's own \
    counts in both groups. Concerns are failed requests, direct reclaims, direct compactions, huge pages served, pages \
    scanned, and blocks taken and drained by per-CPU lists, in this order. The first concern whose change is decided gives \
    the outcome: *helped* if it got better, *harmed* if it got worse. A load without a decided change is *neutral*. A change \
    is decided if its interval lies beyond 2 % on one side. Intervals of the six concerns of a load hold together at 95 %. \
    The guests are emulated, and their clock counts instructions.";
