//! `freehold export FILE`: converts a recording into files for other tools, or into a recording without names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use freehold_convert::ExportSummary;
use freehold_report::output::{OutputError, print};
use indicatif::HumanBytes;

use super::replace::ReplaceArgs;
use crate::error::Error;

/// Arguments of `freehold export`.
#[derive(Debug, Args)]
#[command(
    after_help = "--chrome writes JSON for Perfetto (ui.perfetto.dev) and chrome://tracing. Counters: pages allocated \
                        and freed by order, blocks moved between free lists and per-CPU lists, free memory. Spans of \
                        each task: reclaim and compaction. Instant events: failures and fallbacks.\n\n\
                        --pprof writes a profile by task, kind of request and order: allocations (alloc_*), and \
                        memory still in use at the end (inuse_*).\n\n\
                        --anonymize writes a recording or a snapshot again. Names of tasks become task-1, task-2 and \
                        so on, those of slab caches cache-1, of kernel functions function-1; those that every Linux \
                        machine has stay. The command becomes `command`, the kernel's release a version, and thread \
                        ids are numbered anew. Notes that may contain names are removed. Times, sizes, frame numbers, \
                        counters and settings stay, so a replay gives the same results; they may still show what \
                        a machine does.\n\n\
                        Examples:\n  freehold export build.parquet --chrome build.json\n  \
                        freehold export build.parquet --pprof build.pb.gz\n  \
                        go tool pprof -http=: -sample_index=alloc_space build.pb.gz\n  \
                        freehold export build.parquet --anonymize public.parquet"
)]
#[command(group(clap::ArgGroup::new("targets").required(true).multiple(true).args(["anonymize", "chrome", "pprof"])))]
pub struct ExportArgs {
    /// Recording; with --anonymize alone also a snapshot
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// Write a recording in which names are replaced by numbers; a file of this name is replaced only with --force
    #[arg(long, value_name = "FILE")]
    anonymize: Option<PathBuf>,

    #[command(flatten)]
    replace: ReplaceArgs,

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
    let targets: [(&Option<PathBuf>, Export); 3] = [
        (&args.anonymize, freehold_convert::anonymize),
        (&args.chrome, freehold_convert::chrome),
        (&args.pprof, freehold_convert::pprof),
    ];
    let targets: Vec<_> = targets.into_iter().filter_map(|(path, export)| Some((path.as_deref()?, export))).collect();
    let places: BTreeSet<&Path> = targets.iter().map(|(path, _)| *path).collect();
    if places.len() < targets.len() {
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
    if let Some(path) = &args.anonymize {
        args.replace.check(path)?;
    }
    for (path, export) in targets {
        let ExportSummary { bytes } = export(&args.recording, path)?;
        print(format!("{}: {}\n", path.display(), HumanBytes(bytes)).as_bytes())?;
    }
    Ok(())
}
