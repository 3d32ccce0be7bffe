//! Conversion of a function call to the words of a command line, or to a one-sentence error.

use std::ffi::OsString;

use super::kind::Kind;
use super::parameter::{Parameter, Spelling};
use super::{Function, formats};

/// An argument of a function.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value, as if the parameter were not given.
    None,
    /// A boolean.
    Bool(bool),
    /// A whole number as decimal digits, of any size.
    Int(String),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(String),
    /// The path of a file.
    Path(OsString),
    /// Several values.
    List(Vec<Value>),
    /// A value of another type, with the name of the type.
    Other(String),
}

/// An invalid call: a keyword is unknown, missing or given twice, or a value has the wrong type. The sentence is
/// complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CallError(String);

/// Keyword that every function has and that is not an option of its command.
pub const OF_EVERY_CALL: &str = "progress";

/// Least similarity of a suggested name, from 0 to 1, as in clap.
const NEAR: f64 = 0.7;

impl Value {
    /// Returns the name of the type in Python.
    fn type_name(&self) -> &str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Text(_) => "str",
            Value::Path(_) => "a path",
            Value::List(_) => "several values",
            Value::Other(name) => name,
        }
    }
}

impl Function {
    /// Returns the words of the command line for this call, starting with the command's name.
    ///
    /// # Errors
    /// If a keyword is unknown, missing or given twice, or if a value has the wrong type.
    pub fn words(&self, by_place: Vec<Value>, by_name: Vec<(String, Value)>) -> Result<Vec<OsString>, CallError> {
        let given = self.assign(by_place, by_name)?;
        let (mut places, mut options, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for (parameter, value) in &given {
            let words = self.spell(parameter, value)?;
            match parameter.spelling {
                Spelling::Place => places.extend(words),
                Spelling::Last => last.extend(words),
                Spelling::Long(_) | Spelling::Format(_) => options.extend(words),
            }
        }
        if let Some(missing) =
            self.parameters().find(|one| one.is_required && !given.iter().any(|(it, _)| it.name == one.name))
        {
            return Err(CallError(format!("{}() needs {}", self.name, missing.name)));
        }
        // A file name that starts with a dash must not be read as an option, so the positional words are put after
        // `--`.
        if places.iter().any(|word| word.as_encoded_bytes().starts_with(b"-")) {
            last = std::mem::take(&mut places);
        }
        let rest = if last.is_empty() { None } else { Some(OsString::from("--")) };
        let words = [OsString::from(self.name)].into_iter().chain(places).chain(options).chain(rest).chain(last);
        Ok(words.collect())
    }

    /// Assigns values to parameters. A parameter with the value `None` is left out.
    fn assign(
        &self,
        by_place: Vec<Value>,
        by_name: Vec<(String, Value)>,
    ) -> Result<Vec<(&Parameter, Value)>, CallError> {
        let mut given = self.assign_positions(by_place)?;
        for (name, value) in by_name {
            let parameter =
                self.parameters().find(|one| one.name == name).ok_or_else(|| self.unknown_keyword(&name))?;
            if given.iter().any(|(other, _)| other.name == name) {
                return Err(CallError(format!("{}() gets {name} by position and by name", self.name)));
            }
            given.push((parameter, value));
        }
        given.retain(|(_, value)| *value != Value::None);
        Ok(given)
    }

    /// Assigns values to parameters by position. A parameter that takes any number of values takes all remaining
    /// values.
    fn assign_positions(&self, by_place: Vec<Value>) -> Result<Vec<(&Parameter, Value)>, CallError> {
        let count = by_place.len();
        let mut values = by_place.into_iter();
        let mut given = Vec::new();
        for parameter in &self.positions {
            if parameter.is_many {
                let places: Vec<Value> = values.by_ref().collect();
                if places.contains(&Value::List(Vec::new())) {
                    let (function, name) = (self.name, &parameter.name);
                    return Err(CallError(format!("{function}(): {name} is an empty list")));
                }
                let all: Vec<Value> = places.into_iter().flat_map(list_values).collect();
                given.extend((!all.is_empty()).then_some((parameter, Value::List(all))));
            } else if let Some(value) = values.next() {
                given.push((parameter, value));
            }
        }
        match values.len() {
            0 => Ok(given),
            _ => {
                let names: Vec<&str> = self.positions.iter().map(|one| one.name.as_str()).collect();
                let (name, most, names) = (self.name, names.len(), names.join(", "));
                Err(CallError(format!(
                    "{name}() takes {most} by position ({names}), but {count} are given; name the others"
                )))
            }
        }
    }

    /// Converts a parameter and its value to words of a command line.
    fn spell(&self, parameter: &Parameter, value: &Value) -> Result<Vec<OsString>, CallError> {
        match value {
            Value::List(values) if parameter.is_many => {
                values.iter().map(|value| self.spell_single(parameter, value)).filter_map(Result::transpose).collect()
            }
            value => Ok(self.spell_single(parameter, value)?.into_iter().collect()),
        }
    }

    /// Converts a parameter and a single value to a word of a command line; returns `None` for a switch that is off.
    fn spell_single(&self, parameter: &Parameter, value: &Value) -> Result<Option<OsString>, CallError> {
        let text = match (&parameter.kind, value) {
            (Kind::Switch | Kind::SwitchOrInt, Value::Bool(is_on)) => {
                return Ok(is_on.then(|| parameter.switch()));
            }
            (Kind::Int | Kind::SwitchOrInt | Kind::Float, Value::Int(digits)) => digits.into(),
            (Kind::Float, Value::Float(number)) => number.to_string().into(),
            (Kind::Text | Kind::Path | Kind::Choice(_), Value::Text(text)) => text.into(),
            (Kind::Path, Value::Path(path)) => path.clone(),
            (kind, value) => {
                let (function, name, expected) = (self.name, &parameter.name, kind.expected());
                let several = if parameter.is_many { ", or several" } else { "" };
                let found = value.type_name();
                return Err(CallError(format!("{function}(): {name} must be {expected}{several}, not {found}")));
            }
        };
        Ok(Some(parameter.with_value(text)))
    }

    /// Returns the error for an unknown keyword, with a suggestion of the most similar keyword.
    fn unknown_keyword(&self, name: &str) -> CallError {
        let similarities = self.parameters().map(|parameter| (strsim::jaro(name, &parameter.name), parameter));
        let nearest = similarities.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(nearness, _)| *nearness > NEAR);
        let is_format = formats().iter().any(|format| format == name);
        let escaped = name.escape_debug();
        CallError(match nearest {
            _ if is_format => {
                format!(
                    "{}() has no keyword {escaped}; formats are methods of the report: .json(), .html(), .tables",
                    self.name
                )
            }
            Some((_, nearest)) => format!("{}() has no keyword {escaped}; did you mean {}?", self.name, nearest.name),
            None => {
                let names: Vec<&str> = self.parameters().map(|one| one.name.as_str()).chain([OF_EVERY_CALL]).collect();
                format!("{}() has no keyword {escaped}; it has {}", self.name, names.join(", "))
            }
        })
    }

