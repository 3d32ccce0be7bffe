//! Commands as functions: which keywords each takes, and the arguments that a call amounts to.
//!
//! All of it is read off clap's definition of the command, once. A keyword is a long option with `_` for `-`; what a
//! person would have to type comes by position. So there is no list of options here that could fall behind, and values
//! are judged by the command's own parsers. Formats are no keywords: an answer has all of them.

mod call;
mod kind;
mod parameter;

use clap::{Args, CommandFactory};
use freehold_cli::Cli;
use freehold_report::formats::VerdictFormats;

pub use call::{CallError, OF_EVERY_CALL, Value};
pub use kind::Kind;
pub use parameter::{Parameter, Spelling};

/// The commands that are functions, in the order of the documentation.
pub const FUNCTIONS: [&str; 8] = ["inspect", "replay", "compare", "advise", "record", "sim", "fleet", "age"];

/// Functions whose answer has something that only a page shows, which is counted on demand: the memory map.
const WITH_MAP: [&str; 3] = ["inspect", "replay", "compare"];
/// The option by which a command is asked for a page.
const PAGE: &str = "html";

/// A command as a function.
#[derive(Clone, Debug)]
pub struct Function {
    /// The command's name, and the function's.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: String,
    /// What it is called with by position: one after the other.
    pub positions: Vec<Parameter>,
    /// What it is called with by name.
    pub keywords: Vec<Parameter>,
    /// What else there is to say.
    pub after: String,
}

impl Function {
    /// Reads the function of a command off the command line's definition.
    ///
    /// # Panics
    /// If there is no such command.
    pub fn for_command(name: &'static str) -> Function {
        Function::from_cli(&build_cli(), name)
    }

    fn from_cli(cli: &clap::Command, name: &'static str) -> Function {
        let command = cli.find_subcommand(name).expect("it is a command");
        let formats = formats();
        let arguments = command.get_arguments().filter(|arg| is_parameter(arg, &formats));
        let parameters = arguments.map(Parameter::from_arg);
        let (positions, mut keywords): (Vec<_>, Vec<_>) = parameters.partition(|one| one.spelling.is_by_position());
        if WITH_MAP.contains(&name) {
            keywords.push(Parameter::page(PAGE));
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let after_help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        // Examples are what a person types at a terminal.
        let after = after_help.split("Examples:").next().unwrap_or_default().trim().to_owned();
        Function { name, about, positions, keywords, after }
    }

    /// All that it takes.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.positions.iter().chain(&self.keywords)
    }
}

/// Every function. Cost: some milliseconds, as for a command line.
pub fn functions() -> Vec<Function> {
    let cli = build_cli();
    FUNCTIONS.map(|name| Function::from_cli(&cli, name)).to_vec()
}

/// Builds the definition of the command line; only a finished one knows how many values each option takes.
fn build_cli() -> clap::Command {
    let mut cli = Cli::command();
    cli.build();
    cli
}

/// Long names of the options that say where a format goes.
fn formats() -> Vec<String> {
    let command = VerdictFormats::augment_args(clap::Command::new("formats"));
    command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
}

/// Whether an argument of a command is a parameter of its function.
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
    fn functions_have_the_options_of_commands_and_no_formats() {
        let replay = Function::for_command("replay");
        assert_eq!(keyword_names(&replay), ["policy", "cpus", "reclaim", "pace", "setting", "explain", "page"]);
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
