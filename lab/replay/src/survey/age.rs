//! How old a page of page cache is when the recording starts: in which order reclaim would come to it.
//!
//! linux: mm/vmscan.c:folio_check_references, shrink_active_list. Reclaim takes what is inactive; what it finds used,
//! mapped or not yet stored stays for another round; and what is active has to become inactive first.

use freehold_trace::event::class;

/// The youngest comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Age {
    /// Inactive, and nothing speaks for it: the first look takes it.
    Unused,
    /// Inactive, and used, mapped, dirty or being written: a later look takes it.
    Used,
    /// Active: it has to become inactive first.
    Active,
}

impl Age {
    /// The oldest first.
    pub const ALL: [Age; 3] = [Age::Unused, Age::Used, Age::Active];

    /// The age of a page of this class; `None` if it is no page cache that can be reclaimed.
    pub fn of(class: i64) -> Option<Age> {
        let is = |bits: i64| class & bits != 0;
        let is_cached = is(class::LRU) && is(class::FILE) && !is(class::ANON | class::UNEVICTABLE);
        is_cached.then(|| match class {
            _ if is(class::ACTIVE) => Age::Active,
            _ if is(class::REFERENCED | class::DIRTY | class::WRITEBACK | class::MAPPED) => Age::Used,
            _ => Age::Unused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_page_cache_has_an_age() {
        let cache = class::LRU | class::FILE;
        let ages = [cache, cache | class::DIRTY, cache | class::ACTIVE | class::DIRTY].map(Age::of);
        assert_eq!(ages, Age::ALL.map(Some));
        let others = [class::FILE, class::LRU | class::ANON, cache | class::UNEVICTABLE];
        assert_eq!(others.map(Age::of), [None; 3]);
    }
}
