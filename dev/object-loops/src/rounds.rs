//! Parameters of a loop (size of objects, number of rounds), and its errors.

use std::fmt;

/// Size of an object in bytes; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(usize);

impl Size {
    /// Sizes of the table: powers of two from 8 to 16384.
    pub const TABLE: [Size; 12] = {
        let mut sizes = [Size(8); 12];
        let mut at = 1;
        while at < sizes.len() {
            sizes[at] = Size(8 << at);
            at += 1;
        }
        sizes
    };

    /// Creates a size in bytes, or returns `None` for zero.
    pub const fn new(bytes: usize) -> Option<Size> {
        if bytes == 0 { None } else { Some(Size(bytes)) }
    }

    /// Returns the number of bytes.
    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of rounds of a loop for one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// Untimed rounds at the start.
    pub warm_up: u32,
    /// Timed rounds after them; at least one.
    pub timed: u32,
}

impl Rounds {
    /// Runs `round` for all rounds, and returns the results of the timed rounds.
    pub(crate) fn run<T>(self, mut round: impl FnMut() -> Result<T, Trouble>) -> Result<Vec<T>, Trouble> {
        let all = (0..self.warm_up + self.timed).map(|_| round()).collect::<Result<_, _>>()?;
        Ok(self.keep_timed(all))
    }

    /// Keeps the results of the timed rounds, which are the last.
    pub(crate) fn keep_timed<T>(self, mut all: Vec<T>) -> Vec<T> {
        all.split_off(all.len().saturating_sub(self.timed as usize))
    }
}

/// Error of a loop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The allocator ran out of memory.
    #[error("no memory for an object of {size} bytes after {after} objects; request fewer")]
    Exhausted {
        /// Objects allocated before the failure.
        after: usize,
        /// Size of the objects.
        size: Size,
    },
    /// The second thread could not be moved to its CPU.
    #[error("{0}")]
    Settle(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_table_is_complete() {
        assert_eq!(
            Size::TABLE.map(Size::bytes).as_slice(),
            [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
        );
    }
}
