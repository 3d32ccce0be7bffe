//! The settings that a replay accepts: one row each, with the values that the kernel accepts.
//!
//! A setting is here if the engine has the rule behind it. `vm.swappiness`, `vm.min_slab_ratio` and
//! `vm.compact_unevictable_allowed`, for example, decide which pages are reclaimed or moved, and a replay takes these
//! pages from the recording.
//!
//! linux: mm/page_alloc.c:page_alloc_sysctl_table, mm/compaction.c:vm_compaction, mm/huge_memory.c:defrag_store,
//! enabled_store

/// `vm.min_free_kbytes`, in KiB.
pub(crate) const MIN_FREE: &str = "vm.min_free_kbytes";
/// `vm.watermark_scale_factor`, in 1/10000 of a zone.
pub(crate) const SCALE_FACTOR: &str = "vm.watermark_scale_factor";
/// `vm.percpu_pagelist_high_fraction`; 0 selects the kernel's own rule.
pub(crate) const HIGH_FRACTION: &str = "vm.percpu_pagelist_high_fraction";
/// `vm.watermark_boost_factor`, in 1/10000 of the high watermark.
pub(crate) const BOOST_FACTOR: &str = "vm.watermark_boost_factor";
/// `vm.compaction_proactiveness`, 0 to 100.
pub(crate) const PROACTIVENESS: &str = "vm.compaction_proactiveness";
/// `vm.extfrag_threshold`, a fragmentation index.
pub(crate) const EXTFRAG_THRESHOLD: &str = "vm.extfrag_threshold";
/// `vm.defrag_mode`, 0 or 1.
pub(crate) const DEFRAG_MODE: &str = "vm.defrag_mode";
/// `vm.lowmem_reserve_ratio`, a number for each zone.
pub(crate) const RESERVE_RATIO: &str = "vm.lowmem_reserve_ratio";
/// `transparent_hugepage.defrag`, a word.
pub(crate) const DEFRAG: &str = "transparent_hugepage.defrag";
/// Values of [`DEFRAG`].
pub(super) const DEFRAG_WORDS: [&str; 5] = ["always", "defer", "defer+madvise", "madvise", "never"];
/// `transparent_hugepage.enabled`, a word; a replay accepts only the recorded one.
pub(crate) const THP_ENABLED: &str = "transparent_hugepage.enabled";

/// Largest number that a kernel setting can have.
const INT_MAX: u32 = i32::MAX as u32;
/// Largest number of zones of a node. linux: include/linux/mmzone.h:MAX_NR_ZONES
const ZONES_MAX: usize = 5;

/// Values that the kernel accepts.
#[derive(Clone, Copy, Debug)]
enum Values {
    /// A whole number from the first to the second.
    Number(u32, u32),
    /// Zero, or a whole number from the first to the second.
    ZeroOr(u32, u32),
    /// A whole number for each zone, the lowest zone first. The last ones may be left out.
    NumberPerZone,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// A setting that a replay accepts.
#[derive(Debug)]
pub struct KnownSetting {
    /// Name of the setting, as in recordings.
    pub name: &'static str,
    /// Effect that a replay models.
    pub about: &'static str,
    values: Values,
}

const fn row(name: &'static str, about: &'static str, values: Values) -> KnownSetting {
    KnownSetting { name, about, values }
}

/// All settings that a replay accepts.
pub const KNOWN: [KnownSetting; 10] = [
    row(MIN_FREE, "free memory that the min watermarks keep, in KiB", Values::Number(0, INT_MAX)),
    row(SCALE_FACTOR, "distance between watermarks, in 1/10000 of a zone", Values::Number(1, 3000)),
    row(
        HIGH_FRACTION,
        "per-CPU lists of all CPUs together hold 1/N of their zone; 0: Linux tunes each list",
        Values::ZeroOr(8, INT_MAX),
    ),
    row(
        BOOST_FACTOR,
        "largest boost of the watermarks after types were mixed, in 1/10000 of the high watermark; 0: none",
        Values::Number(0, INT_MAX),
    ),
    row(
        PROACTIVENESS,
        "how much kcompactd compacts before any request needs it; 0: not at all",
        Values::Number(0, 100),
    ),
    row(
        EXTFRAG_THRESHOLD,
        "fragmentation index above which a zone is compacted for a request above order 3",
        Values::Number(0, 1000),
    ),
    row(
        DEFRAG_MODE,
        "1: a request reclaims and compacts before it mixes types in a pageblock (Linux since 6.15)",
        Values::Number(0, 1),
    ),
    row(
        RESERVE_RATIO,
        "each zone keeps 1/N of the higher zones' pages from requests that could use these; 0: none",
        Values::NumberPerZone,
    ),
    row(DEFRAG, "how hard a page fault tries to get a huge page", Values::Word(&DEFRAG_WORDS)),
    row(
        THP_ENABLED,
        "areas whose faults request huge pages: only the recorded value, since other requests are not in the recording",
        Values::Word(&["always", "madvise", "never"]),
    ),
];

/// Returns the row of a setting; `None` if a replay does not accept it.
pub(super) fn find(name: &str) -> Option<&'static KnownSetting> {
    KNOWN.iter().find(|known| known.name == name)
}

/// Returns the names of the settings that a replay can change.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.name).filter(|&name| name != THP_ENABLED)
}

impl KnownSetting {
    /// Returns a valid value in its canonical spelling.
    ///
    /// # Errors
    /// If the kernel does not accept the value.
    pub(super) fn parse(&self, text: &str) -> Result<String, String> {
        let canonical = match self.values {
            Values::Number(..) | Values::ZeroOr(..) => self.parse_number(text).map(|number| number.to_string()),
            Values::NumberPerZone => parse_numbers(text),
            Values::Word(words) => words.contains(&text).then(|| text.to_owned()),
        };
        canonical.ok_or_else(|| format!("`{}` cannot be `{text}`; give {}", self.name, self.accepted()))
    }

    /// Returns the number in `text`; `None` if it is none, or one that the kernel does not accept.
    pub(super) fn parse_number(&self, text: &str) -> Option<u32> {
        let number = text.parse().ok()?;
        match self.values {
            Values::Number(min, max) => (min..=max).contains(&number),
            Values::ZeroOr(min, max) => number == 0 || (min..=max).contains(&number),
            Values::NumberPerZone | Values::Word(_) => false,
        }
        .then_some(number)
    }

    /// Describes the values that the kernel accepts.
    pub fn accepted(&self) -> String {
        match self.values {
            Values::Number(min, max) => format!("a whole number from {min} to {max}"),
            Values::ZeroOr(min, max) => format!("0, or a whole number from {min} to {max}"),
            Values::NumberPerZone => {
                format!("1 to {ZONES_MAX} whole numbers with spaces between, the lowest zone first")
            }
            Values::Word(words) => format!("one of {}", words.join(", ")),
        }
    }
}

/// Returns a list of numbers with single spaces between.
fn parse_numbers(text: &str) -> Option<String> {
    let numbers: Vec<u32> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let is_valid = (1..=ZONES_MAX).contains(&numbers.len()) && numbers.iter().all(|number| *number <= INT_MAX);
    is_valid.then(|| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))
}
