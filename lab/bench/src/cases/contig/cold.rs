//! Cold caches: reads memory of twice the size of the largest cache from end to end.

use std::fs;
use std::hint::black_box;
use std::sync::LazyLock;

/// Size of a cache line in bytes, or a divisor of it.
const LINE: usize = 64;
/// Assumed size of the largest cache in bytes if the kernel does not report it.
const CACHE_UNKNOWN: usize = 64 << 20;

static OTHER_DATA: LazyLock<Vec<u8>> = LazyLock::new(|| vec![1; 2 * largest_cache()]);

/// Reads enough memory to evict everything else from the caches.
pub(super) fn fill_caches() {
    let sum: u64 = OTHER_DATA.iter().step_by(LINE).map(|&byte| u64::from(byte)).sum();
    black_box(sum);
}

/// Returns the size in bytes of the largest cache that the kernel reports.
fn largest_cache() -> usize {
    let sizes = (0..8).filter_map(|index| {
        let text = fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
        parse_size(text.trim())
    });
    sizes.max().unwrap_or(CACHE_UNKNOWN)
}

/// Parses a size as the kernel prints it (`512K`, `32M`), and returns bytes.
fn parse_size(text: &str) -> Option<usize> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let shift = match unit {
        "K" => 10,
        "M" => 20,
        _ => return None,
    };
    Some(number.parse::<usize>().ok()? << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_sizes_are_parsed() {
        assert_eq!((parse_size("512K"), parse_size("32M")), (Some(512 << 10), Some(32 << 20)));
        assert_eq!((parse_size(""), parse_size("K"), parse_size("12")), (None, None, None));
    }
}
