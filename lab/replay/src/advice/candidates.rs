//! What is tried: for each setting a few values around the recorded one, and why one would want them.
//!
//! All are values that the kernel takes. What is already set is left out, and so is more memory kept free than anyone
//! would give up.

use std::iter;

use freehold_trace::Kind;
use freehold_trace::facts::Facts;

use crate::counts;
use crate::settings::{
    self, BOOST_FACTOR, DEFRAG, EXTFRAG_THRESHOLD, HIGH_FRACTION, MIN_FREE, PROACTIVENESS, SCALE_FACTOR, Setting,
};

/// Largest share of the memory that `vm.min_free_kbytes` is tried with: a part of this many.
const MIN_FREE_PARTS: u64 = 20;

/// Nudged values of `vm.min_free_kbytes`, in parts of [`NUDGE_WHOLE`] of the recorded one: up to a hundredth off.
const NUDGES: [u64; 4] = [990, 995, 1005, 1010];
const NUDGE_WHOLE: u64 = 1000;

/// A value to try.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// This one.
    Is(&'static str),
    /// The recorded number times the first, divided by the second.
    Times(u64, u64),
}

/// A row of the table: the setting, a value, and why one would want it.
type Row = (&'static str, Value, &'static str);

const TABLE: [Row; 24] = [
    (MIN_FREE, Value::Times(2, 1), "requests that cannot wait find memory, and others reclaim less for themselves"),
    (MIN_FREE, Value::Times(4, 1), "bursts of requests that cannot wait find memory"),
    (MIN_FREE, Value::Times(1, 2), "less memory lies idle, and kswapd reclaims less"),
    (SCALE_FACTOR, Value::Is("10"), "Linux's default: little memory lies idle"),
    (SCALE_FACTOR, Value::Is("50"), "kswapd begins earlier, so that requests reclaim less for themselves"),
    (SCALE_FACTOR, Value::Is("200"), "kswapd begins much earlier, for bursts of requests"),
    (HIGH_FRACTION, Value::Is("0"), "Linux's default: lists tune their own size"),
    (HIGH_FRACTION, Value::Is("64"), "long lists: CPUs meet less at the zone lock"),
    (HIGH_FRACTION, Value::Is("8"), "the longest lists that there are"),
    (HIGH_FRACTION, Value::Is("1000"), "short lists: free memory is there for all CPUs"),
    (BOOST_FACTOR, Value::Is("15000"), "Linux's default: a fallback between types makes kswapd free more"),
    (BOOST_FACTOR, Value::Is("0"), "a fallback between types makes nobody reclaim"),
    (BOOST_FACTOR, Value::Is("30000"), "after a fallback more is freed, so that types mix less"),
    (PROACTIVENESS, Value::Is("20"), "Linux's default: some compaction in the background"),
    (PROACTIVENESS, Value::Is("60"), "compaction in the background, so that requests do not compact for themselves"),
    (PROACTIVENESS, Value::Is("100"), "as much compaction in the background as there is"),
    (PROACTIVENESS, Value::Is("0"), "no compaction that nobody asked for"),
    (EXTFRAG_THRESHOLD, Value::Is("500"), "Linux's default"),
    (EXTFRAG_THRESHOLD, Value::Is("100"), "requests for large blocks compact where they would reclaim"),
    (EXTFRAG_THRESHOLD, Value::Is("900"), "requests for large blocks reclaim where they would compact"),
    (DEFRAG, Value::Is("madvise"), "Linux's default: programs that ask for huge pages wait for them"),
    (DEFRAG, Value::Is("defer+madvise"), "programs that ask for huge pages wait for them, and others wake kcompactd"),
    (DEFRAG, Value::Is("defer"), "no fault waits for a huge page, and kcompactd makes some"),
    (DEFRAG, Value::Is("always"), "every fault tries hard for a huge page"),
];

/// A value of a setting that is tried.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The setting with this value.
    pub setting: Setting,
    /// Why one would want it.
    pub why: &'static str,
}

/// Lists the values to try on this machine, setting by setting, values near the recorded one first.
pub fn list(facts: &Facts) -> Vec<Candidate> {
    TABLE.iter().filter_map(|row| candidate(facts, row)).collect()
}

