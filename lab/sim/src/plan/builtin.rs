//! The built-in plans: the files of `plans/` at the top of the repository, by name.

/// A built-in plan.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Name of the plan.
    pub name: &'static str,
    /// Text of the file.
    pub text: &'static str,
}

/// Includes the plan in the file of this name.
macro_rules! builtin {
    ($name:literal) => {
        Builtin { name: $name, text: include_str!(concat!("../../../../plans/", $name, ".toml")) }
    };
}

/// All built-in plans, in the order of `freehold sim --list`.
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
