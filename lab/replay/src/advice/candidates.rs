//! Candidates: for each setting a few values to try, each with its purpose. For `vm.min_free_kbytes` they are multiples
//! of the recorded value, for the other settings fixed values.
//!
//! The kernel accepts all of these values. The recorded value is left out. So are values of `vm.min_free_kbytes` that
//! keep more than a twentieth of the memory free, since few users would give up that much.

use std::iter;

use freehold_stats::verdict::EVENTS_MIN;
use freehold_trace::Kind;
use freehold_trace::facts::Facts;

use super::concerns::{CONCERNS, Kind as ConcernKind};
use crate::report::metrics::Metric::{
    self, AllocStalls, CompactStalls, FailedAllocations, HugePagesServed, PagesScanned, ZoneLockAcquisitions,
};
use crate::report::outcome::ReplayOutcome;
use crate::settings::{
    self, BOOST_FACTOR, DEFRAG, DEFRAG_MODE, EXTFRAG_THRESHOLD, HIGH_FRACTION, MIN_FREE, PROACTIVENESS, SCALE_FACTOR,
    Setting,
};

/// Largest value of `vm.min_free_kbytes` that is tried: the memory divided by this.
const MIN_FREE_PARTS: u64 = 20;

/// Largest number of candidates that are tried by default. With the replay as recorded and two replays with varied
/// watermarks, this makes seven replays.
const DEFAULT_MAX: usize = 4;

/// Values of `vm.min_free_kbytes` for sensitivity replays, as parts of the current value in units of 1 /
/// [`NUDGE_WHOLE`]: up to 1 % off.
const NUDGES: [u64; 4] = [990, 995, 1005, 1010];
const NUDGE_WHOLE: u64 = 1000;

/// A value to try.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// A fixed value.
    Is(&'static str),
    /// The recorded number times the first field, divided by the second.
    Times(u64, u64),
}

/// A row of the table: the setting, a value, its purpose, and the concerns for which it is tried by default.
type Row = (&'static str, Value, &'static str, &'static [Metric]);

const TABLE: [Row; 26] = [
    (
        MIN_FREE,
        Value::Times(2, 1),
        "more free memory for requests that cannot wait, and fewer direct reclaims",
        &[FailedAllocations, AllocStalls],
    ),
    (
        MIN_FREE,
        Value::Times(4, 1),
        "much more free memory, for bursts of requests that cannot wait",
        &[FailedAllocations],
    ),
    (MIN_FREE, Value::Times(1, 2), "less unused free memory, and less reclaim by kswapd", &[PagesScanned]),
    (SCALE_FACTOR, Value::Is("10"), "Linux's default: little unused free memory", &[PagesScanned]),
    (SCALE_FACTOR, Value::Is("50"), "kswapd starts earlier, so that fewer requests reclaim directly", &[AllocStalls]),
    (SCALE_FACTOR, Value::Is("200"), "kswapd starts much earlier, for bursts of requests", &[]),
    (
        HIGH_FRACTION,
        Value::Is("0"),
        "Linux's default: the kernel tunes the length of each list",
        &[ZoneLockAcquisitions],
    ),
    (HIGH_FRACTION, Value::Is("64"), "long lists: less contention for the zone lock", &[ZoneLockAcquisitions]),
    (HIGH_FRACTION, Value::Is("8"), "lists of the greatest length", &[ZoneLockAcquisitions]),
    (HIGH_FRACTION, Value::Is("1000"), "short lists: free memory is available to all CPUs", &[]),
    (BOOST_FACTOR, Value::Is("15000"), "Linux's default: kswapd frees more after a fallback", &[]),
    (BOOST_FACTOR, Value::Is("0"), "no reclaim after a fallback", &[PagesScanned]),
    (BOOST_FACTOR, Value::Is("30000"), "kswapd frees still more after a fallback, so that types mix less", &[]),
    (PROACTIVENESS, Value::Is("20"), "Linux's default: some proactive compaction", &[]),
    (
        PROACTIVENESS,
        Value::Is("60"),
        "more proactive compaction, so that fewer requests compact directly",
        &[CompactStalls, HugePagesServed],
    ),
    (PROACTIVENESS, Value::Is("100"), "as much proactive compaction as the kernel allows", &[]),
    (PROACTIVENESS, Value::Is("0"), "no proactive compaction", &[]),
    (EXTFRAG_THRESHOLD, Value::Is("500"), "Linux's default", &[]),
    (EXTFRAG_THRESHOLD, Value::Is("100"), "requests for large blocks compact more often and reclaim less often", &[]),
    (EXTFRAG_THRESHOLD, Value::Is("900"), "requests for large blocks reclaim more often and compact less often", &[]),
    (DEFRAG_MODE, Value::Is("0"), "Linux's default: a request mixes types before it reclaims or compacts", &[]),
    (DEFRAG_MODE, Value::Is("1"), "requests reclaim and compact before they mix types in a pageblock", &[]),
    (
        DEFRAG,
        Value::Is("madvise"),
        "Linux's default: only faults in madvised areas wait for huge pages",
        &[CompactStalls],
    ),
    (
        DEFRAG,
        Value::Is("defer+madvise"),
        "faults in madvised areas wait for huge pages, other faults wake kcompactd",
        &[CompactStalls],
    ),
    (DEFRAG, Value::Is("defer"), "no fault waits for a huge page, and kcompactd creates some", &[CompactStalls]),
    (DEFRAG, Value::Is("always"), "every fault reclaims and compacts for a huge page", &[HugePagesServed]),
];

/// A value of a setting that is tried.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The setting with this value.
    pub setting: Setting,
    /// Purpose of the value.
    pub why: &'static str,
    /// Concerns for which the value is tried by default.
    serves: &'static [Metric],
}

