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
    after_help = "--chrome writes the JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open: counters of \
                        pages allocated and freed by order, of blocks between free lists and CPUs' lists, and of free \
                        memory; reclaim and compaction as spans of each task; failures and fallbacks as moments.\n\n\
                        --pprof writes a profile of who allocates: task, kind of request, order; what each was given \
                        (alloc_*) and what it still had at the end (inuse_*).\n\n\
                        Examples:\n  freehold export build.parquet --chrome build.json\n  \
                        freehold export build.parquet --pprof build.pb.gz\n  \
                        go tool pprof -http=: -sample_index=alloc_space build.pb.gz"
)]
#[command(group(clap::ArgGroup::new("targets").required(true).multiple(true).args(["chrome", "pprof"])))]
pub struct ExportArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// Write what went on over time, for Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    chrome: Option<PathBuf>,

    /// Write who allocates what, for pprof
    #[arg(long, value_name = "FILE")]
    pprof: Option<PathBuf>,
}

/// Function that converts a recording into a file.
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
        return Err(Error::Input("what is exported cannot be printed; name a file instead of `-`".to_owned()));
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
