//! `freehold record --flight`: keeps the last minute of this machine's page events, and writes it when a trigger fires.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use clap::Args;
use freehold_record::{EventSet, Files, FlightEvent, FlightPlan, Names, Summary, Trigger, fly};
use freehold_report::terminal::printable;
use freehold_sim::plan::Bytes;
use freehold_trace::anonymize::Identity;
use indicatif::{HumanBytes, HumanCount};

use super::recorded::RecordedFile;
use crate::error::Error;

/// Arguments of a flight recorder.
#[derive(Debug, Args)]
#[command(next_help_heading = "Flight recorder")]
pub(super) struct FlightArgs {
    /// Keep the events of the last TIME (60s, 5min) in memory, and write them to a new file when a trigger fires
    #[arg(long, value_name = "TIME", value_parser = time)]
    flight: Option<Duration>,

    /// Triggers besides SIGUSR1: allocstall (direct reclaim), failure (failed allocation in the kernel's log),
    /// thp-failure (a fault that got no huge page), psi=10% (share of time in which tasks wait for memory), asked (only
    /// SIGUSR1)
    #[arg(
        long,
        value_name = "TRIGGERS",
        value_delimiter = ',',
        default_value = "allocstall,failure",
        requires = "flight"
    )]
    on: Vec<Trigger>,

    /// Time to keep recording after a trigger, before the file is written
    #[arg(long, value_name = "TIME", value_parser = pause, default_value = "5s", requires = "flight")]
    tail: Duration,

    /// Minimum time between two files; SIGUSR1 always writes a file
    #[arg(long, value_name = "TIME", value_parser = pause, default_value = "5min", requires = "flight")]
    every: Duration,

    /// Number of files to keep; older files of this name are removed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value = "20", requires = "flight")]
    keep: u32,

    /// Memory for events, of all CPUs together [default: a 64th of the machine's memory, at most 96 MiB]
    #[arg(long, value_name = "SIZE", requires = "flight")]
    memory: Option<Bytes>,
}

/// Options that all kinds of recording share.
pub(super) struct Common {
    pub out: PathBuf,
    pub duration: Option<Duration>,
    pub command: Vec<OsString>,
    pub events: Vec<EventSet>,
    pub stacks: Option<u64>,
    pub names: Names,
    pub identity: Identity,
    pub spool: Option<PathBuf>,
    pub quiet: bool,
}

impl FlightArgs {
    /// Returns whether a flight recorder is requested.
    pub(super) fn is_asked(&self) -> bool {
        self.flight.is_some()
    }

    /// Keeps events until the recorder is ended, reports on stderr, and passes each file that it writes to `written`.
    /// Returns the exit status of a command that ended by itself.
    pub(super) fn run(
        self,
        common: Common,
        written: &mut dyn FnMut(RecordedFile),
    ) -> Result<Option<ExitStatus>, Error> {
        let quiet = common.quiet;
        let plan = self.plan(common)?;
        let status = fly(&plan, &mut |happening| {
            if let FlightEvent::Written { path, summary, .. } = happening {
                written(RecordedFile::new(summary, path));
            }
            if !quiet {
                // One line each, without wrapping: these lines are read in logs.
                eprintln!("{}", printable(&describe_happening(happening, &plan)));
            }
        })?;
        Ok(status)
    }

    fn plan(self, common: Common) -> Result<FlightPlan, Error> {
        let files = Files::new(&common.out, usize::try_from(self.keep).unwrap_or(usize::MAX))?;
        let mut triggers: Vec<Trigger> = Vec::new();
        for trigger in self.on {
            if !triggers.contains(&trigger) {
                triggers.push(trigger);
            }
        }
        Ok(FlightPlan {
            spool: common.spool.unwrap_or_else(|| files.folder().to_path_buf()),
            files,
            window: self.flight.unwrap_or_default(),
            triggers,
            tail: self.tail,
            every: self.every,
            memory: self.memory.map(Bytes::get),
            duration: common.duration,
            command: common.command,
            events: common.events,
            stacks: common.stacks,
            names: common.names,
            identity: common.identity,
        })
    }
}

/// Formats an event of the flight recorder as one line.
fn describe_happening(happening: &FlightEvent<'_>, plan: &FlightPlan) -> String {
    match happening {
        FlightEvent::Started { ring_kib, cpus } => format!(
            "freehold: keeping the last {} s in {} on {cpus} CPUs; file: {}; triggers: {}, or SIGUSR1 to process {}",
            plan.window.as_secs_f64(),
            HumanBytes(ring_kib * 1024 * *cpus as u64),
            plan.files.pattern().display(),
            plan.triggers.iter().map(Trigger::to_string).collect::<Vec<_>>().join(", "),
            std::process::id(),
        ),
        FlightEvent::Triggered(trigger) => {
            format!("freehold: trigger {trigger}; writing in {} s", plan.tail.as_secs_f64())
        }
        FlightEvent::Written { path, summary, passed_over } => written(path, summary, *passed_over),
        FlightEvent::Removed(path) => {
            format!("freehold: removed {} (--keep {})", path.display(), plan.files.keep())
        }
        FlightEvent::Resumed => {
            "freehold: another program had switched tracing off; the kept events start again now".to_owned()
        }
        FlightEvent::Failed(error) => format!("freehold: no file was written: {error}; recording continues"),
    }
}

fn written(path: &Path, summary: &Summary, passed_over: u64) -> String {
    let bytes = path.metadata().map_or(0, |metadata| metadata.len());
    let passed_over = match passed_over {
        0 => String::new(),
        count => format!("; triggers without a file because of --every: {count}"),
    };
    let lost = match summary.lost {
        0 => String::new(),
        events => format!("; {} EVENTS WERE LOST", HumanCount(events)),
    };
    format!(
        "freehold: wrote {}: {} events in {:.1} s, {}{lost}{passed_over}",
        path.display(),
        HumanCount(summary.events),
        summary.duration.as_secs_f64(),
        HumanBytes(bytes),
    )
}

/// Parses a time above zero.
fn time(text: &str) -> Result<Duration, String> {
    pause(text).and_then(|time| if time.is_zero() { Err("give a time above 0".to_owned()) } else { Ok(time) })
}

/// Parses a time such as `60s`, `500ms`, `5min` or `1h`; a number without a unit is in seconds.
fn pause(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if number.trim().is_empty() {
        return Err(format!("`{text}` is not a time; write it like 60s or 5min"));
    }
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{unit}` is not a unit of time; write ms, s, min or h, like 60s")),
    };
    let number: f64 =
        number.trim().parse().map_err(|_| format!("`{text}` is not a time; write it like 60s or 5min"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("the time `{text}` is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_accepts_time_units() {
        assert_eq!(
            ["60s", "60", "1.5min", "2h", "250ms", "0s"].map(|text| pause(text).unwrap().as_millis()),
            [60_000, 60_000, 90_000, 7_200_000, 250, 0]
        );
        for bad in ["", "s", "-1s", "5 weeks", "1e300h", "x"] {
            assert!(pause(bad).is_err(), "{bad}");
        }
        assert!(time("0s").is_err());
    }
}