/// Returns the names of the settings that advice considers, in the order of [`settings::KNOWN`].
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    settings::names().filter(|name| TABLE.iter().any(|(of, ..)| of == name))
}

/// Lists the values to try on this machine, in the order of the table: setting by setting, milder values first. Leaves
/// out the recorded value, every value of a setting that the recording lacks, and values of `vm.min_free_kbytes` above
/// the memory divided by `MIN_FREE_PARTS`.
pub fn list(facts: &Facts) -> Vec<Candidate> {
    TABLE.iter().filter_map(|row| candidate(facts, row)).collect()
}

fn candidate(facts: &Facts, &(name, value, why, serves): &Row) -> Option<Candidate> {
    let now = settings::recorded(facts, name)?;
    let value = match value {
        Value::Is(value) => value.to_owned(),
        Value::Times(by, parts) => {
            let value = now.parse::<u64>().ok()?.checked_mul(by)? / parts;
            (value <= managed_bytes(facts) / 1024 / MIN_FREE_PARTS).then(|| value.to_string())?
        }
    };
    let is_new = value != now;
    is_new.then(|| format!("{name}={value}").parse().ok()).flatten().map(|setting| Candidate { setting, why, serves })
}

/// Selects the candidates that are tried by default, at most `DEFAULT_MAX`, in their order. A concern counts if some
/// replay under the recorded settings has at least [`EVENTS_MIN`] events of it. Each such concern gets its first
/// candidate, then each gets its second, and so on, as long as there is room.
pub fn select(candidates: Vec<Candidate>, now: &[ReplayOutcome]) -> Vec<Candidate> {
    let concerns: Vec<Metric> = CONCERNS
        .iter()
        .filter(|concern| concern.kind != ConcernKind::State && now.iter().any(|now| has_any(now, concern.metric)))
        .map(|concern| concern.metric)
        .collect();
    let mut order: Vec<usize> = Vec::new();
    for choice in 0..candidates.len() {
        for metric in &concerns {
            let serving = candidates.iter().enumerate().filter(|(_, candidate)| candidate.serves.contains(metric));
            order.extend(serving.map(|(at, _)| at).nth(choice).filter(|at| !order.contains(at)));
        }
    }
    order.truncate(DEFAULT_MAX);
    let selected = candidates.into_iter().enumerate().filter(|(at, _)| order.contains(at));
    selected.map(|(_, candidate)| candidate).collect()
}

/// Returns whether a replay has at least [`EVENTS_MIN`] events of a metric; with fewer there can be no gain.
fn has_any(outcome: &ReplayOutcome, metric: Metric) -> bool {
    outcome.metrics.get(metric).is_some_and(|value| value.value() >= EVENTS_MIN)
}

