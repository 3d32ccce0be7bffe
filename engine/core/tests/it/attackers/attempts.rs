//! Runs thousands of attempts against the machine of [`town`](super::town).
//!
//! An attempt that succeeds must leave the machine in order; the next attempt gets a new machine. An attempt that is
//! refused is repeated later, together with other refused ones, on a single machine, which must look the same
//! afterwards.

use freehold::Policy;

use crate::attackers::machine::Bytes;
use crate::attackers::sample_machine::{Town, with_town};
use crate::common::picture::Picture;

/// Iterator over spare metadata bytes for an attempt to use.
pub(super) type Spare<'s, 'm> = &'s mut dyn Iterator<Item = &'m mut Bytes>;

/// Describes how attempts of one kind are made, and whether their refusals change the machine.
pub(super) struct Way<A> {
    pub attempt: for<'m> fn(&A, &Town<'_, 'm, '_>, Spare<'_, 'm>) -> Result<(), String>,
    /// Returns whether a refused attempt leaves the machine unchanged.
    pub keeps: fn(&A) -> bool,
    pub name: fn(&A) -> String,
}

/// Refused attempts between two comparisons of the machine.
const BATCH: usize = 40;

/// Drops the value of a result, and formats its error.
pub(super) fn describe<T, E: std::fmt::Debug>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| format!("{error:?}"))
}

/// Makes all attempts. Returns the numbers of successful and of refused attempts.
pub(super) fn make_all<A>(policy: Policy, attempts: &[A], way: &Way<A>) -> (usize, usize) {
    let step = if cfg!(miri) { 997 } else { 1 };
    let mut left = attempts.iter().step_by(step).peekable();
    let (mut done, mut refused) = (0, Vec::new());
    while left.peek().is_some() {
        with_town(policy, |town, spare| {
            for attempt in left.by_ref() {
                let answer = (way.attempt)(attempt, town, spare);
                if answer.is_err() && (way.keeps)(attempt) {
                    refused.push(attempt);
                    continue;
                }
                done += usize::from(answer.is_ok());
                let what = (way.name)(attempt);
                town.engine.check().unwrap_or_else(|violation| panic!("{what}, {answer:?}: {violation}"));
                return;
            }
        });
    }
    with_town(policy, |town, spare| {
        town.engine.drain_all_pages();
        let before = Picture::take(town.engine);
        for batch in refused.chunks(BATCH) {
            for &attempt in batch {
                (way.attempt)(attempt, town, spare)
                    .expect_err("the attempt was refused before, so it must be refused again");
            }
            // An attempt that moves pages may have allocated their targets through a per-CPU list.
            town.engine.drain_all_pages();
            if let Some(difference) = before.difference_but_tuning(&Picture::take(town.engine)) {
                let names: Vec<_> = batch.iter().map(|&attempt| (way.name)(attempt)).collect();
                panic!("one of these changed {difference:?}: {names:?}");
            }
        }
    });
    (done, refused.len())
}
