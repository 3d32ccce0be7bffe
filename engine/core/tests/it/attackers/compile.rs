//! Programs that must not compile: each tries to reach the allocator's internals in a way that the compiler rejects.
//! The first lines of each case describe the attempt. The expected compiler output is stored beside the case, because a
//! case that fails for another reason proves nothing.
//!
//! Cost: one check of the library, and some tenths of a second per case. `TRYBUILD=overwrite cargo test -p freehold
//! --test it attackers::compile` rewrites the expected outputs. No case may produce a diagnostic that quotes sources of
//! the standard library, because the quote depends on whether these sources are installed.

use freehold::base::lock::{Guard, Rank, Ranked, SpinLock};

struct Ours;

impl Ranked for Ours {
    const RANK: Rank = Rank::Zone;
}

/// Provides one `here` for every type, and a second one for types that are `Send`. A call of `here` is therefore
/// ambiguous for `Send` types and does not compile.
trait StaysUnlessSent<A> {
    fn here() {}
}

impl<T: ?Sized> StaysUnlessSent<()> for T {}
impl<T: ?Sized + Send> StaysUnlessSent<u8> for T {}

/// Provides one `alone` for every type, and a second one for types that are `Sync`. A call of `alone` is therefore
/// ambiguous for `Sync` types and does not compile.
trait StaysUnlessShared<A> {
    fn alone() {}
}

impl<T: ?Sized> StaysUnlessShared<()> for T {}
impl<T: ?Sized + Sync> StaysUnlessShared<u8> for T {}

/// Checks that [`Guard`] is neither `Send` nor `Sync`; the function compiles only in that case. A guard sent to another
/// thread would release a lock that this thread did not take. A shared guard would give several threads access to data
/// that only one thread may use at a time.
#[test]
fn guard_is_neither_send_nor_sync() {
    <Guard<'static, SpinLock, Ours> as StaysUnlessSent<_>>::here();
    <Guard<'static, SpinLock, Ours> as StaysUnlessShared<_>>::alone();
}

#[test]
#[cfg_attr(miri, ignore = "the compiler is no program for Miri")]
fn private_items_do_not_compile_outside() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/it/attackers/compile/*.rs");
}
