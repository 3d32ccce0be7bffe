//! `freehold record`: records this machine's page events while a command runs.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::ArgPredicate;
use freehold_heap_inspector::{HeapSample, Watcher};
use freehold_record::{HeapReading, Names, Plan, Watch};
use freehold_report::formats::{Document, Views};
use freehold_report::terminal::{Style, wrapped};
use freehold_trace::facts::HeapMoment;
use freehold_trace::folder_of;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::anonymize::AnonymizeArgs;
use super::events::EventsArgs;
use super::flight::{Common, FlightArgs};
use super::recorded::{Recorded, RecordedFile};
use super::replace::ReplaceArgs;
use crate::error::Error;

/// Default name of the recording.
const RECORDING: &str = "recording.parquet";

/// Arguments of `freehold record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo freehold record -- make -j8            record a build\n  \
    sudo freehold record --duration 60          record the machine for a minute\n  \
    sudo freehold record --out web.parquet      record until Ctrl-C\n  \
    sudo freehold record --events compaction -- ./load   also record the events of compaction\n  \
    sudo freehold record --flight 60s --on allocstall,psi=10% --out /var/lib/freehold\n                                              \
    keep the last minute in memory, and write it when a trigger fires\n\n\
    A recording contains frame numbers, sizes, times, and counters, but no contents of memory. Names of \
    programs outside the command are stored as `other`. With --anonymize, the file has no names of programs at all, and \
    it can be shared more freely.\n\n\
    Exit status: that of COMMAND, or 128 and the number of the signal that killed COMMAND; the recording is complete in \
    any case. 0 if COMMAND succeeded, or if --duration or Ctrl-C ended the recording. 127 if there is no such program, \
    and 126 if it cannot be started. 2 if this machine cannot be recorded, or the file cannot be written.")]
pub struct RecordArgs {
    /// Recording to write; a file of this name is replaced only with --force. With --flight: a folder, or a file name
    /// that contains {time} [default with --flight: the current folder]
    #[arg(long, short, value_name = "FILE", default_value = RECORDING, default_value_if("flight", ArgPredicate::IsPresent, "."))]
    out: PathBuf,

    #[command(flatten)]
    replace: ReplaceArgs,

    /// Stop after S seconds; the command then gets SIGTERM if it still runs
    #[arg(long, short, value_name = "S", value_parser = seconds)]
    duration: Option<Duration>,

    #[command(flatten)]
    flight: FlightArgs,

    #[command(flatten)]
    events: EventsArgs,

    /// Record the kernel's call stack for one of N allocated pages, to show call sites; N is a power of two
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "256", value_parser = period)]
    stacks: Option<u64>,

    /// Record the names of all tasks, not only of the command and its descendants
    #[arg(long)]
    all_names: bool,

    #[command(flatten)]
    anonymize: AnonymizeArgs,

    /// Print no progress and no summary
    #[arg(long, short)]
    quiet: bool,

    /// Size of the kernel's ring buffer for each CPU [default: depends on the machine's memory, 1 to 32 MiB]
    #[arg(long, value_name = "KIB", conflicts_with = "flight", value_parser = clap::value_parser!(u64).range(64..=4 << 20))]
    ring: Option<u64>,

    /// Folder for raw events during the run, about 32 bytes an event [default: folder of the recording]
    #[arg(long, value_name = "FOLDER")]
    spool: Option<PathBuf>,

    /// Command to record; without COMMAND, the machine is recorded until Ctrl-C or --duration
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Parses a number of seconds above zero.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number; give seconds, for example 60"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("give a number of seconds above 0".to_owned()),
    }
}

/// Parses the period of stack samples, a power of two up to 2^20: one page in this number is sampled.
fn period(text: &str) -> Result<u64, String> {
    let period = text.parse().ok().filter(|period: &u64| period.is_power_of_two() && *period <= 1 << 20);
    period.ok_or_else(|| format!("`{text}` is not a power of two from 1 to 2^20; write it like --stacks=256"))
}

/// Records, and prints the result to stderr, because stdout belongs to the command.
pub(crate) fn run(args: RecordArgs) -> Result<(), Error> {
    if args.flight.is_asked() {
        return pass_on(args.fly(&mut drop)?);
    }
    let (recorded, status) = args.record()?;
    if !args.quiet {
        let text = Document::text(&recorded, Style::PLAIN);
        eprint!("{}", text.lines().map(|line| wrapped(line, Style::PLAIN)).collect::<String>());
    }
    pass_on(status)
}

/// Converts the exit status of a command that ended by itself into the result of this command.
fn pass_on(status: Option<ExitStatus>) -> Result<(), Error> {
    match status {
        Some(status) if !status.success() => Err(Error::Passed(status)),
        _ => Ok(()),
    }
}

/// Records, and returns a summary of each file that was written.
pub(crate) fn answer(args: RecordArgs) -> Result<Box<dyn Views>, Error> {
    if !args.flight.is_asked() {
        return Ok(Box::new(args.record()?.0));
    }
    let mut recordings = Vec::new();
    args.fly(&mut |file| recordings.push(file))?;
    Ok(Box::new(Recorded { recordings }))
}

