//! A program that frees most of its memory and becomes idle, where huge pages back all memory: an eighth of each 2 MiB
//! stays in use.
//!
//! A malloc that returns free pieces splits huge pages, and the kernel's khugepaged may make them whole again. So the
//! load waits for a minute before it measures. The measures are resident memory, and the memory that the kernel charges
//! to a control group of this process: a huge page of which the kernel has not yet freed a part is charged as a whole.

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use super::block::Block;
use super::cost::{Cost, Start};
use super::held::fill_block;
use super::programs::ChargedGroup;

/// Bytes that are allocated.
const FULL: usize = 256 << 20;
/// Bytes of a huge page, and bytes of each that stay in use.
const HUGE: usize = 2 << 20;
const LEFT: usize = 256 << 10;
/// Time without a request.
const SECONDS: usize = 60;
/// Setting of the system.
const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Runs the load with blocks of `size` bytes. `scale` returns a share of a number.
pub(super) fn sparse(size: usize, scale: impl Fn(usize) -> usize) -> io::Result<Cost> {
    // A malloc may have a helper thread from now on.
    thread::spawn(|| ()).join().expect("an empty thread does not panic");
    let group = ChargedGroup::enter()?;
    let start = Start::now()?;
    let mut blocks: Vec<Option<Block>> = Vec::new();
    for _ in 0..scale(FULL) / size {
        blocks.push(Some(fill_block(size)));
    }
    for (number, block) in blocks.iter_mut().enumerate() {
        if number * size % HUGE >= LEFT {
            *block = None;
        }
    }
    let live = blocks.iter().flatten().map(|block| block.len()).sum();
    thread::sleep(Duration::from_secs(scale(SECONDS) as u64));
    Ok(Cost { charged: group.charged_kib()?, ..Cost::since(start, live, blocks.len())? })
}

/// Returns the reason why the load cannot be run, if there is one. The setting is that of the whole system, so the load
/// does not change it.
pub(super) fn obstacle() -> Option<String> {
    let setting = fs::read_to_string(ENABLED).unwrap_or_default();
    if !setting.contains("[always]") {
        return Some(format!("huge pages do not back all memory here; as root, run `echo always >{ENABLED}`"));
    }
    ChargedGroup::obstacle()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_of_the_memory_stays() {
        if ChargedGroup::obstacle().is_some() {
            return;
        }
        let cost = sparse(100_000, |full| (full / 32).min(full)).unwrap();
        assert!((700_000..1_500_000).contains(&cost.live), "{cost:?}");
        assert!(cost.charged > cost.live as u64 >> 10, "{cost:?}");
    }
}
