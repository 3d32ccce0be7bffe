//! How many CPUs there may ever be: numbers count, not CPUs.
//!
//! What the kernel may call the CPU of a thread is what there must be slots for: CPUs that are pinned away from this
//! process, that are offline, or that a hypervisor has yet to add have numbers as well.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU16, Ordering::Relaxed};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::read;

/// Where the kernel lists the CPUs that it may ever have. linux: Documentation/ABI/testing/sysfs-devices-system-cpu
const POSSIBLE: &CStr = c"/sys/devices/system/cpu/possible";

/// One more than the highest number that a CPU of this machine may ever have. Found out once, without memory: a malloc
/// asks before there is any.
///
/// # Panics
/// If the machine may have more CPUs than a number of the engine can say, 65535; or if neither /sys nor the kernel
/// answers.
pub fn cpu_count() -> u16 {
    match COUNT.load(Relaxed) {
        0 => count_cpus(),
        known => known,
    }
}

/// How many there are; 0 if nobody has asked yet.
static COUNT: AtomicU16 = AtomicU16::new(0);

/// Two who count at once find the same.
#[cold]
fn count_cpus() -> u16 {
    let cpus = count_listed().or_else(mask_bits).expect("Linux tells a process on which CPUs it may run");
    let count = u16::try_from(cpus).expect("the engine numbers 65535 CPUs; build the kernel for fewer");
    COUNT.store(count, Relaxed);
    count
}

/// What /sys lists, read into a piece of the stack.
fn count_listed() -> Option<u32> {
    let file = open(POSSIBLE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut list = [0; 4096];
    let bytes = read(&file, &mut list).ok().filter(|bytes| *bytes < list.len())?;
    end_of(core::str::from_utf8(&list[..bytes]).ok()?)
}

/// One more than the highest number of a list such as `0-3,8-11`.
fn end_of(list: &str) -> Option<u32> {
    let mut numbers = list.trim().split([',', '-']).map(str::parse::<u32>);
    let last = numbers.try_fold(0, |last, number| number.map(|number| last.max(number))).ok()?;
    last.checked_add(1)
}

/// Bits of the kernel's own set of CPUs, which it tells a caller that asks for an affinity: where /sys is not there.
fn mask_bits() -> Option<u32> {
    let mut mask = [0_u64; 1024];
    // SAFETY: the kernel writes into the mask, and no more than it has room for.
    let bytes = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    u32::try_from(bytes).ok().filter(|bytes| *bytes > 0).map(|bytes| 8 * bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_a_list_counts() {
        for (list, count) in [("0\n", Some(1)), ("0-7\n", Some(8)), ("0,2-5,63", Some(64)), ("", None), ("0-x", None)] {
            assert_eq!(end_of(list), count, "{list:?}");
        }
    }

    #[test]
    fn both_ways_count_the_cpu_that_runs_us() {
        // SAFETY: asks for a number.
        let cpu = unsafe { libc::sched_getcpu() };
        let here = u32::try_from(cpu).expect("Linux tells a thread its CPU");
        assert!(here < u32::from(cpu_count()));
        assert!(here < mask_bits().expect("Linux tells a thread its affinity"));
    }
}
