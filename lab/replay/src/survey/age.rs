//! How old a page of page cache is when the recording starts: in which order reclaim would come to it.
//!
//! linux: mm/vmscan.c:folio_check_references, shrink_active_list. Reclaim takes what is inactive; what it finds used,
//! mapped or not yet stored stays for another round; and what is active has to become inactive first.

use freehold_trace::event::class;

/// The youngest comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Age {
    /// Inactive, and nothing speaks for it: the first look takes it.
    Unused,
    /// Inactive, and used, mapped, dirty or being written: a later look takes it.
    Used,
    /// Active: it has to become inactive first.
    Active,
}

impl Age {
    /// The oldest first.
    pub(crate) const ALL: [Age; 3] = [Age::Unused, Age::Used, Age::Active];

    /// The age of a page of this class; `None` if it is no page cache that can be reclaimed.
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

/// Whether a page has any of these flags.
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
