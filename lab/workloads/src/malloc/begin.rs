//! A start: a small program that says itself what was resident when it ran, and how many page faults it took to get
//! there.

use std::io;
use std::process::Command;

use super::cost::{Cost, Status, minor_faults};
use super::system::children_usage;

/// The program, and what it shows: what the kernel says of itself.
pub(super) const PROGRAM: &str = "cat";
const SHOWN: [&str; 2] = ["/proc/self/stat", "/proc/self/status"];

/// Starts it so many times; what is resident and the faults are those of the middle one.
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
    fn a_start_is_measured() {
        let cost = starts(3).unwrap();
        assert!(cost.resident > 500 && cost.faults > 20 && cost.steps == 3, "{cost:?}");
    }
}
