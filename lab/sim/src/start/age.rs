//! The age of a machine's memory: a number from 0, right after boot, to 100, where no large block can be allocated.
//!
//! Age 60 is the median of the production servers for which figures were published: less than 7 % of their memory is
//! unmovable, and 34 % of their pageblocks contain unmovable pages. 23 % of these servers had no free block of 2 MiB at
//! all, which is age 80 and above. (Zhao et al., "Contiguitas", ISCA 2023; Weiner, linux-mm, 2023-04.) The uptime of a
//! machine does not determine its age in this sense: an hour of a workload is enough.
//!
//! The published figures do not give all shares. The shares of free, huge and file pages in the table below are
//! assumptions. Between the ages of the table, all shares are interpolated linearly.

use super::{Figures, Layout};

/// Maximum age.
pub const AGE_MAX: u8 = 100;

/// Contents of a machine at one age, in ten thousandths of its pageblocks or pages. The remaining pages are tasks'
/// memory, in small pages outside the huge pageblocks.
struct Column {
    age: u8,
    free_pageblocks: u64,
    huge_pageblocks: u64,
    fixed_pageblocks: u64,
    reclaimable_pageblocks: u64,
    free: u64,
    fixed: u64,
    reclaimable: u64,
    file: u64,
    active: u64,
}

/// Denominator of the shares in the table.
const PARTS: u64 = 10_000;

/// Contents at selected ages. At age 60, `fixed` and `fixed_pageblocks` are the published figures, and page cache is
/// assumed to be 52 % of the memory. From age 80 on, no pageblock is wholly free.
const TABLE: [Column; 4] = [
    Column {
        age: 0,
        free_pageblocks: PARTS,
        huge_pageblocks: 0,
        fixed_pageblocks: 0,
        reclaimable_pageblocks: 0,
        free: PARTS,
        fixed: 0,
        reclaimable: 0,
        file: 0,
        active: 0,
    },
    Column {
        age: 60,
        free_pageblocks: 200,
        huge_pageblocks: 800,
        fixed_pageblocks: 3400,
        reclaimable_pageblocks: 500,
        free: 800,
        fixed: 700,
        reclaimable: 300,
        file: 5200,
        active: 2600,
    },
    Column {
        age: 80,
        free_pageblocks: 0,
        huge_pageblocks: 300,
        fixed_pageblocks: 6000,
        reclaimable_pageblocks: 800,
        free: 500,
        fixed: 1000,
        reclaimable: 400,
        file: 5200,
        active: 2600,
    },
    Column {
        age: AGE_MAX,
        free_pageblocks: 0,
        huge_pageblocks: 0,
        fixed_pageblocks: 9500,
        reclaimable_pageblocks: 500,
        free: 300,
        fixed: 2000,
        reclaimable: 300,
        file: 4600,
        active: 2300,
    },
];

/// Returns the figures of a machine of this age with `pageblocks` pageblocks.
///
/// # Panics
/// Panics if the age is above [`AGE_MAX`].
pub fn figures(age: u8, pageblocks: u64) -> Figures {
    let older = TABLE.iter().position(|column| age <= column.age).expect("an age is at most AGE_MAX");
    let scale = Interpolation { from: &TABLE[older.saturating_sub(1)], to: &TABLE[older], age };
    let pages = pageblocks << super::PAGEBLOCK_ORDER;
    let known = Figures {
        pageblocks,
        free_pageblocks: scale.count(pageblocks, |column| column.free_pageblocks),
        huge_pageblocks: scale.count(pageblocks, |column| column.huge_pageblocks),
        fixed_pageblocks: scale.count(pageblocks, |column| column.fixed_pageblocks),
        reclaimable_pageblocks: scale.count(pageblocks, |column| column.reclaimable_pageblocks),
        free: scale.count(pages, |column| column.free),
        fixed: scale.count(pages, |column| column.fixed),
        reclaimable: scale.count(pages, |column| column.reclaimable),
        file: scale.count(pages, |column| column.file),
        active: scale.count(pages, |column| column.active),
        task: 0,
    };
    let others = known.free + known.fixed + known.reclaimable + known.file;
    Figures { task: known.pages() - others, ..known }
}

/// Two columns of the table, and an age between theirs.
struct Interpolation {
    from: &'static Column,
    to: &'static Column,
    age: u8,
}

impl Interpolation {
    /// Returns the part of a whole that this share makes at the age.
    fn count(&self, whole: u64, share: fn(&Column) -> u64) -> u64 {
        let span = u64::from(self.to.age - self.from.age).max(1);
        let done = u64::from(self.age - self.from.age.min(self.age)).min(span);
        let parts = (share(self.from) * (span - done) + share(self.to) * done) / span;
        whole * parts / PARTS
    }
}

/// Returns the layout of a machine of this age with `pageblocks` pageblocks.
///
/// # Panics
/// Panics if the age is above [`AGE_MAX`].
pub fn layout(age: u8, pageblocks: u64) -> Layout {
    Layout::from_figures(&figures(age, pageblocks))
}

/// Returns the age at which the share of pageblocks with fixed pages is nearest to that of these figures.
pub fn nearest_age(found: &Figures) -> u8 {
    let ages = 0..=AGE_MAX;
    ages.min_by_key(|&age| figures(age, found.pageblocks).fixed_pageblocks.abs_diff(found.fixed_pageblocks))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_60_is_the_published_median() {
        let median = figures(60, 10_000);
        assert_eq!((median.fixed_pageblocks, median.fixed * 100 / median.pages()), (3400, 7));
        assert!(figures(79, 10_000).free_pageblocks > 0 && figures(80, 10_000).free_pageblocks == 0);
    }

    #[test]
    fn age_0_is_a_free_machine() {
        let fresh = figures(0, 64);
        let expected = Figures { pageblocks: 64, free_pageblocks: 64, free: fresh.pages(), ..Figures::default() };
        assert_eq!(fresh, expected);
    }

    #[test]
    fn age_is_recovered_from_its_figures() {
        assert!((0..=AGE_MAX).all(|age| nearest_age(&figures(age, 1 << 15)) == age));
    }

    #[test]
    fn fragmentation_grows_with_age() {
        for age in 0..AGE_MAX {
            let (younger, older) = (figures(age, 1 << 15), figures(age + 1, 1 << 15));
            assert!(older.fixed_pageblocks > younger.fixed_pageblocks && older.fixed > younger.fixed, "{age}");
            assert!(older.free < younger.free && older.free_pageblocks <= younger.free_pageblocks, "{age}");
        }
    }
}
