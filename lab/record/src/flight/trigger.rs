//! Triggers of the flight recorder, detected from two readings of the kernel's counters, one second apart.

use std::fmt;
use std::str::FromStr;

use freehold_trace::facts::TriggerFacts;

use crate::error::CaptureError;
use crate::sample::{Reading, Readings};

/// A condition that the flight recorder watches for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// Direct reclaim.
    AllocStall,
    /// A failed request about which the kernel logs a warning.
    Failure,
    /// A page fault that gets no huge page.
    ThpFailure,
    /// Tasks that stall for memory during this share of a second, in percent.
    Pressure(f64),
    /// A SIGUSR1.
    Asked,
}

/// Error of parsing a trigger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// There is no trigger with this name.
    #[error(
        "there is no trigger `{0}`; triggers are allocstall, failure, thp-failure, psi=10% (or another share), and \
         asked"
    )]
    Unknown(String),
    /// A share that is not a valid percentage.
    #[error("`{0}` is not a percentage above 0 and up to 100; write it like psi=10%")]
    Share(String),
}

impl Trigger {
    /// Returns the name of the trigger in a recording.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::AllocStall => "allocstall",
            Trigger::Failure => "failure",
            Trigger::ThpFailure => "thp-failure",
            Trigger::Pressure(_) => "psi",
            Trigger::Asked => "asked",
        }
    }
}

impl FromStr for Trigger {
    type Err = TriggerError;

    fn from_str(text: &str) -> Result<Trigger, TriggerError> {
        if let Some(share) = text.strip_prefix("psi=") {
            return match share.strip_suffix('%').unwrap_or(share).parse() {
                Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Trigger::Pressure(percent)),
                _ => Err(TriggerError::Share(share.to_owned())),
            };
        }
        let triggers = [Trigger::AllocStall, Trigger::Failure, Trigger::ThpFailure, Trigger::Asked];
        let trigger = triggers.into_iter().find(|trigger| trigger.name() == text);
        trigger.ok_or_else(|| TriggerError::Unknown(text.to_owned()))
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trigger::Pressure(percent) => write!(f, "psi={percent}%"),
            _ => f.write_str(self.name()),
        }
    }
}

/// A trigger, and its counters in a reading.
#[derive(Debug)]
struct Gauge {
    trigger: Trigger,
    /// Indices of the counters; the trigger fires if one of them increases.
    counters: Vec<usize>,
}

/// Detection of triggers from readings.
#[derive(Debug)]
pub(super) struct Gauges {
    gauges: Vec<Gauge>,
    /// Index of the time that some task stalled for memory.
    pressure: Option<usize>,
}

impl Gauges {
    /// Finds the counters of these triggers. [`Trigger::Failure`] and [`Trigger::Asked`], which no counter shows, are
    /// ignored.
    ///
    /// # Errors
    /// [`CaptureError::Untold`] if this kernel lacks the counter of a trigger.
    pub(super) fn find(triggers: &[Trigger], readings: &Readings) -> Result<Gauges, CaptureError> {
        let pressure = readings.pressure_names.iter().position(|name| name == "memory.some");
        let mut gauges = Vec::new();
        for &trigger in triggers {
            let counters = match trigger {
                Trigger::AllocStall => places_where(&readings.names, |name| name.starts_with("allocstall")),
                Trigger::ThpFailure => places_where(&readings.names, |name| name == "thp_fault_fallback"),
                Trigger::Pressure(_) => pressure.into_iter().collect(),
                Trigger::Failure | Trigger::Asked => continue,
            };
            if counters.is_empty() {
                return Err(CaptureError::Untold(trigger.name()));
            }
            gauges.push(Gauge { trigger, counters });
        }
        Ok(Gauges { gauges, pressure })
    }

