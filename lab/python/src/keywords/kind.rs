//! Kinds of arguments: the Python type of a command-line value.
//!
//! The kind is derived from the value name in the command's help, such as `N`, `FILE` or `PERCENT`.

use clap::Arg;

/// Kind of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A boolean.
    Switch,
    /// A whole number.
    Int,
    /// A floating-point number.
    Float,
    /// A text.
    Text,
    /// A file or a folder.
    Path,
    /// One of these words.
    Choice(Vec<String>),
    /// A boolean or a whole number: on, off, or an amount.
    SwitchOrInt,
}

/// Value names of whole numbers.
const INTS: [&str; 4] = ["N", "N,...", "KIB", "0..100"];
/// Value names of floating-point numbers.
const FLOATS: [&str; 2] = ["S", "PERCENT"];
/// Value names of arguments that are, or may be, a file or a folder.
const PATHS: [&str; 6] = ["FILE", "FOLDER", "RECORDING", "PLAN", "NAME|FILE", "COMMAND"];
/// Value names of texts.
#[cfg(test)]
const TEXTS: [&str; 8] = ["NAME", "NAME=VALUE", "KEY=VALUE", "SIZE", "TIME", "SETS", "TRIGGERS", "KIND,..."];

impl Kind {
    /// Derives the kind of an argument.
    pub fn from_arg(arg: &Arg) -> Kind {
        if !arg.get_action().takes_values() {
            return Kind::Switch;
        }
        let choices: Vec<String> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        if !choices.is_empty() {
            return Kind::Choice(choices);
        }
        let name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
        match name {
            name if INTS.contains(&name) && arg.is_require_equals_set() => Kind::SwitchOrInt,
            name if INTS.contains(&name) => Kind::Int,
            name if FLOATS.contains(&name) => Kind::Float,
            name if PATHS.contains(&name) => Kind::Path,
            _ => Kind::Text,
        }
    }

    /// Returns the Python annotation of the type.
    pub fn annotation(&self) -> String {
        match self {
            Kind::Switch => "bool".to_owned(),
            Kind::Int => "int".to_owned(),
            Kind::Float => "float".to_owned(),
            Kind::Text => "str".to_owned(),
            Kind::Path => "_StrPath".to_owned(),
            Kind::Choice(words) => {
                format!("Literal[{}]", words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", "))
            }
            Kind::SwitchOrInt => "bool | int".to_owned(),
        }
    }

    /// Returns the expected type in the words of an error message.
    pub fn expected(&self) -> String {
        match self {
            Kind::Path => "a str or an os.PathLike".to_owned(),
            Kind::Choice(words) => format!("one of the words {}", words.join(", ")),
            Kind::Int => "an int".to_owned(),
            Kind::SwitchOrInt => "a bool or an int".to_owned(),
            other => format!("a {}", other.annotation()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_value_of_every_function_has_a_kind() {
        let cli = freehold_cli::Cli::command();
        let known: Vec<&str> = [&INTS[..], &FLOATS, &PATHS, &TEXTS].concat();
        for name in crate::keywords::FUNCTIONS {
            let command = cli.find_subcommand(name).unwrap();
            let values = command.get_arguments().filter(|arg| arg.get_action().takes_values());
            let formats = crate::keywords::formats();
            for arg in values.filter(|arg| arg.get_possible_values().is_empty()) {
                let is_format = arg.get_long().is_some_and(|long| formats.contains(&long.to_owned()));
                let name = arg.get_value_names().and_then(|names| names.first()).expect("it has a name");
                assert!(is_format || known.contains(&name.as_str()), "give a value called {name} a kind: {arg}");
            }
        }
    }
}
