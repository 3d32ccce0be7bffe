//! `freehold snapshot`: writes this machine's memory at one moment, as a recording without events.

use std::path::{Path, PathBuf};

use clap::Args;
use freehold_record::SnapshotSummary;
use freehold_report::terminal::{Style, wrapped};
use freehold_trace::folder_of;
use indicatif::{HumanBytes, HumanCount};

use super::anonymize::AnonymizeArgs;
use super::replace::ReplaceArgs;
use crate::error::Error;

/// Arguments of `freehold snapshot`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo freehold snapshot                        write snapshot.parquet\n  \
    sudo freehold snapshot --out monday.parquet   write another file\n  \
    freehold inspect monday.parquet               print its contents, on any machine\n\n\
    A snapshot contains the page flags of every frame, zones, slab caches, settings and counters, but no contents of \
    memory and no names of programs. It is taken without tracing, in about a second for 24 GiB.")]
pub struct SnapshotArgs {
    /// Snapshot to write; a file of this name is replaced only with --force
    #[arg(long, short, value_name = "FILE", default_value = "snapshot.parquet")]
    out: PathBuf,

    #[command(flatten)]
    replace: ReplaceArgs,

    #[command(flatten)]
    anonymize: AnonymizeArgs,

    /// Print nothing
    #[arg(long, short)]
    quiet: bool,

    /// Folder for page flags while they are read, 8 bytes a page [default: folder of the snapshot]
    #[arg(long, value_name = "FOLDER")]
    spool: Option<PathBuf>,
}

/// Takes a snapshot and prints a summary to stderr.
pub(crate) fn run(args: &SnapshotArgs) -> Result<(), Error> {
    args.replace.check(&args.out)?;
    let taken = freehold_record::snapshot(&args.out, args.spool(), args.anonymize.identity())?;
    if !args.quiet {
        eprint!(
            "{}",
            describe_snapshot(&taken, &args.out).lines().map(|line| wrapped(line, Style::PLAIN)).collect::<String>()
        );
    }
    Ok(())
}

impl SnapshotArgs {
    fn spool(&self) -> &Path {
        self.spool.as_deref().unwrap_or(folder_of(&self.out))
    }
}

/// Formats the summary.
fn describe_snapshot(taken: &SnapshotSummary, out: &Path) -> String {
    let bytes = out.metadata().map_or(0, |metadata| metadata.len());
    let head = format!("{}: {} rows, {}\n", out.display(), HumanCount(taken.rows), HumanBytes(bytes));
    taken.notes.iter().fold(head, |text, note| format!("{text}  {note}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_summary_includes_every_note() {
        let notes = vec!["a note".to_owned(), "another".to_owned()];
        let taken = SnapshotSummary { rows: 1_234_567, notes };
        let text = describe_snapshot(&taken, Path::new("/no/such/file"));
        assert_eq!(text, "/no/such/file: 1,234,567 rows, 0 B\n  a note\n  another\n");
    }

    #[test]
    fn default_snapshot_spool_is_the_output_folder() {
        for (out, spool, expected) in
            [("s.parquet", None, "."), ("a/s.parquet", None, "a"), ("a/s.parquet", Some("b"), "b")]
        {
            let replace = ReplaceArgs::default();
            let anonymize = AnonymizeArgs::default();
            let args =
                SnapshotArgs { out: out.into(), replace, anonymize, quiet: true, spool: spool.map(PathBuf::from) };
            assert_eq!(args.spool(), Path::new(expected));
        }
    }
}
