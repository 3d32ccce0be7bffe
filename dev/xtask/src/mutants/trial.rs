//! Trials: each mutant against the tests that meet its site, the fastest first, until one fails.
//!
//! A test that fails, crashes or does not come to its end has noticed. It may take ten times as long as without a
//! mutant, and ten seconds more, since other work may be going on.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::progress::Progress;
use super::site::Site;
use super::suite::{Ending, Test};
use super::workers;
use crate::error::Error;

/// How often its own time a test may take.
const PATIENCE_TIMES: u32 = 10;
/// Time that a test gets beyond a multiple of its own.
const PATIENCE_MORE: Duration = Duration::from_secs(10);

/// What became of a mutant that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// This test failed with it.
    Caught(String),
    /// A test did not come to its end: this one.
    TimedOut(String),
    /// So many tests met it, and all passed.
    Survived(usize),
    /// No test runs the code that it edits.
    NotCovered,
}

/// Tries every mutant; each that was not noticed is told at once, in the words of `tell` if it has any.
///
/// # Errors
/// If a test cannot be started.
pub(crate) fn run<'s>(
    mutants: &BTreeMap<u32, &'s Site>,
    tests: &[Test],
    jobs: usize,
    tell: impl Fn(&Site, &Fate) -> Option<String> + Sync,
) -> Result<Vec<(&'s Site, Fate)>, Error> {
    let progress = Progress::new("mutants are tried", mutants.len());
    let fates = Mutex::new(BTreeMap::new());
    workers::share(jobs, mutants.iter(), |(id, site)| {
        let fate = try_mutant(*id, tests)?;
        if let Some(text) = tell(site, &fate) {
            progress.say(&text);
        }
        progress.advance();
        fates.lock().expect("no worker panics").insert(*id, (*site, fate));
        Ok(())
    })?;
    Ok(fates.into_inner().expect("no worker panics").into_values().collect())
}

fn try_mutant(id: u32, tests: &[Test]) -> Result<Fate, Error> {
    let covering: Vec<&Test> = tests.iter().filter(|test| test.met.contains(&id)).collect();
    for test in &covering {
        match test.with_mutant(id, test.time * PATIENCE_TIMES + PATIENCE_MORE)? {
            Ending::Passed => {}
            Ending::Failed => return Ok(Fate::Caught(test.name())),
            // Nobody knows how long it would take, so that it takes long says nothing.
            Ending::TimedOut if !test.has_ended => {}
            Ending::TimedOut => return Ok(Fate::TimedOut(test.name())),
        }
    }
    Ok(if covering.is_empty() { Fate::NotCovered } else { Fate::Survived(covering.len()) })
}
