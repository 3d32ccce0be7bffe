//! Python functions for commands: the parameters of each function, and the conversion of a call to command-line
//! arguments.
//!
//! Everything is derived from clap's definition of the command. A long option becomes a keyword, with `_` in place of
//! `-`; a positional argument of the command is positional in Python too. There is no second list of options that could
//! become outdated, and values are checked by the command's own parsers. Output formats are not keywords, because a
//! report provides all of them.
//!
//! # Design
//!
//! The value name in the help (`N`, `FILE`) determines the Python type; a test fails for a value without such a name.
//! Stubs and docstrings are generated from the same definition, and a test compares the committed ones with it. The
//! part that needs Python is behind a feature, so that everything else is built and tested on machines without Python.

mod call;
mod kind;
mod parameter;

use clap::{Args, CommandFactory};
use freehold_cli::Cli;
use freehold_report::formats::VerdictFormats;

pub use call::{CallError, OF_EVERY_CALL, Value};
pub use kind::Kind;
pub use parameter::{Parameter, Spelling};

/// Commands that are Python functions, in the order of the documentation.
pub const FUNCTIONS: [&str; 8] = ["inspect", "replay", "compare", "advise", "record", "sim", "fleet", "age"];

/// Functions whose report has a memory map, which only an HTML page shows and which is computed on request.
const WITH_MAP: [&str; 3] = ["inspect", "replay", "compare"];
/// Option that requests an HTML page from a command.
const PAGE: &str = "html";

/// A command as a Python function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Name of the command and of the function.
    pub name: &'static str,
    /// Description in one sentence.
    pub about: String,
    /// Positional parameters, in order.
    pub positions: Vec<Parameter>,
    /// Keyword parameters.
    pub keywords: Vec<Parameter>,
    /// Further help text.
    pub after: String,
}

impl Function {
    /// Derives the function of a command from the definition of the command line.
    ///
    /// # Panics
    /// If the command does not exist.
    pub fn for_command(name: &'static str) -> Function {
        Function::from_cli(&build_cli(), name)
    }

    fn from_cli(cli: &clap::Command, name: &'static str) -> Function {
        let command = cli.find_subcommand(name).expect("every function has a command");
        let formats = formats();
        let arguments = command.get_arguments().filter(|arg| is_parameter(arg, &formats));
        let parameters = arguments.map(Parameter::from_arg);
        let (positions, mut keywords): (Vec<_>, Vec<_>) = parameters.partition(|one| one.spelling.is_by_position());
        if WITH_MAP.contains(&name) {
            keywords.push(Parameter::page(PAGE));
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let after_help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        // Examples are command lines for a terminal, so they are left out.
        let after = after_help.split("Examples:").next().unwrap_or_default().trim().to_owned();
        Function { name, about, positions, keywords, after }
    }

    /// Returns all parameters.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.positions.iter().chain(&self.keywords)
    }
}

/// Returns all functions. Cost: some milliseconds to build the command line.
pub fn functions() -> Vec<Function> {
    let cli = build_cli();
    FUNCTIONS.map(|name| Function::from_cli(&cli, name)).to_vec()
}

/// Builds the definition of the command line. Only a built definition knows how many values each option takes.
fn build_cli() -> clap::Command {
    let mut cli = Cli::command();
    cli.build();
    cli
}

/// Returns the long names of the options that set the target of an output format.
fn formats() -> Vec<String> {
    let command = VerdictFormats::augment_args(clap::Command::new("formats"));
    command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
}

/// Returns whether an argument of a command is a parameter of its function.
fn is_parameter(arg: &clap::Arg, formats: &[String]) -> bool {
    let is_format = arg.get_long().is_some_and(|long| formats.iter().any(|format| format == long));
    !arg.is_global_set() && !is_help(arg) && !is_format
}

fn is_help(arg: &clap::Arg) -> bool {
    matches!(arg.get_id().as_str(), "help" | "version")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyword_names(function: &Function) -> Vec<String> {
        function.keywords.iter().map(|keyword| keyword.name.clone()).collect()
    }

    #[test]
    fn functions_have_command_options_except_formats() {
        let replay = Function::for_command("replay");
        assert_eq!(keyword_names(&replay), ["policy", "cpus", "reclaim", "pace", "setting", "explain", "all", "page"]);
        assert_eq!(replay.positions.len(), 1);
        for function in functions() {
            assert!(
                !function.about.is_empty() && !keyword_names(&function).iter().any(|name| name == "json"),
                "{function:?}"
            );
            assert!(function.parameters().all(|one| !one.help.is_empty()), "{function:?}");
        }
    }
}
