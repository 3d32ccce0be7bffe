//! Attempts by the thousand, each on a town as it was built. What is done leaves the town in order, and is followed by
//! a fresh one; what is refused is tried again, on one town, which in the end looks as before.

use freehold::Policy;

use crate::attackers::machine::Bytes;
use crate::attackers::town::{Town, with_town};
use crate::common::picture::Picture;

/// Bytes to bring.
pub(super) type Spare<'s, 'm> = &'s mut dyn Iterator<Item = &'m mut Bytes>;

/// How attempts are made, and what a refusal says of the town.
pub(super) struct Way<A> {
    pub attempt: for<'m> fn(&A, &Town<'_, 'm, '_>, Spare<'_, 'm>) -> Result<(), String>,
    /// Whether a refusal changes nothing.
    pub keeps: fn(&A) -> bool,
    pub name: fn(&A) -> String,
}

/// Refusals between two pictures.
const BATCH: usize = 40;

/// Drops the value of a result, and formats its error.
pub(super) fn describe<T, E: std::fmt::Debug>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| format!("{error:?}"))
}

/// Makes all attempts; how many were done, and how many refused.
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
                (way.attempt)(attempt, town, spare).expect_err("it was refused before");
            }
            // What was to be moved may have been offered a place by way of a list.
            town.engine.drain_all_pages();
            if let Some(difference) = before.difference_but_tuning(&Picture::take(town.engine)) {
                let names: Vec<_> = batch.iter().map(|&attempt| (way.name)(attempt)).collect();
                panic!("one of these changed {difference:?}: {names:?}");
            }
        }
    });
    (done, refused.len())
}
