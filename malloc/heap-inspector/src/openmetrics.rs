//! The heap in the OpenMetrics text format, for Prometheus and other collectors.
//!
//! Each state has two families of gauges: the total, and the parts by kind and size, which add up to it. With two
//! families, a sum over labels does not count memory twice.
//!
//! Format: <https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>

use std::fmt::{self, Write};

use crate::map::HeapMap;
use crate::states::StateRow;

/// Prefix of all names.
const PREFIX: &str = "freehold_heap";

/// Names of the states and their descriptions, in the order of
/// [`StateBytes::in_order`](crate::states::StateBytes::in_order).
const STATES: [(&str, &str); 4] = [
    ("live", "Memory of blocks in use by the program."),
    ("cached", "Memory of freed blocks in caches of CPUs and barns."),
    ("kept", "Other free memory that is resident."),
    ("returned", "Free memory that is not resident: returned to the system, never written to, or swapped out."),
];

/// Formats a heap.
pub fn format(map: &HeapMap) -> String {
    let mut text = String::new();
    write(map, &mut text).expect("a write to a string cannot fail");
    text
}

fn write(map: &HeapMap, to: &mut String) -> fmt::Result {
    let process = &map.process;
    write_head(to, "process", "info", "Process whose heap was read.")?;
    writeln!(to, "{PREFIX}_process_info{{pid=\"{}\",name=\"{}\"}} 1", process.pid, escape(&process.name))?;
    write_bytes_head(to, "process_resident", "Resident memory of the process: heap, code, files and stacks.")?;
    writeln!(to, "{PREFIX}_process_resident_bytes {}", process.resident)?;
    for ((name, help), bytes) in STATES.into_iter().zip(map.states.total.in_order()) {
        write_bytes_head(to, name, help)?;
        writeln!(to, "{PREFIX}_{name}_bytes {bytes}")?;
    }
    for (at, (name, help)) in STATES.into_iter().enumerate() {
        write_bytes_head(to, &format!("size_{name}"), help)?;
        for part in &map.states.parts {
            writeln!(to, "{PREFIX}_size_{name}_bytes{{{}}} {}", labels(part), part.bytes.in_order()[at])?;
        }
    }
    to.write_str("# EOF\n")
}

/// Writes the description of a family of gauges in bytes.
fn write_bytes_head(to: &mut String, name: &str, help: &str) -> fmt::Result {
    write_head(to, &format!("{name}_bytes"), "gauge", help)?;
    writeln!(to, "# UNIT {PREFIX}_{name}_bytes bytes")
}

fn write_head(to: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(to, "# TYPE {PREFIX}_{name} {kind}\n# HELP {PREFIX}_{name} {help}")
}

/// Returns the labels of a part. The size of a run is its upper bound, and pages have no size.
fn labels(part: &StateRow) -> String {
    let size = part.size.map_or_else(String::new, |size| format!(",size=\"{size}\""));
    format!("kind=\"{}\"{size}", part.kind.name())
}

/// Escapes the value of a label.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(escape("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
