//! Errors in a plan, each as one sentence that names file, line and key, and a remedy.
//!
//! Messages of the TOML reader are rephrased: `invalid type: string "many", expected u64` becomes `is string "many";
//! write a whole number`.

use std::fmt;
use std::path::PathBuf;

use freehold_policies::PolicyError;

/// Reason why a plan cannot be run. Boxed, since it is large and rare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(Box<Complaint>);

/// An error in a plan, and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Path or built-in name of the plan.
    pub plan: String,
    /// Line, counted from 1.
    pub line: Option<usize>,
    /// Command-line option that gave the value, as it was typed.
    pub option: Option<String>,
    /// Path of the key, such as `workload.pages`; empty for the whole plan.
    pub key: String,
    /// Kind of error.
    pub trouble: Trouble,
}

/// Kind of error in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The text is not TOML; the message of the reader.
    NotToml(String),
    /// The key is unknown.
    UnknownKey {
        /// Hint at a known key that was probably meant.
        hint: String,
    },
    /// A key is missing in the table.
    MissingKey {
        /// Name of the missing key.
        name: String,
    },
    /// The value has another type or range than the key.
    WrongKind {
        /// Description of the value.
        found: String,
        /// Description of valid values.
        wanted: String,
    },
    /// The path of `--set` or of a sweep contains a key that is not a table.
    NoTable {
        /// Name of the key that is not a table.
        name: String,
        /// Hint at a table that was probably meant.
        hint: String,
    },
    /// The value is invalid; a sentence that follows the key.
    Unfit(String),
}

/// Reason why a plan could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be read.
    #[error(
        "cannot read the plan {path}: {source}; name a file that can be read, or a built-in plan (see `freehold sim --list`)",
        path = path.display()
    )]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The name is neither a built-in plan nor a file.
    #[error("there is no plan `{name}`; {hint} (see `freehold sim --list`), or name a TOML file")]
    Unknown {
        /// Name that was given.
        name: String,
        /// Hint at a built-in plan that was probably meant.
        hint: String,
    },
    /// The plan has an error.
    #[error(transparent)]
    Wrong(#[from] PlanError),
    /// A `--set` without `=`.
    #[error("`--set {0}` has no value; write it as key=value, for example `--set duration_ms=5`")]
    NoValue(String),
    /// An unknown policy on the command line.
    #[error("{option} {name}: {error}")]
    Policy {
        /// `--a` or `--b`.
        option: &'static str,
        /// Name that was given.
        name: String,
        /// Reason why it is not a policy.
        error: PolicyError,
    },
}

impl From<Complaint> for PlanError {
    fn from(complaint: Complaint) -> PlanError {
        PlanError(Box::new(complaint))
    }
}

impl std::error::Error for PlanError {}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Complaint { plan, line, option, key, trouble } = &*self.0;
        match (option, line) {
            (Some(option), _) => write!(f, "{option}: ")?,
            (None, Some(line)) => write!(f, "{plan}:{line}: ")?,
            (None, None) => write!(f, "{plan}: ")?,
        }
        let key = if key.is_empty() { "the file".to_owned() } else { format!("`{key}`") };
        match trouble {
            Trouble::NotToml(words) => write!(f, "{key} cannot be read as TOML ({words}); correct that line"),
            Trouble::UnknownKey { hint } => write!(f, "{key} is not a known key; {hint}"),
            Trouble::MissingKey { name } => write!(f, "{key} lacks `{name}`; add it"),
            Trouble::WrongKind { found, wanted } => write!(f, "{key} is {found}; write {wanted}"),
            Trouble::NoTable { name, hint } => write!(f, "{key} is a key in `{name}`, which is not a table; {hint}"),
            Trouble::Unfit(sentence) => write!(f, "{key} {sentence}"),
        }
    }
}

impl Trouble {
    /// Rephrases a message of the TOML reader. `more` lists keys of the same table that the reader does not know.
    pub fn from_reader_message(message: &str, more: &[&str]) -> Trouble {
        let message = message.lines().next().unwrap_or_default();
        let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        if let (true, Some((word, names))) = (message.starts_with("unknown field"), quoted.split_first()) {
            return Trouble::UnknownKey { hint: freehold_policies::hint(word, names.iter().chain(more).copied()) };
        }
        if let (true, [name]) = (message.starts_with("missing field"), quoted.as_slice()) {
            return Trouble::MissingKey { name: (*name).to_owned() };
        }
        let kinds = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
        match kinds.and_then(|kinds| kinds.split_once(", expected ")) {
            Some((found, wanted)) => Trouble::WrongKind { found: found.replace('`', ""), wanted: in_words(wanted) },
            // Messages of this crate's types are sentences already.
            None => Trouble::Unfit(format!("is invalid: {message}")),
        }
    }
}

/// Describes an expected type in words that do not require knowledge of Rust.
fn in_words(wanted: &str) -> String {
    match wanted {
        "u8" => whole_number_up_to(u8::MAX.into()),
        "u16" => whole_number_up_to(u16::MAX.into()),
        "u32" => whole_number_up_to(u32::MAX.into()),
        "u64" | "usize" => "a whole number, not below 0".to_owned(),
        "a sequence" => "a list in brackets, as in [1, 2]".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "a text in quotes".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.to_owned(),
    }
}

fn whole_number_up_to(most: u64) -> String {
    format!("a whole number from 0 to {most}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_reader_errors_are_translated() {
        let unknown =
            Trouble::from_reader_message("unknown field `pagse`, expected one of `pages`, `order`", &["kind"]);
        assert_eq!(unknown, Trouble::UnknownKey { hint: "perhaps `pages` is meant".to_owned() });
        let unknown = Trouble::from_reader_message("unknown field `knid`, expected `pages`", &["kind"]);
        assert_eq!(unknown, Trouble::UnknownKey { hint: "perhaps `kind` is meant".to_owned() });
        let missing = Trouble::from_reader_message("missing field `title`", &[]);
        assert_eq!(missing, Trouble::MissingKey { name: "title".to_owned() });
        let kind = Trouble::from_reader_message("invalid type: string \"many\", expected u16", &[]);
        let wanted = "a whole number from 0 to 65535".to_owned();
        assert_eq!(kind, Trouble::WrongKind { found: "string \"many\"".to_owned(), wanted });
    }
}