fn candidate(facts: &Facts, &(name, value, why): &Row) -> Option<Candidate> {
    let now = settings::recorded(facts, name)?;
    let value = match value {
        Value::Is(value) => value.to_owned(),
        Value::Times(by, parts) => {
            let value = now.parse::<u64>().ok()?.checked_mul(by)? / parts;
            (value <= managed_bytes(facts) / 1024 / MIN_FREE_PARTS).then(|| value.to_string())?
        }
    };
    let is_new = value != now;
    is_new.then(|| format!("{name}={value}").parse().ok()).flatten().map(|setting| Candidate { setting, why })
}

/// Settings that should make no difference worth speaking of: `vm.min_free_kbytes` a little above and below what it
/// is, which is what `others` say, or what was recorded. How far replays under them differ all the same is what the
/// recording's work leaves to chance.
pub fn nudges(facts: &Facts, others: &[Setting]) -> Vec<Setting> {
    let set = others.iter().rfind(|setting| setting.name() == MIN_FREE).map(|setting| setting.value().to_owned());
    let now = set.or_else(|| settings::recorded(facts, MIN_FREE)).and_then(|now| now.parse::<u64>().ok());
    let Some(now) = now else { return Vec::new() };
    let nudged = NUDGES.iter().map(|part| now * part / NUDGE_WHOLE).filter(|value| *value != now);
    nudged.filter_map(|value| format!("{MIN_FREE}={value}").parse().ok()).collect()
}

/// The settings of every replay of a policy on a recording: those that are asked for, and, where memory was short and a
/// few pages decide what follows, these with each nudge.
pub fn with_nudges(facts: &Facts, settings: &[Setting]) -> Vec<Vec<Setting>> {
    let nudges = if counts::was_short(facts) { nudges(facts, settings) } else { Vec::new() };
    iter::once(settings.to_vec()).chain(nudges.into_iter().map(|nudge| [settings, &[nudge]].concat())).collect()
}

/// Requests in a recording.
pub fn requests(facts: &Facts) -> u64 {
    facts.rows.get(&(Kind::Alloc as u8)).copied().unwrap_or(0)
}

/// Memory that the machine's allocator has.
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
    fn what_is_set_is_left_out() {
        assert_eq!(tried(&[(SCALE_FACTOR, " 10")]), ["vm.watermark_scale_factor=50", "vm.watermark_scale_factor=200"]);
        let defrag = tried(&[(DEFRAG, "always defer defer+madvise [madvise] never")]);
        assert!(defrag.len() == 3 && !defrag.iter().any(|setting| setting.ends_with("=madvise")), "{defrag:?}");
        assert_eq!(tried(&[]), [""; 0], "what was not recorded is not tried");
    }

    #[test]
    fn no_more_is_kept_free_than_anyone_would_give_up() {
        let all = ["vm.min_free_kbytes=40000", "vm.min_free_kbytes=10000"];
        assert_eq!(tried(&[(MIN_FREE, "20000")]), all, "of 1 GiB");
        assert_eq!(tried(&[(MIN_FREE, "0")]), [""; 0]);
    }

    fn nudges_of(now: &str) -> Vec<String> {
        nudges(&machine(&[(MIN_FREE, now)]), &[]).iter().map(Setting::to_string).collect::<Vec<_>>()
    }

    #[test]
    fn nudges_are_near_what_is_set() {
        assert_eq!(nudges_of("20000")[..2], ["vm.min_free_kbytes=19800", "vm.min_free_kbytes=19900"]);
        assert_eq!(nudges_of("20000").len(), 4);
        assert_eq!(nudges_of("0"), [""; 0]);
        assert_eq!(nudges(&machine(&[]), &[]), []);
        let other = ["vm.min_free_kbytes=40000".parse().unwrap()];
        assert_eq!(nudges(&machine(&[(MIN_FREE, "20000")]), &other)[0].to_string(), "vm.min_free_kbytes=39600");
    }

    #[test]
    fn the_kernel_takes_every_value_and_every_setting_has_some() {
        for name in settings::names() {
            let values: Vec<&Row> = TABLE.iter().filter(|(of, ..)| *of == name).collect();
            assert!(values.len() >= 3, "{name}");
            for (_, value, _) in values {
                if let Value::Is(value) = value {
                    assert!(format!("{name}={value}").parse::<Setting>().is_ok(), "{name}={value}");
                }
            }
        }
    }
}
