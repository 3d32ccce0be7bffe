//! The build profile that is required for figures of speed.
//!
//! Published figures come from one profile, so that any two of them can be compared. The measuring program knows the
//! profile it was built with and passes its name. Two kinds of runs need no profile: quick ones, whose figures mean
//! nothing, and the benchmark `harness`, which only checks verdicts on differences that it plants.

use crate::bench::Bench;
use crate::cases;
use crate::error::Error;
use crate::subject::Effort;

/// Name of the required profile.
const PROFILE: &str = "dist";

/// Refuses to measure figures in a program that was built with another profile than `dist`.
///
/// # Errors
/// When `profile`, the profile that the program was built with, is another one or unknown.
pub fn check_profile(profile: Option<&str>, effort: Effort) -> Result<(), Error> {
    if effort == Effort::Quick || profile == Some(PROFILE) {
        return Ok(());
    }
    let built = profile.map_or_else(|| "an unknown profile".to_owned(), |name| format!("the profile `{name}`"));
    Err(Error::Input(format!(
        "times need a program that was built with the profile `{PROFILE}`, and this one was built with {built}; use \
         `cargo build --profile {PROFILE}`, or check with --quick that the benchmark runs"
    )))
}

impl Bench {
    /// Returns whether the times of this benchmark are figures for publication.
    pub fn has_figures(&self) -> bool {
        self.name != cases::harness::BENCH.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_require_the_dist_profile_unless_quick() {
        assert!(check_profile(Some("dist"), Effort::Full).is_ok());
        for other in [Some("release"), Some("dev"), None] {
            let refused = check_profile(other, Effort::Full).unwrap_err().to_string();
            assert!(refused.contains("cargo build --profile dist") && refused.contains("--quick"), "{refused}");
            assert!(check_profile(other, Effort::Quick).is_ok());
        }
        assert!(!cases::harness::BENCH.has_figures() && cases::pages::BENCH.has_figures());
    }
}