    /// Converts clap's error about the words of a call to one sentence, with the parameter names of the Python
    /// function.
    pub fn sentence(&self, error: &clap::Error) -> String {
        let text = error.render().to_string();
        let paragraph = text.split("\n\n").next().unwrap_or_default();
        let joined = paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let mut sentence = joined.trim_start_matches("error: ").to_owned();
        for parameter in self.parameters() {
            for called in &parameter.called {
                sentence = sentence.replace(called, &parameter.name);
            }
        }
        format!("{}(): {sentence}", self.name)
    }
}

impl Parameter {
    /// Returns the word that turns the parameter on.
    fn switch(&self) -> OsString {
        match &self.spelling {
            Spelling::Format(long) => format!("--{long}=-").into(),
            Spelling::Long(long) => format!("--{long}").into(),
            Spelling::Place | Spelling::Last => OsString::new(),
        }
    }

    /// Returns the word that gives the parameter this value.
    fn with_value(&self, value: OsString) -> OsString {
        match &self.spelling {
            Spelling::Long(long) => {
                let mut word = OsString::from(format!("--{long}="));
                word.push(value);
                word
            }
            _ => value,
        }
    }
}

/// Returns the values of a list, or the value itself, because files may be given as a list.
fn list_values(value: Value) -> Vec<Value> {
    match value {
        Value::List(values) => values,
        value => vec![value],
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use freehold_cli::Cli;

    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn words(function: &'static str, by_place: &[Value], by_name: &[(&str, Value)]) -> Result<String, String> {
        let by_name = by_name.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let words =
            Function::for_command(function).words(by_place.to_vec(), by_name).map_err(|error| error.to_string())?;
        Ok(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    fn int(number: i64) -> Value {
        Value::Int(number.to_string())
    }

    fn record_with_stacks(stacks: Value) -> Result<String, String> {
        words("record", &[text("make"), text("-j8")], &[("stacks", stacks), ("duration", Value::Float(1.5))])
    }

    fn refusal(function: &'static str, by_place: &[Value], by_name: &[(&str, Value)]) -> String {
        words(function, by_place, by_name).unwrap_err()
    }

    /// Returns the sentence for a call whose words clap refuses.
    fn clap_refusal(name: &'static str, by_name: &[(&str, Value)]) -> String {
        let keywords = by_name.iter().map(|(keyword, value)| ((*keyword).to_owned(), value.clone())).collect();
        let function = Function::for_command(name);
        let words = function.words(vec![], keywords).unwrap();
        let error = Cli::try_parse_from([OsString::from("freehold")].into_iter().chain(words)).unwrap_err();
        function.sentence(&error)
    }

    #[test]
    fn call_becomes_a_command_line() {
        let path = Value::Path("x.parquet".into());
        let settings = Value::List(vec![text("a=1"), text("b=2")]);
        assert_eq!(
            words("compare", &[path.clone(), text("y")], &[("setting_b", settings), ("all", Value::Bool(true))]),
            Ok("compare x.parquet y --setting-b=a=1 --setting-b=b=2 --all".to_owned())
        );
        let both = Value::List(vec![path.clone(), text("y")]);
        assert_eq!(
            words("advise", &[both], &[("margin", Value::Int("3".to_owned()))]),
            Ok("advise x.parquet y --margin=3".to_owned())
        );
        assert_eq!(record_with_stacks(Value::Bool(true)), Ok("record --stacks --duration=1.5 -- make -j8".to_owned()));
        assert_eq!(
            record_with_stacks(Value::Int("64".to_owned())),
            Ok("record --stacks=64 --duration=1.5 -- make -j8".to_owned())
        );
        assert_eq!(record_with_stacks(Value::None), Ok("record --duration=1.5 -- make -j8".to_owned()));
        assert_eq!(
            words("inspect", &[text("-x")], &[("page", Value::Bool(true))]),
            Ok("inspect --html=- -- -x".to_owned())
        );
        assert_eq!(words("replay", &[], &[("recording", path)]), Ok("replay x.parquet".to_owned()));
    }

    #[test]
    fn invalid_calls_are_refused_in_one_sentence() {
        assert_eq!(
            refusal("replay", &[], &[("polcy", text("x"))]),
            "replay() has no keyword polcy; did you mean policy?"
        );
        assert_eq!(
            refusal("replay", &[], &[("zzz", int(1))]),
            "replay() has no keyword zzz; it has recording, policy, cpus, reclaim, pace, setting, explain, all, page, progress"
        );
        assert_eq!(
            refusal("replay", &[], &[("json", text("x"))]),
            "replay() has no keyword json; formats are methods of the report: .json(), .html(), .tables"
        );
        assert_eq!(refusal("compare", &[Value::List(Vec::new())], &[]), "compare(): recordings is an empty list");
        assert_eq!(refusal("replay", &[], &[]), "replay() needs recording");
        assert_eq!(refusal("replay", &[int(1)], &[]), "replay(): recording must be a str or an os.PathLike, not int");
        assert_eq!(
            refusal("replay", &[text("x")], &[("cpus", Value::Bool(true))]),
            "replay(): cpus must be an int, not bool"
        );
        assert_eq!(
            refusal("compare", &[], &[("b", Value::List(vec![text("x"), int(1)]))]),
            "compare(): b must be a str, or several, not int"
        );
        assert_eq!(
            refusal("replay", &[text("x"), text("y")], &[]),
            "replay() takes 1 by position (recording), but 2 are given; name the others"
        );
        assert_eq!(
            refusal("replay", &[text("x")], &[("recording", text("y"))]),
            "replay() gets recording by position and by name"
        );
        let hostile = refusal("replay", &[], &[("a\u{1b}[2J", int(1))]);
        assert!(!hostile.contains('\u{1b}'), "hostile names are escaped");
    }

    #[test]
    fn clap_errors_are_expressed_with_keywords() {
        assert_eq!(
            clap_refusal("replay", &[("recording", text("x")), ("cpus", int(0))]),
            "replay(): invalid value '0' for 'cpus': give a number of CPUs from 1 to 512"
        );
        assert_eq!(
            clap_refusal("replay", &[("recording", text("x")), ("pace", text("fast"))]),
            "replay(): invalid value 'fast' for 'pace' [possible values: work, recorded]"
        );
        assert_eq!(
            clap_refusal("sim", &[("plan", text("x")), ("age", int(3)), ("start", text("y"))]),
            "sim(): the argument 'age' cannot be used with 'start'"
        );
        assert_eq!(clap_refusal("sim", &[]), "sim(): the following required arguments were not provided: plan");
        assert_eq!(
            clap_refusal("age", &[("check", Value::Bool(true))]),
            "age(): the following required arguments were not provided: apply"
        );
    }
}
