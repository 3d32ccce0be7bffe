//! `freehold compare`: recordings through the engine under policy A and under each policy B.
//!
//! Every replay is exact, so one run of each is enough. The policy of the pinned kernel is replayed in any
//! case, because only it can be held against what the recorded kernel did.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;
use freehold_measure::output::{self, JsonArgs};
use freehold_measure::progress::Progress;
use freehold_measure::terminal::Style;
use freehold_registry::NamedPolicy;
use freehold_replay::Prepared;
use freehold_replay::report::comparison::ComparisonReport;
use freehold_trace::recording::Recording;

use super::SpreadArgs;
use super::replay::ReclaimArgs;
use crate::error::Error;

/// Arguments of `freehold compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The recordings; without any, the two bundled ones of a real host
    #[arg(value_name = "FILE")]
    recordings: Vec<PathBuf>,

    /// Policy A, as SET[,field=value...]; `freehold policies` lists them
    #[arg(long, value_name = "NAME", default_value = freehold_registry::BASELINE)]
    a: String,

    /// Policy B; may be given several times
    #[arg(long, value_name = "NAME", default_value = freehold_registry::BEST)]
    b: Vec<String>,

    #[command(flatten)]
    spread: SpreadArgs,

    #[command(flatten)]
    reclaim: ReclaimArgs,

    #[command(flatten)]
    json: JsonArgs,
}

/// The policies of a comparison.
struct Policies {
    a: NamedPolicy,
    rivals: Vec<NamedPolicy>,
}

/// Replays every recording under every policy and prints what changed.
pub fn run(args: &CompareArgs, style: Style) -> Result<(), Error> {
    let policies = Policies {
        a: freehold_registry::parse(&args.a)?,
        rivals: args.b.iter().map(|name| freehold_registry::parse(name)).collect::<Result<_, _>>()?,
    };
    let paths = if args.recordings.is_empty() { freehold_recordings::bundled()? } else { args.recordings.clone() };
    let recordings = paths.iter().map(|path| Recording::open(path)).collect::<Result<Vec<_>, _>>()?;
    let mut report = ComparisonReport::new(policies.a.name.clone());
    for recording in &recordings {
        compare(recording, &policies, args, &mut report)?;
    }
    Ok(output::emit(&report, &args.json, style)?)
}

/// Adds one recording to the report.
fn compare(
    recording: &Recording,
    policies: &Policies,
    args: &CompareArgs,
    report: &mut ComparisonReport,
) -> Result<(), Error> {
    let cpus = args.spread.cpus;
    let prepared = Prepared::new(&recording.reader, args.reclaim.reclaim)?;
    let replay = |policy: &NamedPolicy, cpus: Option<NonZeroU16>| {
        let progress =
            Progress::new(format!("{} under {}", recording.path.display(), policy.name), recording.reader.row_count());
        prepared.replay(&policy.name, policy.policy, cpus, |events| progress.advance(events))
    };
    let mut a = replay(&policies.a, cpus)?;
    let rivals = policies.rivals.iter().map(|b| replay(b, cpus)).collect::<Result<Vec<_>, _>>()?;
    let baseline = freehold_registry::baseline();
    // Only a replay on the recorded CPUs can be held against the recorded kernel.
    let baseline_outcome =
        if cpus.is_none() && policies.a.policy == baseline.policy { a.clone() } else { replay(&baseline, None)? };
    a.assumptions.extend(recording.release.differences());
    report.add(recording.facts(cpus), &a, &rivals, &baseline_outcome);
    Ok(())
}
