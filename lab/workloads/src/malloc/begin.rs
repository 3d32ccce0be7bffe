//! Starts of a small program that prints its own resident memory and page faults.

use std::io;
use std::process::Command;

use super::cost::{Cost, Status, minor_faults};
use super::system::children_usage;

/// Name of the program, and the files that it prints: the kernel's statistics about itself.
pub(super) const PROGRAM: &str = "cat";
const SHOWN: [&str; 2] = ["/proc/self/stat", "/proc/self/status"];

/// Starts the program `count` times. The resident memory and the faults are medians.
pub(super) fn starts(count: usize) -> io::Result<Cost> {
    let mut seen = (0..count).map(|_| start()).collect::<io::Result<Vec<Cost>>>()?;
    seen.sort_by_key(|cost| cost.resident);
    let Cost { resident, peak, .. } = seen[count / 2];
    seen.sort_by_key(|cost| cost.faults);
    let (cpu_ns, _) = children_usage()?;
    Ok(Cost { cpu_ns, resident, peak, faults: seen[count / 2].faults, steps: count, ..Cost::default() })
}

fn start() -> io::Result<Cost> {
    let output = Command::new(PROGRAM).args(SHOWN).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (stat, status) = text.split_once('\n').unwrap_or_default();
    let status = Status(status.to_owned());
    let (peak, resident) = (status.kib("VmHWM")?, status.kib("VmRSS")?);
    Ok(Cost { faults: minor_faults(stat)?, peak, resident, ..Cost::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_start_is_measured() {
        let cost = starts(3).unwrap();
        assert!(cost.resident > 500 && cost.faults > 20 && cost.steps == 3, "{cost:?}");
    }
}
