//! Upper bound of the CPU numbers of this machine.
//!
//! A slot is needed for every number that the kernel may return as the CPU of a thread. This includes CPUs outside of
//! the process's affinity, offline CPUs, and CPUs that a hypervisor may add later. So the highest number is used, not
//! the number of CPUs.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU16, Ordering::Relaxed};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::read;

/// The kernel's list of CPUs that may ever exist. linux: Documentation/ABI/testing/sysfs-devices-system-cpu
const POSSIBLE: &CStr = c"/sys/devices/system/cpu/possible";

/// Most CPUs of a Linux kernel on any architecture. linux: arch/x86/Kconfig:NR_CPUS_RANGE_END
pub const MAX_CPUS: u16 = 8192;

/// Returns one more than the highest number that a CPU of this machine may ever have. The number is determined once and
/// without allocation, because a malloc needs it before it has memory. If it can be read neither from /sys nor from the
/// kernel, for example under a filter of system calls, it is [`MAX_CPUS`], whose tables
/// take 70 MiB.
///
/// # Panics
/// If the number is above [`MAX_CPUS`].
pub fn cpu_count() -> u16 {
    match COUNT.load(Relaxed) {
        0 => count_cpus(),
        known => known,
    }
}

/// Cached result of [`cpu_count`]; 0 before the first call.
static COUNT: AtomicU16 = AtomicU16::new(0);

/// Determines the number and caches it. Of concurrent callers, the first determines it, because a system call may fail
/// for one caller only.
#[cold]
fn count_cpus() -> u16 {
    let cpus = count_listed().or_else(mask_bits).unwrap_or(MAX_CPUS.into());
    let count = u16::try_from(cpus).ok().filter(|&count| count <= MAX_CPUS);
    let count = count.expect("Linux supports at most 8192 CPUs");
    COUNT.compare_exchange(0, count, Relaxed, Relaxed).map_or_else(|known| known, |_| count)
}

/// Returns the number by the list in /sys, which is read into a buffer on the stack; `None` if it cannot be read.
fn count_listed() -> Option<u32> {
    let file = open(POSSIBLE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut list = [0; 4096];
    let bytes = read(&file, &mut list).ok().filter(|bytes| *bytes < list.len())?;
    end_of(core::str::from_utf8(&list[..bytes]).ok()?)
}

/// Returns one more than the highest number of a list such as `0-3,8-11`; `None` if the text is not such a list.
fn end_of(list: &str) -> Option<u32> {
    let mut numbers = list.trim().split([',', '-']).map(str::parse::<u32>);
    let last = numbers.try_fold(0, |last, number| number.map(|number| last.max(number))).ok()?;
    last.checked_add(1)
}

/// Returns the number of bits of the kernel's CPU mask, which `sched_getaffinity` returns; `None` if the call fails.
/// Used where /sys is not mounted.
fn mask_bits() -> Option<u32> {
    let mut mask = [0_u64; 1024];
    // SAFETY: the kernel writes at most `size_of_val(&mask)` bytes into the live array `mask`.
    let bytes = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    u32::try_from(bytes).ok().filter(|bytes| *bytes > 0).map(|bytes| 8 * bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_list_end_is_the_last_number_plus_one() {
        for (list, count) in [("0\n", Some(1)), ("0-7\n", Some(8)), ("0,2-5,63", Some(64)), ("", None), ("0-x", None)] {
            assert_eq!(end_of(list), count, "{list:?}");
        }
    }

    #[test]
    fn cpu_counts_cover_the_current_cpu() {
        // SAFETY: `sched_getcpu` takes no pointer and returns a number.
        let cpu = unsafe { libc::sched_getcpu() };
        let here = u32::try_from(cpu).expect("Linux reports the CPU of a thread");
        assert!(here < u32::from(cpu_count()));
        assert!(here < mask_bits().expect("Linux reports the affinity of a thread"));
    }
}
