//! Versions of kernels as people write them: `6.12`, `6.12.117`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A version, or the leading numbers of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    /// Returns whether `release` is of this version: `6.12` includes `6.12.117+deb13-cloud-amd64`, but `6.1` does not.
    pub fn has(&self, release: &str) -> bool {
        release.strip_prefix(&self.0).is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_ascii_digit()))
    }

    /// Returns an extended regular expression for the beginning of its releases.
    pub fn pattern(&self) -> String {
        self.0.replace('.', r"\.") + "[.+-]"
    }
}

/// Compares two releases by age; the older one is less.
pub(crate) fn compare_releases(a: &str, b: &str) -> Ordering {
    numbers(a).cmp(numbers(b))
}

/// Returns the numbers in a release, in order.
fn numbers(release: &str) -> impl Iterator<Item = u64> {
    release.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok())
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Version, ()> {
        if (2..=3).contains(&text.split('.').count()) && text.split('.').all(is_number) {
            return Ok(Version(text.to_owned()));
        }
        Err(())
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_matches_its_releases_only() {
        for (version, release, is_of_version) in [
            ("6.12", "6.12.117+deb13-cloud-amd64", true),
            ("6.12.117", "6.12.117+deb13-cloud-amd64", true),
            ("6.1", "6.12.117", false),
            ("6.12.11", "6.12.117", false),
            ("6.12", "7.6.12", false),
        ] {
            assert_eq!(version.parse::<Version>().unwrap().has(release), is_of_version, "{version}, {release}");
        }
    }

    #[test]
    fn paths_and_words_are_not_versions() {
        for text in ["", "6", "6.", "v6.12", "6.12.1.2", "./6.12", "6.12-rc1", "linux"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn releases_are_ordered_numerically() {
        assert_eq!(compare_releases("6.9.2+deb13-cloud", "6.12.1+deb12-cloud"), Ordering::Less);
        assert_eq!(compare_releases("6.12.1+deb13-cloud", "6.12.1+deb12-cloud"), Ordering::Greater);
    }
}
