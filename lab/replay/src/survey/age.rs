//! Age of page cache when the recording starts: the order in which reclaim would take it.
//!
//! Reclaim takes inactive pages. Inactive pages that are used, mapped or not yet written stay for another round, and
//! active pages have to become inactive first. linux: mm/vmscan.c:folio_check_references, shrink_active_list

use freehold_trace::event::class;

/// Age of a page of page cache, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Age {
    /// Inactive and unused: the first scan takes it.
    Unused,
    /// Inactive and used, mapped, dirty or being written: a later scan takes it.
    Used,
    /// Active: it has to become inactive first.
    Active,
}

impl Age {
    /// All ages, the oldest first.
    pub(crate) const ALL: [Age; 3] = [Age::Unused, Age::Used, Age::Active];

    /// Returns the age of a page of this class; `None` if the page is not page cache that can be reclaimed.
    pub(crate) fn from_class(class: i64) -> Option<Age> {
        let is_cached =
            has(class, class::LRU) && has(class, class::FILE) && !has(class, class::ANON | class::UNEVICTABLE);
        is_cached.then(|| match class {
            _ if has(class, class::ACTIVE) => Age::Active,
            _ if has(class, class::REFERENCED | class::DIRTY | class::WRITEBACK | class::MAPPED) => Age::Used,
            _ => Age::Unused,
        })
    }
}

/// Returns whether a page has any of these flags.
fn has(class: i64, flags: i64) -> bool {
    class & flags != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_page_cache_has_an_age() {
        let cache = class::LRU | class::FILE;
        let ages = [cache, cache | class::DIRTY, cache | class::ACTIVE | class::DIRTY].map(Age::from_class);
        assert_eq!(ages, Age::ALL.map(Some));
        let others = [class::FILE, class::LRU | class::ANON, cache | class::UNEVICTABLE];
        assert_eq!(others.map(Age::from_class), [None; 3]);
    }
}
