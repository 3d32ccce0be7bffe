//! Parameters of functions, derived from the arguments of commands.

use clap::{Arg, ArgAction};

use super::kind::Kind;

/// A parameter of a function.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Name in Python.
    pub name: String,
    /// Kind of a single value.
    pub kind: Kind,
    /// `true` if the parameter takes any number of values.
    pub is_many: bool,
    /// `true` if the parameter must be given.
    pub is_required: bool,
    /// Default value; `None` if there is none.
    pub default: Option<String>,
    /// Help text.
    pub help: String,
    /// Spelling on a command line.
    pub spelling: Spelling,
    /// Names of the argument in clap's error messages.
    pub(super) called: Vec<String>,
}

/// Spelling of an argument on a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// Positional.
    Place,
    /// Positional, after all others and `--`.
    Last,
    /// Long option with this name.
    Long(String),
    /// Long option of an output format, directed to stdout. A Python call prints nothing, so the option only requests
    /// the data of the format.
    Format(&'static str),
}

impl Spelling {
    /// Returns whether the argument is positional.
    pub fn is_by_position(&self) -> bool {
        matches!(self, Spelling::Place | Spelling::Last)
    }
}

/// Reserved words of Python that are names of options.
const RESERVED: [&str; 5] = ["for", "from", "in", "is", "with"];

impl Parameter {
    /// Derives a parameter from an argument of a command.
    pub(super) fn from_arg(arg: &Arg) -> Parameter {
        let spelling = match arg.get_long() {
            Some(long) => Spelling::Long(long.to_owned()),
            None if arg.is_last_set() => Spelling::Last,
            None => Spelling::Place,
        };
        let defaults = arg.get_default_values();
        let is_counted = arg.get_num_args().is_some_and(|count| count.max_values() > 1);
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let kind = Kind::from_arg(arg);
        Parameter {
            name: name(arg.get_long().unwrap_or(arg.get_id().as_str())),
            is_many: kind != Kind::Switch && (is_counted || matches!(arg.get_action(), ArgAction::Append)),
            is_required: arg.is_required_set(),
            default: (defaults.len() == 1).then(|| defaults[0].to_string_lossy().into_owned()),
            kind,
            help,
            spelling,
            called: called(arg),
        }
    }

    /// Returns the keyword that requests the data of an HTML page.
    pub(super) fn page(long: &'static str) -> Parameter {
        Parameter {
            name: "page".to_owned(),
            kind: Kind::Switch,
            is_many: false,
            is_required: false,
            default: None,
            help: "Include the data of the page: memory, pageblock by pageblock".to_owned(),
            spelling: Spelling::Format(long),
            called: Vec::new(),
        }
    }

    /// Returns the name of the long option, if the parameter is one.
    pub fn long(&self) -> Option<&str> {
        match &self.spelling {
            Spelling::Long(long) => Some(long),
            _ => None,
        }
    }

    /// Returns the Python annotation of the type of all values together.
    pub fn annotation(&self) -> String {
        let one = self.kind.annotation();
        if self.is_many { format!("{one} | Iterable[{one}]") } else { one }
    }

    /// Returns the default value as Python source.
    pub fn default_in_python(&self) -> String {
        match (&self.default, &self.kind) {
            _ if self.is_many => "()".to_owned(),
            (_, Kind::Switch) => "False".to_owned(),
            (Some(default), Kind::Text | Kind::Path | Kind::Choice(_)) => format!("{default:?}"),
            (Some(default), _) => default.clone(),
            (None, _) => "None".to_owned(),
        }
    }
}

/// Returns the names of an argument in clap's messages: as it is used, and as it is named if it is missing.
fn called(arg: &Arg) -> Vec<String> {
    let used = arg.to_string();
    let missing = used.replace('[', "<").replace(']', ">");
    if missing == used { vec![used] } else { vec![used, missing] }
}

/// Returns the name of a long option in Python.
fn name(long: &str) -> String {
    let name = long.replace('-', "_");
    if RESERVED.contains(&name.as_str()) { name + "_" } else { name }
}

#[cfg(test)]
mod tests {
    use super::super::Function;
    use super::*;

    fn parameter(function: &'static str, name: &str) -> Parameter {
        Function::for_command(function).parameters().find(|one| one.name == name).cloned().expect("it takes that")
    }

    fn declaration(function: &'static str, name: &str) -> String {
        let parameter = parameter(function, name);
        format!("{}: {} = {}", parameter.name, parameter.annotation(), parameter.default_in_python())
    }

    #[test]
    fn parameter_types_match_the_options() {
        assert_eq!(declaration("replay", "policy"), "policy: str = None");
        assert_eq!(declaration("fleet", "costs"), "costs: _StrPath = \"reference\"");
        assert_eq!(declaration("replay", "cpus"), "cpus: int = None");
        assert_eq!(declaration("replay", "explain"), "explain: bool = False");
        assert_eq!(declaration("replay", "reclaim"), "reclaim: Literal[\"model\", \"recorded\"] = \"model\"");
        assert_eq!(declaration("compare", "setting_b"), "setting_b: str | Iterable[str] = ()");
        assert_eq!(declaration("compare", "margin"), "margin: float = 2");
        assert_eq!(declaration("record", "stacks"), "stacks: bool | int = None");
        assert_eq!(declaration("age", "with_"), "with_: str | Iterable[str] = ()");
        assert_eq!(declaration("sim", "cpus"), "cpus: int | Iterable[int] = ()");
    }

    #[test]
    fn files_are_positional_parameters() {
        let recordings = parameter("advise", "recordings");
        assert!(recordings.is_many && recordings.is_required && recordings.spelling == Spelling::Place);
        assert_eq!(parameter("record", "command").spelling, Spelling::Last);
        assert!(!parameter("compare", "recordings").is_required);
    }
}
