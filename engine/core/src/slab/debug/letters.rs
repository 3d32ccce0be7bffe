//! Selection of checks by the letters of Linux's boot option `slab_debug=`.
//!
//! linux: mm/slub.c:parse_slub_debug_flags

use core::fmt;

use super::super::config::CacheFlags;

/// Error: a letter that selects no check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabDebugError {
    /// The letter, as in `slab_debug=` on Linux's command line.
    pub letter: char,
}

impl fmt::Display for SlabDebugError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "slab debugging has no option {:?}; give letters of FZPU, nothing for all of them, or - for none",
            self.letter
        )
    }
}

impl core::error::Error for SlabDebugError {}

impl CacheFlags {
    /// Returns the checks that letters select, in upper or lower case: `F` sanity, `Z` red zones, `P` poison, `U`
    /// tracks of users. An empty string selects all checks, and `-` none, as in Linux. Linux's letters for tracing and
    /// injected faults, and its lists of caches, are not supported.
    ///
    /// # Errors
    /// The first letter that selects no check.
    pub fn from_slab_debug(letters: &str) -> Result<CacheFlags, SlabDebugError> {
        match letters {
            "" => return Ok(CacheFlags::DEBUG),
            "-" => return Ok(CacheFlags::empty()),
            _ => {}
        }
        letters.chars().try_fold(CacheFlags::empty(), |flags, letter| {
            let flag = match letter.to_ascii_uppercase() {
                'F' => CacheFlags::SANITY,
                'Z' => CacheFlags::RED_ZONE,
                'P' => CacheFlags::POISON,
                'U' => CacheFlags::STORE_USER,
                _ => return Err(SlabDebugError { letter }),
            };
            Ok(flags | flag)
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    #[test]
    fn slab_debug_letters_match_linux() {
        assert_eq!(CacheFlags::from_slab_debug("FZPU"), Ok(CacheFlags::DEBUG));
        assert_eq!(CacheFlags::from_slab_debug(""), Ok(CacheFlags::DEBUG));
        assert_eq!(CacheFlags::from_slab_debug("-"), Ok(CacheFlags::empty()));
        assert_eq!(CacheFlags::from_slab_debug("zp"), Ok(CacheFlags::RED_ZONE | CacheFlags::POISON));
    }

    #[test]
    fn unknown_slab_debug_letter_is_an_error() {
        for (letters, letter) in [("FX", 'X'), ("F,kmalloc-64", ','), ("t", 't'), ("--", '-'), ("Zé", 'é')] {
            assert_eq!(CacheFlags::from_slab_debug(letters), Err(SlabDebugError { letter }));
        }
        let error = CacheFlags::from_slab_debug("FX").unwrap_err().to_string();
        assert_eq!(
            error,
            "slab debugging has no option 'X'; give letters of FZPU, nothing for all of them, or - for none"
        );
    }
}
