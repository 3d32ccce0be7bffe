//! `freehold age --apply`: fragments this machine's memory to an age while a command runs or for a time, and undoes it
//! afterwards.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use freehold_fragmenter::{Check, EndReason, FragmentReport, Kind, PageSet, Plan, Verdict, Watch};
use freehold_report::formats::Formats;
use freehold_report::notes;
use freehold_report::output::OutputError;
use freehold_report::terminal::Style;
use freehold_sim::plan::{Bytes, BytesError};
use freehold_sim::start::shares::Percent;
use freehold_sim::start::{PAGEBLOCK_PAGES, Pageblock, Start, Use};

use super::expect_each_once;
use super::record::seconds;
use crate::error::Error;

/// Default share of the free memory beyond the machine's own need, in percent.
const PERCENT: &str = "80";

/// Arguments of `freehold age` that mean the running machine.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// Fragment this machine's memory while COMMAND runs, or until Ctrl-C (Linux, as root)
    #[arg(long)]
    apply: bool,

    /// Kinds of unmovable pages, in equal parts. `pins` are placed page by page as generated. The kernel places the
    /// other kinds, and the report has the result. `movable` is a control: pages that compaction can move
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', requires = "apply",
          default_values_t = Kind::UNMOVABLE, help_heading = "With --apply")]
    with: Vec<Kind>,

    /// Undo the fragmentation after S seconds; COMMAND then gets SIGTERM if it still runs
    #[arg(long = "for", value_name = "S", value_parser = seconds, requires = "apply", help_heading = "With --apply")]
    duration: Option<Duration>,

    /// After fragmenting, compact all memory of the machine, and check that at most a tenth of the lost pageblocks
    /// becomes free again. With neither --for nor COMMAND, end after the check
    #[arg(long, requires = "apply", help_heading = "With --apply")]
    check: bool,

    /// Keep fragmenting: release the pins of N pageblocks a second and pin other pageblocks, in a process with the
    /// lowest CPU priority [default: 8]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "8",
          value_parser = clap::value_parser!(u64).range(1..=640), requires = "apply", help_heading = "With --apply")]
    sustain: Option<u64>,

    /// Command to run on the fragmented machine; its exit status is passed on
    #[arg(last = true, value_name = "COMMAND", requires = "apply")]
    command: Vec<OsString>,
}

impl ApplyArgs {
    /// Returns whether `--apply` is given.
    pub(crate) fn is_asked(&self) -> bool {
        self.apply
    }
}

/// Amount of memory: a number of bytes, or a share of the free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    /// Number of bytes.
    Bytes(Bytes),
    /// Share of the free memory.
    Share(Percent),
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Amount, String> {
        match text.strip_suffix('%') {
            Some(percent) => percent.trim_end().parse().map(Amount::Share),
            None => text.parse().map(Amount::Bytes).map_err(|error: BytesError| error.to_string()),
        }
    }
}

impl Amount {
    /// Returns the amount as the memory of a machine to be drawn. Returns an error if the amount is a share.
    pub(crate) fn of_a_machine(self) -> Result<Bytes, Error> {
        match self {
            Amount::Bytes(bytes) => Ok(bytes),
            Amount::Share(_) => Err(Error::Input(
                "--memory in percent refers to this machine's free memory; give --apply, or a size".to_owned(),
            )),
        }
    }

    fn pages(self, free: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes.pages(),
            Amount::Share(share) => share.part_of(free),
        }
    }
}

/// Returns the number of pageblocks of this machine to work on: `memory`, or the default share of the free memory.
/// Returns an error if this machine cannot spare that much memory.
pub(crate) fn pageblocks(memory: Option<Amount>) -> Result<u64, Error> {
    let room = freehold_fragmenter::room()?;
    let amount = memory.unwrap_or_else(|| Amount::Share(PERCENT.parse().expect("`PERCENT` is a valid percentage")));
    let pages = amount.pages(room.pages);
    // Drawing a start takes memory too, so the amount is checked before that.
    room.expect(pages)?;
    Ok(pages / u64::from(PAGEBLOCK_PAGES))
}

