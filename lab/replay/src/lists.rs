//! Arrangement of reclaimable pages in the recorded kernel: active and inactive lists, or generations.

use freehold_trace::facts::Facts;

/// Setting that enables the generations: a mask whose first bit turns them on. linux: mm/vmscan.c:enabled_store
const ENABLED: &str = "lru_gen.enabled";

/// Arrangement of the pages that can be reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lists {
    /// Active and inactive lists.
    Inactive,
    /// Generations: the multi-generational LRU.
    Generations,
}

impl Lists {
    /// Returns the arrangement that the recorded setting gives; [`Lists::Inactive`] if the setting is missing or not a
    /// number.
    pub(crate) fn from_facts(facts: &Facts) -> Lists {
        let mask = facts.settings.get(ENABLED).map(|text| text.trim().trim_start_matches("0x"));
        match mask.and_then(|mask| u32::from_str_radix(mask, 16).ok()) {
            Some(mask) if mask & 1 == 1 => Lists::Generations,
            Some(_) | None => Lists::Inactive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists_under(value: Option<&str>) -> Lists {
        let mut facts = Facts::default();
        facts.settings.extend(value.map(|value| (ENABLED.to_owned(), value.to_owned())));
        Lists::from_facts(&facts)
    }

    #[test]
    fn lru_generation_mask_is_parsed() {
        assert_eq!([Some("0x0007"), Some("0x0001\n")].map(lists_under), [Lists::Generations; 2]);
        assert_eq!([None, Some("0x0000"), Some("yes")].map(lists_under), [Lists::Inactive; 3]);
    }
}
