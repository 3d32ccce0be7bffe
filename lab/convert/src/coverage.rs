//! Coverage of a file: all events of a machine, or those of one command, some tasks or some CPUs.
//!
//! A file shows its coverage by the tool's command line, or by an event that was enabled at the start of a command.
//! Without these, [`crate::expect`] looks for pages that are allocated again without a free.

use std::path::Path;

use freehold_trace::Kind;

use crate::error::Error;

/// Sampling of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// One event in this many was recorded; 0 if events were only counted.
    Period(u64),
    /// The event's group was read as a whole: its leader was recorded, and the others were counted.
    Group,
    /// This number of events per second was recorded.
    Frequency(u64),
}

impl Sampling {
    /// Returns the option of the tool that left events out, as a phrase; `None` if every event was recorded.
    pub(crate) fn describe(self) -> Option<String> {
        match self {
            Sampling::Period(1) => None,
            Sampling::Group => {
                Some("is in a group with `:S`, of which perf records only one event and counts the others".to_owned())
            }
            Sampling::Period(0) => Some("was counted but not recorded, as in a group with `:S`".to_owned()),
            Sampling::Period(period) => {
                Some(format!("was sampled: one event in {period} was recorded (`-c {period}`)"))
            }
            Sampling::Frequency(rate) => {
                Some(format!("was sampled: about {rate} events per second were recorded (`-F {rate}`)"))
            }
        }
    }
}

/// Coverage by the options of `perf record`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    /// Whether all CPUs were recorded: `-a`.
    all_cpus: bool,
    /// Whether a command was recorded, with its children.
    command: bool,
    /// Option that leaves events out, with its value.
    limit: Option<String>,
}

/// Options of `perf record` that leave out events of tasks, CPUs or control groups, short and long.
const LIMITS: [(&str, &str); 6] =
    [("-C", "--cpu"), ("-p", "--pid"), ("-t", "--tid"), ("-u", "--uid"), ("-G", "--cgroup"), ("--filter", "--filter")];
/// Short options without a value, which may precede `a` in one word.
const FLAGS: &str = "gqvdTPRnNsWbBza";

impl Coverage {
    /// Parses the command line of `perf record`.
    pub(crate) fn from_command<'a>(words: impl IntoIterator<Item = &'a str>) -> Coverage {
        let mut coverage = Coverage::default();
        let mut words = words.into_iter().take_while(|word| *word != "--").peekable();
        while let Some(word) = words.next() {
            let is_flags = word
                .strip_prefix('-')
                .is_some_and(|flags| flags.contains('a') && flags.chars().all(|flag| FLAGS.contains(flag)));
            coverage.all_cpus |= word == "--all-cpus" || is_flags;
            let limit = LIMITS.iter().find_map(|&(short, long)| {
                if word == short || word == long {
                    return words.peek().map(|value| format!("{word} {value}"));
                }
                let is_joined = word.strip_prefix(long).is_some_and(|rest| rest.starts_with('='))
                    || short.len() == 2 && word.len() > 2 && word.starts_with(short);
                is_joined.then(|| word.to_owned())
            });
            coverage.limit = coverage.limit.or(limit);
        }
        coverage
    }

    /// Records that the events were enabled at the start of a command, so that they cover the command and its children.
    pub(crate) fn covers_command(&mut self) {
        self.command = true;
    }

    /// Adds the coverage from another part of the file.
    pub(crate) fn merge(&mut self, other: Coverage) {
        self.all_cpus |= other.all_cpus;
        self.command |= other.command;
        self.limit = self.limit.take().or(other.limit);
    }

    /// Returns the part of the machine that the file covers, as the rest of a sentence; `None` if the file shows no
    /// restriction.
    pub(crate) fn describe(&self) -> Option<String> {
        match &self.limit {
            Some(limit) => Some(format!("only a part of the machine, since perf was limited by `{limit}`")),
            None if self.command && !self.all_cpus => {
                Some("only one command and its children, since perf record had no `-a`".to_owned())
            }
            None => None,
        }
    }
}

/// Refuses a file in which events were left out on purpose.
///
/// # Errors
/// [`Error::Refused`].
pub(crate) fn expect_every_event(path: &Path, sampling: &[(String, Sampling)]) -> Result<(), Error> {
    for (event, sampling) in sampling {
        let name = event.rsplit(':').next().unwrap_or(event);
        let is_used = Kind::ALL.iter().any(|kind| kind.event() == Some(name));
        if let Some(how) = sampling.describe().filter(|_| is_used) {
            return Err(Error::Refused {
                path: path.to_path_buf(),
                reason: format!("the event {event} {how}"),
                instead: "record every event: `perf record -a -e 'kmem:*'` without `-c`, `-F` and `:S`".to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(line: &str) -> Option<String> {
        let mut coverage = Coverage::from_command(line.split(' '));
        coverage.covers_command();
        coverage.describe()
    }

    #[test]
    fn partial_coverage_is_derived_from_the_command_line() {
        for whole in ["perf record -a -e x sleep 1", "perf record -qag -e x", "perf record --all-cpus -- ls -C 1"] {
            assert_eq!(described(whole), None, "{whole}");
        }
        for (part, expected) in [
            ("perf record -e x -- ls -a", "one command"),
            ("perf record -C 0 -e x", "-C 0"),
            ("perf record -a --cpu=0-1 -e x", "--cpu=0-1"),
            ("perf record -p 77 -e x", "-p 77"),
            ("perf record -a -e x --filter order>0", "--filter order>0"),
        ] {
            assert!(described(part).is_some_and(|text| text.contains(expected)), "{part}");
        }
    }

    #[test]
    fn only_period_1_is_complete() {
        assert_eq!(Sampling::Period(1).describe(), None);
        for sampled in [Sampling::Group, Sampling::Period(0), Sampling::Period(3), Sampling::Frequency(1)] {
            assert!(sampled.describe().is_some());
        }
    }
}
