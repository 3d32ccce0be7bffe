//! A C compiler on a generated program: many small functions that call each other.

use std::fmt::Write;
use std::fs;
use std::io;
use std::process::Command;

use super::cost::Cost;
use super::system::children_usage;

/// Name of the compiler.
pub(super) const COMPILER: &str = "cc";

/// Compiles a program of `functions` functions.
pub(super) fn compiler(functions: usize) -> io::Result<Cost> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("program.c");
    fs::write(&source, program(functions))?;
    let mut command = Command::new(COMPILER);
    let output = command.args(["-O1", "-c", "-o"]).arg(folder.path().join("program.o")).arg(&source).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{COMPILER} failed with {}: {}", output.status, said.trim())));
    }
    let (cpu_ns, peak) = children_usage()?;
    Ok(Cost { cpu_ns, peak, steps: functions, ..Cost::default() })
}

/// Generates the text of a program.
fn program(functions: usize) -> String {
    let mut text = String::from("struct node { struct node *next; long value[8]; };\n");
    for number in 0..functions {
        _ = writeln!(text, "static long step_{number}(struct node *node, long seed) {{");
        _ = writeln!(text, "    for (int at = 0; node; at = (at + {}) & 7, node = node->next) {{", 1 + number % 7);
        _ = writeln!(text, "        if (node->value[at] > seed) seed += node->value[(at * {}) & 7];", 3 + number % 5);
        _ = writeln!(text, "        switch (seed % 4) {{ case 0: seed ^= {number}; break; case 1: seed *= 3; break;");
        _ = writeln!(text, "        default: node->value[at] = seed >> {}; }}", 1 + number % 9);
        let called =
            number.checked_sub(1).map_or_else(|| "seed".to_owned(), |at| format!("step_{at}(node->next, seed)"));
        _ = writeln!(text, "    }}\n    return node ? {called} : seed;\n}}");
    }
    _ = writeln!(text, "long all(struct node *node) {{ return step_{}(node, 1); }}", functions.saturating_sub(1));
    text
}
