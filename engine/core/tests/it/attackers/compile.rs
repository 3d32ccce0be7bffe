//! What must not compile: every way to the inside that the compiler bars. Each case says in its first lines what it
//! tries; beside it stands what the compiler answers, since a case that fails for another reason shows nothing.
//!
//! Cost: one check of the library, and some tenths of a second a case. Answers are written anew by
//! `TRYBUILD=overwrite cargo test -p freehold --test it attackers::compile`. No case may lead the compiler to the sources
//! of the standard library, which it quotes where they are installed.

use freehold::base::lock::{Guard, Rank, Ranked, SpinLock};

struct Ours;

impl Ranked for Ours {
    const RANK: Rank = Rank::Zone;
}

/// Has one `here` for every type, and another for those that may go to another thread: naming it is ambiguous for
/// these.
trait StaysUnlessSent<A> {
    fn here() {}
}

impl<T: ?Sized> StaysUnlessSent<()> for T {}
impl<T: ?Sized + Send> StaysUnlessSent<u8> for T {}

/// The same of types that threads may share.
trait StaysUnlessShared<A> {
    fn alone() {}
}

impl<T: ?Sized> StaysUnlessShared<()> for T {}
impl<T: ?Sized + Sync> StaysUnlessShared<u8> for T {}

/// A guard that went to another thread would open a lock which that thread did not take; one that is shared would show
/// several threads what only one may use at a time. Compiles only while no guard can do either.
#[test]
fn a_guard_stays_where_the_lock_was_taken() {
    <Guard<'static, SpinLock, Ours> as StaysUnlessSent<_>>::here();
    <Guard<'static, SpinLock, Ours> as StaysUnlessShared<_>>::alone();
}

#[test]
#[cfg_attr(miri, ignore = "the compiler is no program for Miri")]
fn the_inside_is_private() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/it/attackers/compile/*.rs");
}
