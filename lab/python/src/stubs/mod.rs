//! Stubs for type checkers and docstrings: signatures and help texts of all functions, derived from the definition of
//! the command line.
//!
//! The stub file is committed so that it can be read, and a test compares it with the output of this module.

use crate::keywords::{Function, Parameter, functions};

/// Start of the stubs: imports and classes.
const CLASSES: &str = include_str!("classes.pyi");

/// Columns of a line of a docstring.
const WIDTH: usize = 100;

/// Help text of the keyword that every function has and that is not an option of its command.
const PROGRESS: &str = "Show the progress: a bar if tqdm is installed, else a line in the terminal";

/// Names of the module that are not functions.
const OTHERS: [&str; 7] = ["Recording", "Report", "Rows", "SweepPlan", "SweepWorker", "Table", "__version__"];

/// Returns the stub file of the module.
pub fn text() -> String {
    let functions = functions();
    let mut names: Vec<&str> = OTHERS.into_iter().chain(functions.iter().map(|function| function.name)).collect();
    names.sort_unstable();
    let names: String = names.iter().map(|name| format!("    {name:?},\n")).collect();
    let head = format!("{CLASSES}\n__all__ = [\n{names}]\n");
    functions.iter().fold(head, |text, function| text + "\n" + &stub(function))
}

/// Returns the signature of a function in one line without types, and its docstring, as Python shows them at run time.
pub fn signature_and_docstring(function: &Function) -> String {
    let mut parameters = signature(function, untyped);
    parameters.push("progress=True".to_owned());
    format!("{}({})\n--\n\n{}", function.name, parameters.join(", "), docstring(function))
}

/// Formats a parameter without its type.
fn untyped(parameter: &Parameter, default: Option<String>) -> String {
    match default {
        Some(default) => format!("{}={default}", parameter.name),
        None => parameter.name.clone(),
    }
}

/// Formats a parameter with its type.
fn typed(parameter: &Parameter, default: Option<String>) -> String {
    let annotation = parameter.annotation();
    match default {
        Some(default) if default == "None" => format!("{}: {annotation} | None = None", parameter.name),
        Some(default) => format!("{}: {annotation} = {default}", parameter.name),
        None => format!("{}: {annotation}", parameter.name),
    }
}

fn stub(function: &Function) -> String {
    let mut parameters = signature(function, typed);
    parameters.push("progress: bool = True".to_owned());
    let lines: String = parameters.iter().map(|parameter| format!("    {parameter},\n")).collect();
    let doc: String =
        docstring(function).lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect();
    format!("def {}(\n{lines}) -> Report:\n    \"\"\"{}    \"\"\"\n", function.name, doc.trim_start())
}

/// Returns the default of a parameter as Python source; `None` if the parameter must be given.
fn default(parameter: &Parameter) -> Option<String> {
    (!parameter.is_required).then(|| parameter.default_in_python())
}

/// Returns the parameters in the order of a signature, with the `*` that separates positional and keyword parameters.
fn signature(function: &Function, write: fn(&Parameter, Option<String>) -> String) -> Vec<String> {
    let takes_any_number = function.positions.iter().any(|parameter| parameter.is_many);
    let placed = function.positions.iter().map(|parameter| match parameter.is_many {
        true => format!("*{}", write(parameter, None)),
        false => write(parameter, default(parameter)),
    });
    let mark = (!takes_any_number).then(|| "*".to_owned());
    placed.chain(mark).chain(function.keywords.iter().map(|parameter| write(parameter, default(parameter)))).collect()
}

/// Returns the docstring of a function: its description, the parameters, and further help.
fn docstring(function: &Function) -> String {
    let about = format!("{}.", in_python(function, &function.about));
    let parameters = function.parameters().map(|one| (one.name.as_str(), in_python(function, &one.help)));
    let all_parameters = parameters.chain([("progress", PROGRESS.to_owned())]);
    let listed: String =
        all_parameters.map(|(name, help)| fill(&format!("{name}: {help}"), "    ", "        ")).collect();
    let after = match function.after.is_empty() {
        true => String::new(),
        false => format!("\n{}", paragraphs(&in_python(function, &function.after))),
    };
    format!("{}\nArgs:\n{listed}{after}", fill(&about, "", ""))
}

fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n")
}

/// Wraps a paragraph, and then each of its table rows: indented lines with a name and its meaning.
fn paragraph(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| line.starts_with("  ")).unwrap_or(lines.len());
    let (prose, table) = lines.split_at(start);
    let rows = table.iter().map(|row| {
        let row = row.trim();
        let (name, meaning) = row.split_once("  ").unwrap_or((row, ""));
        fill(&format!("{name}: {meaning}"), "    ", "        ")
    });
    fill(&prose.join(" "), "", "") + &rows.collect::<String>()
}

/// Replaces the options in a text by the names of keywords.
fn in_python(function: &Function, text: &str) -> String {
    let mut named: Vec<(String, &str)> =
        function.keywords.iter().filter_map(|one| Some((format!("--{}", one.long()?), one.name.as_str()))).collect();
    // Longer names are replaced first, because a name may start with another one.
    named.sort_by_key(|(long, _)| std::cmp::Reverse(long.len()));
    named.iter().fold(text.to_owned(), |text, (long, name)| text.replace(long, name)).replace('\\', "\\\\")
}

/// Wraps words to lines of at most [`WIDTH`] columns. The first line starts with `first` and the others with `others`.
fn fill(text: &str, first: &str, others: &str) -> String {
    let (mut lines, mut line, mut is_empty) = (String::new(), first.to_owned(), true);
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += &line;
            lines.push('\n');
            (line, is_empty) = (others.to_owned(), true);
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_stubs_match_the_command_line() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/python/freehold/_freehold.pyi");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        let is_same = committed == text();
        assert!(is_same, "the stubs differ from the command line; run `cargo run -p freehold-python --example stubs`");
    }

    fn first_line(name: &'static str) -> String {
        signature_and_docstring(&Function::for_command(name)).lines().next().unwrap().to_owned()
    }

    #[test]
    fn signatures_are_valid_python() {
        assert_eq!(
            first_line("replay"),
            "replay(recording, *, policy=None, cpus=None, reclaim=\"model\", pace=\"work\", setting=(), \
             explain=False, all=False, page=False, progress=True)"
        );
        assert_eq!(first_line("advise"), "advise(*recordings, margin=2, all=False, progress=True)");
        assert!(first_line("sim").starts_with("sim(plan=None, recording=None, *, list=False, cpus=(), "));
    }

    #[test]
    fn docstrings_contain_keywords_and_no_options() {
        let doc = docstring(&Function::for_command("compare"));
        assert!(doc.contains("with setting_b: policy A") && !doc.contains(" --"), "{doc}");
        assert!(doc.lines().all(|line| line.chars().count() <= WIDTH), "{doc}");
    }

    #[test]
    fn table_rows_keep_their_lines() {
        let doc = docstring(&Function::for_command("replay"));
        assert!(doc.contains("\n    vm.defrag_mode: a whole number from 0 to 1\n"), "{doc}");
    }
}