    /// Returns the triggers that fired between two readings.
    pub(super) fn between(&self, before: &Reading, after: &Reading) -> impl Iterator<Item = Trigger> {
        let stalled =
            self.pressure.and_then(|place| after.pressure.get(place)?.checked_sub(*before.pressure.get(place)?));
        let elapsed = after.time.saturating_sub(before.time);
        // Stalls are in microseconds.
        let percent = stalled.unwrap_or(0) as f64 * 1000.0 / elapsed.max(1) as f64 * 100.0;
        self.gauges
            .iter()
            .filter(move |gauge| match gauge.trigger {
                Trigger::Pressure(limit) => percent >= limit,
                _ => gauge.counters.iter().any(|place| after.vmstat.get(*place) > before.vmstat.get(*place)),
            })
            .map(|gauge| gauge.trigger)
    }
}

/// Returns the indices of the names that satisfy `is_wanted`.
fn places_where(names: &[String], is_wanted: impl Fn(&str) -> bool) -> Vec<usize> {
    names.iter().enumerate().filter(|(_, name)| is_wanted(name)).map(|(place, _)| place).collect()
}

/// Returns the facts about triggers for a recording that starts at `start`.
pub(super) fn trigger_facts(triggers: &[(Trigger, u64)], start: u64) -> Vec<TriggerFacts> {
    triggers
        .iter()
        .map(|&(trigger, time)| TriggerFacts { what: trigger.name().to_owned(), time: time.saturating_sub(start) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings() -> Readings {
        let names = ["pgfault", "allocstall_dma", "allocstall_normal", "thp_fault_fallback"];
        Readings {
            names: names.map(str::to_owned).to_vec(),
            pressure_names: ["memory.some", "memory.full"].map(str::to_owned).to_vec(),
            zone_names: Vec::new(),
            zones: Vec::new(),
            all: Vec::new(),
        }
    }

    fn reading(seconds: u64, vmstat: [u64; 4], some: u64) -> Reading {
        let (vmstat, pressure) = (vmstat.to_vec(), vec![some, 0]);
        Reading { time: seconds * 1_000_000_000, vmstat, buddyinfo: String::new(), pressure, zones: Vec::new() }
    }

    #[test]
    fn trigger_names_round_trip() {
        for text in ["allocstall", "failure", "thp-failure", "psi=10%", "psi=0.5%", "asked"] {
            assert_eq!(text.parse::<Trigger>().unwrap().to_string(), text);
        }
        assert_eq!("psi=10".parse(), Ok(Trigger::Pressure(10.0)));
        for bad in ["psi=0", "psi=101%", "psi=x", "psi=NaN", "psi="] {
            assert!(matches!(bad.parse::<Trigger>(), Err(TriggerError::Share(_))), "{bad}");
        }
        assert!(matches!("oom".parse::<Trigger>(), Err(TriggerError::Unknown(_))));
    }

    #[test]
    fn growing_counters_fire_triggers() {
        let all = [Trigger::AllocStall, Trigger::Failure, Trigger::ThpFailure, Trigger::Pressure(10.0), Trigger::Asked];
        let gauges = Gauges::find(&all, &readings()).unwrap();
        let before = reading(1, [1, 2, 3, 4], 1_000_000);
        for (vmstat, some, expected) in [
            ([9, 2, 3, 4], 1_199_999, &[][..]),
            ([9, 2, 4, 4], 1_000_000, &[Trigger::AllocStall]),
            ([9, 2, 3, 5], 1_200_000, &[Trigger::ThpFailure, Trigger::Pressure(10.0)]),
            // Counters that decrease are no trigger.
            ([0, 0, 0, 0], 0, &[]),
        ] {
            let fired: Vec<_> = gauges.between(&before, &reading(3, vmstat, some)).collect();
            assert_eq!(fired, expected, "{vmstat:?}");
        }
    }

    #[test]
    fn trigger_without_kernel_support_is_an_error() {
        let bare = Readings { names: Vec::new(), pressure_names: Vec::new(), ..readings() };
        for trigger in [Trigger::AllocStall, Trigger::ThpFailure, Trigger::Pressure(1.0)] {
            assert!(Gauges::find(&[trigger], &bare).unwrap_err().to_string().contains(trigger.name()));
        }
        assert!(Gauges::find(&[Trigger::Failure, Trigger::Asked], &bare).is_ok());
    }
}
