//! `freehold export FILE`: converts a recording into files for other tools.

use std::path::{Path, PathBuf};

use clap::Args;
use freehold_convert::ExportSummary;
use freehold_report::output::{OutputError, print};
use indicatif::HumanBytes;

use crate::error::Error;

/// Arguments of `freehold export`.
#[derive(Debug, Args)]
#[command(
    after_help = "--chrome writes JSON for Perfetto (ui.perfetto.dev) and chrome://tracing. Counters: pages allocated \
                        and freed by order, blocks moved between free lists and per-CPU lists, free memory. Spans of \
                        each task: reclaim and compaction. Instant events: failures and fallbacks.\n\n\
                        --pprof writes a profile by task, kind of request and order: allocations (alloc_*), and \
                        memory still in use at the end (inuse_*).\n\n\
                        Examples:\n  freehold export build.parquet --chrome build.json\n  \
                        freehold export build.parquet --pprof build.pb.gz\n  \
                        go tool pprof -http=: -sample_index=alloc_space build.pb.gz"
)]
#[command(group(clap::ArgGroup::new("targets").required(true).multiple(true).args(["chrome", "pprof"])))]
pub struct ExportArgs {
    /// Recording
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// Write a trace for Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    chrome: Option<PathBuf>,

    /// Write an allocation profile for pprof
    #[arg(long, value_name = "FILE")]
    pprof: Option<PathBuf>,
}

/// Function that converts the recording at the first path into a file at the second path.
type Export = fn(&Path, &Path) -> Result<ExportSummary, freehold_convert::Error>;

/// Writes each requested file and prints its size.
pub(crate) fn run(args: &ExportArgs) -> Result<(), Error> {
    let targets: [(&Option<PathBuf>, Export); 2] =
        [(&args.chrome, freehold_convert::chrome), (&args.pprof, freehold_convert::pprof)];
    let targets: Vec<_> = targets.into_iter().filter_map(|(path, export)| Some((path.as_deref()?, export))).collect();
    if matches!(targets[..], [(one, _), (other, _)] if one == other) {
        return Err(OutputError::SamePlace.into());
    }
    if targets.iter().any(|(path, _)| *path == Path::new("-")) {
        return Err(Error::Input("an export cannot be written to stdout; name a file instead of `-`".to_owned()));
    }
    let recording = args.recording.canonicalize().ok();
    if let Some((path, _)) =
        targets.iter().find(|(path, _)| recording.is_some() && path.canonicalize().ok() == recording)
    {
        return Err(OutputError::Input(path.to_path_buf()).into());
    }
    for (path, export) in targets {
        let ExportSummary { bytes } = export(&args.recording, path)?;
        print(format!("{}: {}\n", path.display(), HumanBytes(bytes)).as_bytes())?;
    }
    Ok(())
}
