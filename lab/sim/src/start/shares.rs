//! Shares that replace those of an age or of a reference machine, to request a specific fragmentation.

use std::str::FromStr;

use super::{Figures, Layout, PAGEBLOCK_ORDER};

/// Denominator of a share.
const WHOLE: u64 = 10_000;

/// A share, in percent with up to two decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(u64);

impl Percent {
    /// Returns this percentage of a number.
    pub fn part_of(self, whole: u64) -> u64 {
        (u128::from(whole) * u128::from(self.0) / u128::from(WHOLE)) as u64
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Percent, String> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{decimals:0<2}");
        let is_number = decimals.len() <= 2 && !whole.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let parts = digits.parse().ok().filter(|parts| is_number && *parts <= WHOLE);
        parts.map(Percent).ok_or_else(|| {
            format!("`{text}` is not a share; give a percentage from 0 to 100 with at most two decimals")
        })
    }
}

/// Shares that differ from those of an age or of a reference machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Share of pageblocks with fixed pages, which can be neither moved nor reclaimed.
    pub fixed_pageblocks: Option<Percent>,
    /// Share of pages that are fixed.
    pub fixed: Option<Percent>,
    /// Share of pageblocks that are wholly free.
    pub free_pageblocks: Option<Percent>,
    /// Share of pages that are free.
    pub free: Option<Percent>,
    /// Share of pageblocks that are a huge page of a task.
    pub huge_pageblocks: Option<Percent>,
}

impl Shares {
    /// Returns the layout with these shares. Without any share, the layout is unchanged; otherwise it is derived from
    /// the new figures.
    ///
    /// # Errors
    /// Returns a sentence that names the contradiction if the shares are inconsistent.
    pub fn apply_to_layout(&self, layout: Layout) -> Result<Layout, String> {
        match *self == Shares::default() {
            true => Ok(layout),
            false => Ok(Layout::from_figures(&self.apply_to(&layout.total())?)),
        }
    }

    /// Returns the figures with these shares. Files and tasks keep their proportion in the remaining pages.
    ///
    /// # Errors
    /// Returns a sentence that names the contradiction if the shares are inconsistent.
    pub fn apply_to(&self, figures: &Figures) -> Result<Figures, String> {
        let (pageblocks, pages) = (figures.pageblocks, figures.pages());
        let mut wanted = Figures {
            fixed_pageblocks: part_or(self.fixed_pageblocks, pageblocks, figures.fixed_pageblocks),
            fixed: part_or(self.fixed, pages, figures.fixed),
            free_pageblocks: part_or(self.free_pageblocks, pageblocks, figures.free_pageblocks),
            free: part_or(self.free, pages, figures.free),
            huge_pageblocks: part_or(self.huge_pageblocks, pageblocks, figures.huge_pageblocks),
            ..*figures
        };
        wanted.expect_room()?;
        let movable = wanted.pages() - wanted.free - wanted.fixed - wanted.reclaimable;
        let huge = wanted.huge_pageblocks << PAGEBLOCK_ORDER;
        let before = (figures.file + figures.task).max(1);
        wanted.file = rescale(figures.file, before, movable).min(movable - huge);
        wanted.active = rescale(figures.active, before, movable).min(wanted.file);
        wanted.task = movable - wanted.file;
        Ok(wanted)
    }
}

/// Returns the part of a whole that a share makes, or a count if there is no share.
fn part_or(share: Option<Percent>, whole: u64, count: u64) -> u64 {
    share.map_or(count, |share| share.part_of(whole))
}

/// Returns `count * after / before`, rounded down.
fn rescale(count: u64, before: u64, after: u64) -> u64 {
    (u128::from(count) * u128::from(after) / u128::from(before)) as u64
}

/// Returns the number of pages of `pageblocks` pageblocks.
fn pages_in(pageblocks: u64) -> u64 {
    pageblocks << PAGEBLOCK_ORDER
}

impl Figures {
    fn expect_room(&self) -> Result<(), String> {
        let kinds = self.free_pageblocks + self.huge_pageblocks + self.fixed_pageblocks + self.reclaimable_pageblocks;
        let used = self.free + self.fixed + self.reclaimable + pages_in(self.huge_pageblocks);
        let sentence = if kinds > self.pageblocks || used > self.pages() {
            "these shares add up to more than the whole; lower one of them"
        } else if pages_in(self.free_pageblocks) > self.free {
            "there are more free pageblocks than free pages to fill them; raise --free, or lower --free-blocks"
        } else if self.fixed < self.fixed_pageblocks || self.fixed > pages_in(self.fixed_pageblocks) {
            "the fixed pages do not match the pageblocks with fixed pages; change --fixed or --fixed-blocks"
        } else {
            return Ok(());
        };
        Err(sentence.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{age, draw_start};
    use super::*;

    fn percent(text: &str) -> Option<Percent> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn percent_has_at_most_two_decimals() {
        assert_eq!(
            ["0", "7", "34.5", "0.25", "100"].map(|text| text.parse().map(|Percent(parts)| parts)),
            [Ok(0), Ok(700), Ok(3450), Ok(25), Ok(10_000)]
        );
        for wrong in ["", "-1", "101", "1.234", "x", ".5", "1e1", "5 %"] {
            assert!(wrong.parse::<Percent>().unwrap_err().contains("percentage from 0 to 100"), "{wrong}");
        }
    }

    #[test]
    fn requested_shares_are_drawn() {
        let shares = Shares { fixed_pageblocks: percent("50"), fixed: percent("5"), ..Shares::default() };
        let wanted = shares.apply_to(&age::figures(60, 1000)).unwrap();
        let found = Figures::from_start(&draw_start(&Layout::from_figures(&wanted), 3));
        assert_eq!((found.fixed_pageblocks, found.fixed, found.free), (500, 25_600, wanted.free));
    }

    #[test]
    fn inconsistent_shares_are_errors() {
        for (shares, why) in [
            (Shares { fixed_pageblocks: percent("99"), ..Shares::default() }, "more than the whole"),
            (Shares { free_pageblocks: percent("50"), ..Shares::default() }, "raise --free"),
            (Shares { fixed: percent("40"), ..Shares::default() }, "do not match"),
            (Shares { fixed: percent("0.01"), ..Shares::default() }, "do not match"),
        ] {
            let error = shares.apply_to(&age::figures(60, 1000)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
