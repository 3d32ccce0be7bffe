//! The functions that can be shown, in pairs: one from before a change and one from after it.
//!
//! A subject is one row of the table. The pointers to its functions also keep these in the program as separate
//! functions, even if the compiler has inlined copies of them elsewhere.

use freehold::policy::flags;

/// A change whose machine code can be shown.
#[derive(Debug)]
pub struct Subject {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the change.
    pub about: &'static str,
    /// Functions that it changed.
    pub pairs: &'static [Pair],
    /// Hint on further comparisons.
    pub further: &'static str,
}

/// One function, before the change and after it.
#[derive(Debug)]
pub struct Pair {
    /// Description of both.
    pub name: &'static str,
    /// Function before the change.
    pub before: Function,
    /// Function after the change.
    pub after: Function,
}

/// A function of this program.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Name of the function.
    pub name: &'static str,
    /// Returns the address of the function.
    pub address: fn() -> usize,
}

/// All subjects.
pub const SUBJECTS: &[&Subject] = &[&FLAGS];

/// The first of the five changes: the conversion of GFP flags.
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
        "In this build the values of the flags differ, so no flags are copied, and both functions contain the tests."
    } else {
        "To see the tests with different values of the flags: RUSTFLAGS='--cfg freehold_uncoupled' \
         cargo run --profile dist -- disasm flags"
    },
};
