//! The list of all benchmarks, and the check of the programs that they run.

use super::bench::Bench;
use super::cases;
use super::error::Error;
use super::mallocs::MALLOCS;
use super::peers::PEERS;
use super::program::Kind;
use super::settings::Settings;

/// All benchmarks, in the order in which they are listed.
pub static BENCHES: [&Bench; 6] = [
    &cases::flags::BENCH,
    &cases::contig::BENCH,
    &cases::pages::BENCH,
    &cases::compaction::BENCH,
    &cases::slab::BENCH,
    &cases::harness::BENCH,
];

impl Settings {
    /// Rejects named programs that none of these benchmarks would run.
    ///
    /// # Errors
    /// When such a program was named.
    pub fn check_programs(&self, benches: &[&Bench]) -> Result<(), Error> {
        let named = [(PEERS, self.peers.is_some()), (MALLOCS, !self.mallocs.is_empty())];
        named.into_iter().filter(|(_, is_named)| *is_named).try_for_each(|(kind, _)| match find_user(&BENCHES, kind) {
            Some(user) if find_user(benches, kind).is_none() => Err(Error::Input(format!(
                "{} is for the benchmark `{}`; name that benchmark as well, or omit the option",
                kind.option, user.name
            ))),
            _ => Ok(()),
        })
    }
}

/// Returns the first of these benchmarks that runs programs of this kind.
fn find_user<'b>(benches: &[&'b Bench], kind: Kind) -> Option<&'b Bench> {
    benches.iter().copied().find(|bench| bench.beside == Some(kind))
}
