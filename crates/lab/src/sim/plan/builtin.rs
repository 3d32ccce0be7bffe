//! The plans that are built in: the files of `plans/` at the top of the repository, by name.

/// A built-in plan.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

/// Every built-in plan, in the order of `freehold sim --list`.
pub const BUILTINS: &[Builtin] = &[
    Builtin { name: "purge", text: include_str!("../../../../../plans/purge.toml") },
    Builtin { name: "pingpong", text: include_str!("../../../../../plans/pingpong.toml") },
    Builtin { name: "steady", text: include_str!("../../../../../plans/steady.toml") },
    Builtin { name: "numa", text: include_str!("../../../../../plans/numa.toml") },
];
