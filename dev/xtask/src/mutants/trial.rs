//! Trials: runs each mutant with the tests that execute its site, fastest first, until one fails.
//!
//! A test that fails, crashes or exceeds its time limit has detected the mutant. But exceeding the limit proves nothing
//! if the test did not end in time without a mutant either. The limit is ten times the test's time without a mutant
//! plus ten seconds, because other work may slow the machine down.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::progress::Progress;
use super::site::Site;
use super::suite::{Ending, Test};
use super::workers;
use crate::error::Error;

/// Factor by which a test may exceed its own time.
const PATIENCE_TIMES: u32 = 10;
/// Time that is added to this limit.
const PATIENCE_MORE: Duration = Duration::from_secs(10);

/// Result of a mutant that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// This test failed with the mutant.
    Caught(String),
    /// This test exceeded its time limit.
    TimedOut(String),
    /// No test that executes the site noticed the mutant; this is the number of these tests.
    Survived(usize),
    /// No test executes the edited code.
    NotCovered,
}

/// Tries every mutant. `tell` returns the message about a mutant that was not noticed, which is printed at once.
///
/// # Errors
/// Returns an error if a test cannot be started.
pub(crate) fn run<'s>(
    mutants: &BTreeMap<u32, &'s Site>,
    tests: &[Test],
    jobs: usize,
    tell: impl Fn(&Site, &Fate) -> Option<String> + Sync,
) -> Result<Vec<(&'s Site, Fate)>, Error> {
    let progress = Progress::new("trying mutants", mutants.len());
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
            // The time of this test without a mutant is unknown, so exceeding the limit proves nothing.
            Ending::TimedOut if !test.has_ended => {}
            Ending::TimedOut => return Ok(Fate::TimedOut(test.name())),
        }
    }
    Ok(if covering.is_empty() { Fate::NotCovered } else { Fate::Survived(covering.len()) })
}