/// Brings memory into the state of this start, keeps it there, undoes it, and returns a report.
pub(crate) fn apply(args: &ApplyArgs, start: &Start, subject: String) -> Result<(FragmentReport, EndReason), Error> {
    expect_each_once("kind", args.with.iter().copied())?;
    Ok(freehold_fragmenter::apply(&args.plan(start, subject), &mut StderrWatch)?)
}

impl ApplyArgs {
    /// Prints the report. If a command is given, the text goes to stderr, because stdout is the command's.
    pub(crate) fn emit(&self, report: &FragmentReport, formats: &Formats, style: Style) -> Result<(), OutputError> {
        match self.command.is_empty() {
            true => formats.emit(report, style),
            false => formats.emit_beside(report, Style::PLAIN),
        }
    }

    fn plan(&self, start: &Start, subject: String) -> Plan {
        Plan {
            subject,
            wanted: start.pageblocks().map(|pageblock| wanted(&pageblock)).collect(),
            kinds: self.with.clone(),
            check: if self.check { Check::Compact } else { Check::None },
            command: self.command.clone(),
            duration: self.duration,
            sustain: self.sustain.unwrap_or(0),
        }
    }
}

/// Returns the pages of a pageblock that can be neither moved nor reclaimed.
fn wanted(pageblock: &Pageblock<'_>) -> PageSet {
    let (mut wanted, mut page) = (PageSet::default(), 0);
    for run in pageblock.runs {
        let pages = page..page + run.pages() as usize;
        page = pages.end;
        if run.what == Use::Fixed {
            pages.for_each(|page| wanted.add(page));
        }
    }
    wanted
}

/// Returns an error if the check failed, or else if the command failed.
pub(crate) fn judge(report: &FragmentReport, ended: EndReason) -> Result<(), Error> {
    match report.proof.map(|proof| (proof, proof.verdict())) {
        Some((proof, Verdict::Returned)) => {
            return Err(Error::Returned { lost: proof.lost_pageblocks, returned: proof.returned_pageblocks });
        }
        Some((_, Verdict::Nothing)) => return Err(Error::Unproved),
        _ => {}
    }
    match ended {
        EndReason::Command(Some(status)) if !status.success() => Err(Error::Ended(status)),
        _ => Ok(()),
    }
}

/// Reports on stderr when the requested fragmentation is reached.
struct StderrWatch;

impl Watch for StderrWatch {
    fn applied(&mut self, held_pageblocks: u64, pageblocks: u64) {
        notes::print(&format!(
            "memory is fragmented: pageblocks with held pages: {held_pageblocks}, all: {pageblocks}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use freehold_sim::start::{age, draw_start};

    use super::*;

    #[test]
    fn amount_is_a_size_or_a_share_of_free_memory() {
        fn pages(text: &str) -> Result<u64, String> {
            text.parse::<Amount>().map(|amount| amount.pages(1000))
        }
        assert_eq!((pages("512MiB"), pages("25%")), (Ok(131_072), Ok(250)));
        assert!(pages("101%").is_err() && pages("x").is_err() && pages("%").is_err());
        assert!(Amount::Share("5".parse().unwrap()).of_a_machine().is_err());
    }

    #[test]
    fn target_pages_match_the_fixed_pages_of_a_start() {
        let figures = age::figures(60, 1000);
        let start = draw_start(&age::layout(60, 1000), 1);
        let wanted: Vec<PageSet> = start.pageblocks().map(|pageblock| wanted(&pageblock)).collect();
        let counts: Vec<usize> = wanted.iter().map(PageSet::count).filter(|count| *count > 0).collect();
        assert_eq!(counts.len() as u64, figures.fixed_pageblocks);
        assert_eq!(counts.iter().sum::<usize>() as u64, figures.fixed);
    }
}
