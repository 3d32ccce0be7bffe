//! Table of the machine code of the GFP flag conversions, for the report of their times.

use freehold_disasm::{Counts, subjects};
use freehold_report::report::{Table, Value};

use crate::values;

/// Returns the table. On a processor whose instructions the disassembler does not know, the table has an explanation
/// instead of rows.
pub(super) fn tables() -> Vec<Table> {
    let about =
        "Each conversion is a separate function of the measuring program. `freehold disasm flags` shows the code.";
    let titles = ["conversion", "function", "instructions", "conditional branches", "bytes", "cmov, set"];
    let table = Table {
        title: "Machine code of the conversions".to_owned(),
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
        Err(error) => Table { conclusions: vec![format!("not counted: {error}")], ..table },
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_counted_or_the_reason_is_given() {
        let [table] = &tables()[..] else { panic!("one table") };
        let (rows, conclusions) = (table.rows.len(), table.conclusions.len());
        let expected = if cfg!(target_arch = "x86_64") { (2 * subjects::FLAGS.pairs.len(), 2) } else { (0, 1) };
        assert_eq!((rows, conclusions), expected, "{:?}", table.conclusions);
    }
}
