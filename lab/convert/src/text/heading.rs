//! Parser of headings. Those of `perf script --header` begin with `#` and a name; those of ftrace have counts of
//! events.

use crate::coverage::{Coverage, Sampling};
use crate::item::SourceFacts;

/// Handles a heading. Returns the number of events that were overwritten before they were read; `None` if the heading
/// shows none.
pub(super) fn take(line: &str, source: &mut SourceFacts) -> Option<u64> {
    if let Some((name, value)) = line.trim_start_matches(['#', ' ']).split_once(" : ") {
        let value = value.trim();
        match name.trim() {
            "os release" => source.kernel_release = Some(value.to_owned()),
            "arch" => source.machine = Some(value.to_owned()),
            "nrcpus online" => source.cpus = value.parse().ok(),
            "total memory" => source.memory = kib(value),
            "cmdline" => source.coverage.merge(Coverage::from_command(value.split_ascii_whitespace())),
            "event" => take_event(value, source),
            _ => {}
        }
    }
    if let Some((_, cpus)) = line.split_once("#P:") {
        source.cpus = cpus.trim().parse().ok();
    }
    line.split_once("entries-in-buffer/entries-written:").and_then(|(_, counts)| overwritten(counts))
}

/// Handles the description of an opened event: `name = kmem:mm_page_alloc, , { sample_period, sample_freq } = 1, ..`.
fn take_event(value: &str, source: &mut SourceFacts) {
    let Some((name, rest)) = value.strip_prefix("name = ").and_then(|rest| rest.split_once(',')) else { return };
    let number = |key: &str| {
        let (_, value) = rest.split_once(key)?;
        value.split(',').next()?.trim().parse::<u64>().ok()
    };
    source.enabled.get_or_insert_default().push(name.to_owned());
    if number(" enable_on_exec = ") == Some(1) {
        source.coverage.covers_command();
    }
    let period = number("{ sample_period, sample_freq } = ").or_else(|| number("{ sample_period, sample_freq }"));
    let sampling = match (number(" freq = "), period) {
        (Some(1), Some(rate)) => Sampling::Frequency(rate),
        (_, Some(period)) => Sampling::Period(period),
        (_, None) => return,
    };
    source.sampling.push((name.to_owned(), sampling));
}

/// Parses a number of KiB to bytes.
fn kib(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the number of events that the ring lost: those written, minus those in the buffer.
fn overwritten(counts: &str) -> Option<u64> {
    let (kept, written) = counts.split_ascii_whitespace().next()?.split_once('/')?;
    let lost = written.parse::<u64>().ok()?.checked_sub(kept.parse().ok()?)?;
    (lost > 0).then_some(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_describe_machine_and_recording() {
        let mut source = SourceFacts::default();
        let text = "# os release : 6.18.4\n# arch : x86_64\n# nrcpus online : 4\n# total memory : 2048 kB\n\
                    # cmdline : /usr/bin/perf record -c 3 -C 1 -e kmem:*\n\
                    # event : name = kmem:mm_page_alloc, , id = { 5, 6 }, type = 2, size = 128, config = 0x28d, \
                    { sample_period, sample_freq } = 3, sample_type = IP|TID, disabled = 1, enable_on_exec = 1\n\
                    # event : name = kmem:mm_page_free, , { sample_period, sample_freq } = 100, freq = 1, x = 2\n";
        let lost: Vec<_> = text.lines().filter_map(|line| take(line, &mut source)).collect();
        assert!(lost.is_empty());
        assert_eq!(
            (source.kernel_release.as_deref(), source.cpus, source.memory),
            (Some("6.18.4"), Some(4), Some(2 << 20))
        );
        let [alloc, free] = &source.sampling[..] else { panic!("{:?}", source.sampling) };
        assert_eq!((alloc.1, free.1), (Sampling::Period(3), Sampling::Frequency(100)));
        assert!(source.coverage.describe().is_some());
        assert_eq!(take("# entries-in-buffer/entries-written: 10/17   #P:2", &mut source), Some(7));
        assert_eq!(source.cpus, Some(2));
    }
}