impl RecordArgs {
    /// Records until the command has ended, the duration has passed or the user interrupts, and writes the recording.
    /// Also returns the exit status of a command that ended by itself.
    fn record(&self) -> Result<(Recorded, Option<ExitStatus>), Error> {
        self.replace.check(&self.out)?;
        let plan = self.plan();
        let mut watch = Line::new(self.quiet || !io::stderr().is_terminal());
        let summary = freehold_record::record(&plan, &mut watch)?;
        let status = summary.status.filter(|_| summary.ended_by_itself);
        Ok((Recorded { recordings: vec![RecordedFile::new(&summary, &plan.out)] }, status))
    }

    /// Runs the flight recorder, and passes each file that it writes to `written`. Returns the exit status of a command
    /// that ended by itself.
    fn fly(self, written: &mut dyn FnMut(RecordedFile)) -> Result<Option<ExitStatus>, Error> {
        let common = Common {
            out: self.out,
            duration: self.duration,
            command: self.command,
            events: self.events.sets().collect(),
            stacks: self.stacks,
            names: if self.all_names { Names::All } else { Names::Command },
            identity: self.anonymize.identity(),
            spool: self.spool,
            quiet: self.quiet,
        };
        self.flight.run(common, written)
    }

    fn plan(&self) -> Plan {
        Plan {
            out: self.out.clone(),
            duration: self.duration,
            command: self.command.clone(),
            events: self.events.sets().collect(),
            stacks: self.stacks,
            names: if self.all_names { Names::All } else { Names::Command },
            identity: self.anonymize.identity(),
            ring_kib: self.ring,
            spool: self.spool.as_deref().unwrap_or(folder_of(&self.out)).to_path_buf(),
        }
    }
}

/// Progress line of the recording.
struct Line {
    bar: ProgressBar,
    before: (Instant, u64),
    /// Sampler of the heaps of the command, once the command runs.
    heaps: Option<Watcher>,
}

impl Line {
    fn new(hidden: bool) -> Line {
        let target = if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let style = ProgressStyle::with_template("{msg}").expect("the template is a constant");
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        Line { bar, before: (Instant::now(), 0), heaps: None }
    }

    fn say(&self, words: String) {
        self.bar.set_message(words);
        self.bar.tick();
    }
}

impl Watch for Line {
    fn wants_progress(&self) -> bool {
        !self.bar.is_hidden()
    }

    fn scanning(&mut self) {
        self.say("freehold: reading the state of memory at the start".to_owned());
    }

    fn finishing(&mut self) {
        self.say("freehold: reading the state of memory at the end; Ctrl-C discards the recording".to_owned());
    }

    fn running(&mut self, elapsed: Duration, events: u64, lost: u64) {
        let (then, count) = std::mem::replace(&mut self.before, (Instant::now(), events));
        let rate = (events - count.min(events)) as f64 / then.elapsed().as_secs_f64();
        self.say(format!(
            "freehold: {} s, {} events, {}/s, {} lost",
            elapsed.as_secs(),
            HumanCount(events),
            HumanCount(rate as u64),
            HumanCount(lost),
        ));
    }

    fn heaps(&mut self, command: u32) -> Vec<HeapReading> {
        self.heaps.get_or_insert_with(|| Watcher::start(command)).samples().map(seen_heap).collect()
    }

    fn writing(&mut self, decoded: u64) {
        self.say(format!(
            "freehold: writing, {} events decoded in two passes; Ctrl-C discards the recording",
            HumanCount(decoded)
        ));
    }
}

/// Converts a heap sample into the reading that a recording keeps.
fn seen_heap(sample: HeapSample) -> HeapReading {
    let HeapSample { moment, pid, started, name, threads, resident, memory } = sample;
    let objects = memory.objects.min(memory.slabs.in_memory);
    let had = HeapMoment {
        time: 0,
        resident,
        objects,
        runs: memory.used() - objects,
        idle: memory.idle(),
        free: memory.free(),
        given_back: memory.given_back(),
    };
    HeapReading { age: moment.elapsed(), pid, started, name, threads, moment: had }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use freehold_record::EventSet;

    use super::*;

    #[test]
    fn seconds_must_be_positive_and_finite() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for bad in ["0", "-1", "x", "inf", "NaN", "1e300"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn default_spool_is_the_folder_of_the_recording() {
        use clap::Parser;

        #[derive(Parser)]
        struct Program {
            #[command(flatten)]
            record: RecordArgs,
        }
        fn plan(words: &[&str]) -> Plan {
            Program::parse_from([&["x"], words].concat()).record.plan()
        }
        assert_eq!(plan(&[]).spool, Path::new("."));
        assert_eq!(plan(&["--out", "a/b.parquet"]).spool, Path::new("a"));
        assert_eq!(plan(&["--spool", "/tmp", "--", "ls", "-l"]).spool, Path::new("/tmp"));
        assert_eq!(plan(&["--", "ls", "-l"]).command, ["ls", "-l"]);
        assert_eq!(plan(&["--events", "sched,reclaim"]).events, [EventSet::Sched, EventSet::Reclaim]);
        assert_eq!(plan(&["--events", "all", "--events", "sched"]).events.len(), EventSet::ALL.len() + 1);
    }
}
