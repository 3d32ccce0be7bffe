//! Test modules of the Python interpreter.

use std::io;

use super::limit::Limit;
use super::subject::{measure, read_output, under_libc, under_malloc};
use crate::malloc::cost::Cost;

pub(super) const PYTHON: &str = "python3";
/// Test modules, the quickest first.
pub(super) const MODULES: [&str; 5] = ["test_list", "test_dict", "test_json", "test_set", "test_re"];

/// Runs the first `count` test modules.
pub(super) fn tests(count: usize, limit: Option<Limit>) -> io::Result<Cost> {
    let folder = tempfile::tempdir()?;
    let count = count.min(MODULES.len());
    // The program on the path may be a script that starts an interpreter.
    let interpreter = read_output(under_libc(PYTHON).args(["-c", "import sys; print(sys.executable)"]))?;
    let mut command = under_malloc(interpreter.trim_end(), limit)?;
    command.args(["-m", "test", "-q"]).args(&MODULES[..count]).current_dir(folder.path());
    command.env("PYTHONHASHSEED", "0").env("TMPDIR", folder.path());
    measure(command, count)
}

/// Returns a sentence if the test modules are not installed.
pub(super) fn obstacle() -> Option<String> {
    let imports = MODULES.map(|module| format!("test.{module}")).join(", ");
    let mut command = under_libc(PYTHON);
    let result = read_output(command.args(["-c", &format!("import test.libregrtest, {imports}")]));
    result.err().map(|_| format!("the test modules of `{PYTHON}` are not installed"))
}
