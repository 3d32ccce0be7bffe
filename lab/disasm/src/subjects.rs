//! What can be shown: pairs of functions, one from before a change and one from after it.
//!
//! A subject is one row. Its functions are named by their addresses, which is also what keeps them in the program as
//! functions of their own, however often the compiler has put copies of them into others.

use freehold::policy::flags;

/// A change whose machine code can be looked at.
#[derive(Debug)]
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// What the change is.
    pub about: &'static str,
    /// What it did to each function.
    pub pairs: &'static [Pair],
    /// What else can be looked at.
    pub further: &'static str,
}

/// One function, before the change and after it.
#[derive(Debug)]
pub struct Pair {
    /// What both do.
    pub name: &'static str,
    /// Before.
    pub before: Function,
    /// After.
    pub after: Function,
}

/// A function of this program.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Where it is.
    pub address: fn() -> usize,
}

/// Every subject.
pub const SUBJECTS: &[&Subject] = &[&FLAGS];

/// The first of the five changes.
pub const FLAGS: Subject = Subject {
    name: "flags",
    about: "GFP flags become allocation flags: two bits copied by mask (before), two bits tested (after)",
    pairs: &[
        Pair {
            name: "slow path",
            before: Function { name: "slow_coupled", address: || (flags::slow_coupled as *const ()).addr() },
            after: Function { name: "slow_plain", address: || (flags::slow_plain as *const ()).addr() },
        },
        Pair {
            name: "no-fragment",
            before: Function {
                name: "nofragment_coupled",
                address: || (flags::nofragment_coupled as *const ()).addr(),
            },
            after: Function { name: "nofragment_plain", address: || (flags::nofragment_plain as *const ()).addr() },
        },
    ],
    further: if cfg!(freehold_uncoupled) {
        "In this build the values of the flags differ, so nothing can be copied and both names stand for the tests."
    } else {
        "Where the values differ, the tests cost what this shows: RUSTFLAGS='--cfg freehold_uncoupled' \
         cargo run --profile dist -- disasm flags"
    },
};
