//! Checks whether recordings are suited for advice. Each refusal is one sentence.
//!
//! Before any replay, recordings with many lost events are refused, since the machine state derived from the remaining
//! events is wrong. The reader has already refused recordings without a start state. Recordings of different machines,
//! or of a machine under different settings, are refused, since advice is about one machine with one value of each
//! setting. After the replay, recordings are also refused if the replay reproduces none of the measures that advice
//! considers.

use freehold_report::number::percent;
use freehold_stats::verdict::Verdict;
use freehold_trace::Kind;
use freehold_trace::event::Section;
use freehold_trace::facts::Facts;

use super::candidates;
use super::concerns::CONCERNS;
use crate::error::Error;
use crate::report::outcome::ReplayOutcome;
use crate::report::rows;
use crate::settings;

/// Largest share of the events that the kernel may have dropped.
const LOST_MAX: f64 = 0.01;

/// Facts that identify a machine. They are equal in all recordings of one machine.
const IDENTITY: [(&str, Same); 4] = [
    ("kernel", |one, other| one.kernel_release == other.kernel_release),
    ("processor", |one, other| one.machine == other.machine),
    ("number of CPUs", |one, other| one.cpus == other.cpus),
    ("memory", |one, other| present(one) == present(other)),
];

/// Comparison of one fact of two machines.
type Same = fn(&Facts, &Facts) -> bool;

fn present(facts: &Facts) -> u64 {
    facts.zones_start.iter().map(|zone| zone.present).sum()
}

/// Checks before any replay that advice about one machine can rest on these recordings, each with its file's name.
///
/// # Errors
/// If a recording lost too many events, or the first one has no value of any setting to change, or two recordings
/// differ in their machine or settings.
pub fn check(recordings: &[(&str, &Facts)]) -> Result<(), Error> {
    recordings.iter().try_for_each(|(file, facts)| check_one(file, facts).map_err(Error::Advice))?;
    let Some(((first, facts), others)) = recordings.split_first() else { return Ok(()) };
    if candidates::list(facts).is_empty() {
        let sentence = format!("{first} has no recorded value of any setting that advice can change; record again");
        return Err(Error::Advice(sentence));
    }
    others.iter().try_for_each(|(file, other)| match difference(facts, other) {
        Some(what) => Err(Error::Advice(format!(
            "{first} and {file} were recorded on machines that differ in {what}; give recordings of one machine with \
             equal settings"
        ))),
        None => Ok(()),
    })
}

fn check_one(file: &str, facts: &Facts) -> Result<(), String> {
    let kinds = facts.rows.iter().filter_map(|(&code, count)| Some((Kind::from_code(code.into())?, count)));
    let events: u64 = kinds.filter(|(kind, _)| kind.section() == Section::Events).map(|(_, count)| count).sum();
    let share = facts.lost as f64 / (events + facts.lost).max(1) as f64;
    if share > LOST_MAX {
        let (lost, most) = (percent(share), percent(LOST_MAX));
        return Err(format!(
            "the kernel dropped {lost} of the events while {file} was recorded, more than the {most} that \
             advice accepts; record again with a larger `--ring`"
        ));
    }
    Ok(())
}

/// Returns the first fact or setting in which two machines differ; `None` if they are alike.
fn difference(one: &Facts, other: &Facts) -> Option<String> {
    let of_machine = IDENTITY.iter().find(|(_, is_same)| !is_same(one, other)).map(|(what, _)| (*what).to_owned());
    let mut of_settings =
        settings::names().filter(|name| settings::recorded(one, name) != settings::recorded(other, name));
    of_machine.or_else(|| of_settings.next().map(str::to_owned))
}

/// Returns whether the replay under the recorded kernel's rules has events of a measure that advice considers, and
/// reproduces this measure. As in every comparison, a measure that is not reproduced has no verdict.
pub fn is_reproduced(as_recorded: &ReplayOutcome) -> bool {
    rows::as_recorded(as_recorded).iter().any(|(metric, row)| {
        row.verdict != Verdict::NotJudged
            && row.a.is_some_and(|count| count.value() > 0.0)
            && CONCERNS.iter().any(|concern| concern.metric == *metric)
    })
}

/// Returns the error for recordings of which the replay reproduces none of the measures that advice considers.
pub fn not_reproduced(files: &[String]) -> Error {
    Error::Advice(format!(
        "the replay error of {} is too large in every measure of advice; `freehold replay` shows the errors, and a \
         longer recording may reduce them",
        files.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::ZoneFacts;

    use super::*;
    use crate::report::course::Course;
    use crate::report::fidelity::{FidelityMeasure, FidelityRow};
    use crate::report::metrics::{Metric, Metrics};

    fn machine(lost: u64) -> Facts {
        let zone = ZoneFacts { present: 1 << 18, managed: 1 << 18, ..ZoneFacts::default() };
        let mut facts = Facts { cpus: 2, page_size: 4096, lost, zones_start: vec![zone], ..Facts::default() };
        facts.rows.extend([(Kind::Alloc as u8, 5000), (Kind::Free as u8, 4900), (Kind::StartFree as u8, 9)]);
        facts.settings.insert("vm.min_free_kbytes".to_owned(), "20000".to_owned());
        facts
    }

    fn refused(recordings: &[&Facts]) -> String {
        let named: Vec<(&str, &Facts)> =
            ["a.parquet", "b.parquet"].into_iter().zip(recordings.iter().copied()).collect();
        let sentence = check(&named).map_or_else(|error| error.to_string(), |()| String::new());
        assert!(!sentence.contains('\n'), "{sentence}");
        sentence
    }

    #[test]
    fn up_to_1_percent_lost_events_are_accepted() {
        assert_eq!(refused(&[&machine(0)]), "");
        assert_eq!(refused(&[&machine(99)]), "");
        assert!(refused(&[&machine(101)]).contains("dropped 1.0 % of the events while a.parquet"));
    }

    #[test]
    fn recordings_must_have_equal_machines_and_settings() {
        let one = machine(0);
        assert_eq!(refused(&[&one, &machine(9)]), "");
        let larger = Facts { cpus: 4, ..one.clone() };
        assert!(refused(&[&one, &larger]).contains("differ in number of CPUs"));
        let mut other = one.clone();
        other.settings.insert("vm.min_free_kbytes".to_owned(), "30000".to_owned());
        assert!(refused(&[&one, &other]).contains("differ in vm.min_free_kbytes"));
    }

    #[test]
    fn recording_without_settings_is_refused() {
        let mut facts = machine(0);
        facts.settings.clear();
        assert!(refused(&[&facts]).contains("has no recorded value of any setting"));
    }

    fn outcome_with_stalls(recorded: f64) -> ReplayOutcome {
        ReplayOutcome {
            policy: "linux-6.12".to_owned(),
            metrics: Metrics::new().with_count(Metric::AllocStalls, 100),
            nudged: Vec::new(),
            fidelity: vec![FidelityRow::new(FidelityMeasure::AllocStalls, recorded, 100.0, None)],
            unreplayed: Vec::new(),
            assumptions: Vec::new(),
            course: Course::default(),
        }
    }

    #[test]
    fn unreproduced_recording_is_refused() {
        assert!(is_reproduced(&outcome_with_stalls(101.0)));
        assert!(!is_reproduced(&outcome_with_stalls(1000.0)));
        let error = not_reproduced(&["a.parquet".to_owned()]).to_string();
        assert!(error.contains("the replay error of a.parquet is too large"), "{error}");
    }
}
