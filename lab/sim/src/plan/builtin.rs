//! The plans that are built in: the files of `plans/` at the top of the repository, by name.

/// A built-in plan.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

/// The plan in the file of this name.
macro_rules! builtin {
    ($name:literal) => {
        Builtin { name: $name, text: include_str!(concat!("../../../../plans/", $name, ".toml")) }
    };
}

/// Every built-in plan, in the order of `freehold sim --list`.
pub const BUILTINS: &[Builtin] = &[
    builtin!("purge"),
    builtin!("mallocs"),
    builtin!("pingpong"),
    builtin!("steady"),
    builtin!("exit"),
    builtin!("build"),
    builtin!("recording"),
    builtin!("numa"),
    builtin!("pressure"),
    builtin!("small-machine"),
    builtin!("long"),
    builtin!("webhost"),
    builtin!("fragment"),
];
