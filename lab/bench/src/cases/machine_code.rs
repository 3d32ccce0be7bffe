//! Table of the machine code of the GFP flag conversions, for the report of their times.

use freehold_disasm::{Counts, subjects};
use freehold_report::report::{Table, Value};

use crate::values;

/// Returns the table. On a processor whose instructions the disassembler does not know, the table has an explanation
/// instead of rows.
pub(super) fn tables() -> Vec<Table> {
    let about = "Counted in the program that took the times above, where each conversion is a function of its own, by \
        `freehold disasm flags`, which shows the code as well. The author looked at his compiler's code and found no \
        branch either way.";
    let titles = ["conversion", "function", "instructions", "conditional branches", "bytes", "cmov, set"];
    let table = Table {
        title: "The conversions as machine code".to_owned(),
        about: about.to_owned(),
        columns: values::columns(2, titles),
        ..Table::default()
    };
    vec![match freehold_disasm::count(&subjects::FLAGS) {
        Ok(counted) => {
            let rows = counted.functions.into_iter().map(|(conversion, function, counts)| {
                let Counts { instructions, conditional_branches, bytes, conditional_moves, .. } = counts;
                let numbers = [instructions, conditional_branches, bytes, conditional_moves].map(Value::text);
                [conversion, function].map(Value::text).into_iter().chain(numbers).collect()
            });
            Table { rows: rows.collect(), conclusions: counted.sentences, ..table }
        }
        Err(error) => Table { conclusions: vec![format!("Left out: {error}.")], ..table },
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_code_is_counted_or_said_to_be_left_out() {
        let [table] = &tables()[..] else { panic!("one table") };
        let (rows, said) = (table.rows.len(), table.conclusions.len());
        let expected = if cfg!(target_arch = "x86_64") { (2 * subjects::FLAGS.pairs.len(), 2) } else { (0, 1) };
        assert_eq!((rows, said), expected, "{:?}", table.conclusions);
    }
}