/// Returns settings that should make no difference: `vm.min_free_kbytes` up to 1 % below and above its value, the
/// smallest first. Its value is the last one in `others`, or else the recorded one. Values that round to the value
/// itself are left out, and the list is empty if the value is not known. The differences that these settings cause show
/// how sensitive a replay is.
pub fn nudges(facts: &Facts, others: &[Setting]) -> Vec<Setting> {
    let set = others.iter().rfind(|setting| setting.name() == MIN_FREE).map(|setting| setting.value().to_owned());
    let now = set.or_else(|| settings::recorded(facts, MIN_FREE)).and_then(|now| now.parse::<u64>().ok());
    let Some(now) = now else { return Vec::new() };
    let nudged = NUDGES.iter().map(|part| now * part / NUDGE_WHOLE).filter(|value| *value != now);
    nudged.filter_map(|value| format!("{MIN_FREE}={value}").parse().ok()).collect()
}

/// Returns the settings of every replay of a policy on a recording: `settings` alone, and `settings` with each of the
/// [`nudges`].
pub fn with_nudges(facts: &Facts, settings: &[Setting]) -> Vec<Vec<Setting>> {
    let nudges = nudges(facts, settings).into_iter();
    iter::once(settings.to_vec()).chain(nudges.map(|nudge| [settings, &[nudge]].concat())).collect()
}

/// Returns the number of requests in a recording.
pub fn requests(facts: &Facts) -> u64 {
    facts.rows.get(&(Kind::Alloc as u8)).copied().unwrap_or(0)
}

/// Returns the memory that the machine's allocator manages, in bytes.
pub(crate) fn managed_bytes(facts: &Facts) -> u64 {
    facts.zones_start.iter().map(|zone| zone.managed).sum::<u64>() * u64::from(facts.page_size)
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::ZoneFacts;

    use super::*;

    fn machine(recorded: &[(&str, &str)]) -> Facts {
        let zone = ZoneFacts { managed: 1 << 18, ..ZoneFacts::default() };
        let mut facts = Facts { page_size: 4096, zones_start: vec![zone], ..Facts::default() };
        facts.settings.extend(recorded.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        facts
    }

    fn tried(recorded: &[(&str, &str)]) -> Vec<String> {
        list(&machine(recorded)).iter().map(|candidate| candidate.setting.to_string()).collect()
    }

    #[test]
    fn current_values_are_not_candidates() {
        assert_eq!(tried(&[(SCALE_FACTOR, " 10")]), ["vm.watermark_scale_factor=50", "vm.watermark_scale_factor=200"]);
        let defrag = tried(&[(DEFRAG, "always defer defer+madvise [madvise] never")]);
        assert!(defrag.len() == 3 && !defrag.iter().any(|setting| setting.ends_with("=madvise")), "{defrag:?}");
        assert_eq!(tried(&[]), [""; 0], "what was not recorded is not tried");
    }

    #[test]
    fn min_free_candidates_are_capped() {
        let all = ["vm.min_free_kbytes=40000", "vm.min_free_kbytes=10000"];
        assert_eq!(tried(&[(MIN_FREE, "20000")]), all, "of 1 GiB");
        assert_eq!(tried(&[(MIN_FREE, "0")]), [""; 0]);
    }

    fn nudges_of(now: &str) -> Vec<String> {
        nudges(&machine(&[(MIN_FREE, now)]), &[]).iter().map(Setting::to_string).collect::<Vec<_>>()
    }

    #[test]
    fn nudges_are_close_to_the_current_value() {
        assert_eq!(nudges_of("20000")[..2], ["vm.min_free_kbytes=19800", "vm.min_free_kbytes=19900"]);
        assert_eq!(nudges_of("20000").len(), 4);
        assert_eq!(nudges_of("0"), [""; 0]);
        assert_eq!(nudges(&machine(&[]), &[]), []);
        let other = ["vm.min_free_kbytes=40000".parse().unwrap()];
        assert_eq!(nudges(&machine(&[(MIN_FREE, "20000")]), &other)[0].to_string(), "vm.min_free_kbytes=39600");
    }

    #[test]
    fn candidate_values_are_valid_for_every_setting() {
        assert_eq!(names().count(), 8, "all but the ratios of the lowmem reserve and the areas of huge pages");
        for name in names() {
            let values: Vec<&Row> = TABLE.iter().filter(|(of, ..)| *of == name).collect();
            assert!(values.len() >= 2, "{name}");
            for (_, value, ..) in values {
                if let Value::Is(value) = value {
                    assert!(format!("{name}={value}").parse::<Setting>().is_ok(), "{name}={value}");
                }
            }
        }
    }
}
