//! What must not compile: every way to the inside that the compiler bars. Each case says in its first lines what it
//! tries; beside it stands what the compiler answers, since a case that fails for another reason shows nothing.
//!
//! Cost: one check of the library, and some tenths of a second a case. Answers are written anew by
//! `TRYBUILD=overwrite cargo test -p freehold --test attackers compile`.

#[test]
#[cfg_attr(miri, ignore = "the compiler is no program for Miri")]
fn the_inside_is_private() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/attackers/compile/*.rs");
}
