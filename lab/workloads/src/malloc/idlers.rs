//! Threads that are idle after a burst, and threads that start and end, to measure the resident memory that each
//! leaves.

use std::fs;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use super::cost::{Cost, Start};
use super::threads::allocate_mixture;

/// Bytes of a thread's stack.
const STACK: usize = 128 << 10;
/// Threads that run at the same time.
const TOGETHER: usize = 100;

/// Runs `count` threads, each of which allocates and frees a mixture and then waits. The stacks are not allocated by
/// the malloc, so they are not counted.
pub(super) fn idle(count: usize) -> io::Result<Cost> {
    let start = Start::now()?;
    let (done, are_done) = channel();
    let mut threads = Vec::new();
    for number in 0..count {
        let (wake, woken) = channel();
        threads.push((wake, spawn_idle(number, done.clone(), woken)?));
    }
    drop(done);
    let mut stacks: Vec<usize> = are_done.iter().take(count).collect();
    let mut cost = Cost::since(start, 0, count)?;
    cost.resident = cost.resident.saturating_sub(stacks_kib(&mut stacks)?);
    for (wake, thread) in threads {
        drop(wake);
        thread.join().expect("a waiting thread does not panic");
    }
    Ok(cost)
}

/// Spawns a thread that does its work, sends an address of its stack, and waits.
fn spawn_idle(number: usize, done: Sender<usize>, woken: Receiver<()>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().stack_size(STACK).spawn(move || {
        let on_the_stack = allocate_mixture(number);
        _ = done.send((&raw const on_the_stack).addr());
        drop(done);
        _ = woken.recv();
    })
}

/// Returns the resident memory of the mappings at these addresses, except for those larger than two stacks.
fn stacks_kib(addresses: &mut [usize]) -> io::Result<u64> {
    addresses.sort_unstable();
    let (mut kib, mut is_stack) = (0, false);
    for line in fs::read_to_string("/proc/self/smaps")?.lines() {
        if let Some((from, to)) = range(line) {
            let next = addresses.partition_point(|&address| address < from);
            is_stack = addresses.get(next).is_some_and(|&address| address < to) && to - from <= 2 * STACK;
        } else if is_stack && let Some(resident) = line.strip_prefix("Rss:") {
            kib += resident.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default();
        }
    }
    Ok(kib)
}

/// Parses the addresses of a mapping, if this is the first line of one.
fn range(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split_whitespace().next()?.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

/// Runs `count` threads, a group at a time.
pub(super) fn come_and_go(count: usize) -> io::Result<Cost> {
    let start = Start::now()?;
    for first in (0..count).step_by(TOGETHER) {
        let threads = (first..count.min(first + TOGETHER))
            .map(|number| thread::Builder::new().stack_size(STACK).spawn(move || allocate_mixture(number)));
        let threads: Vec<JoinHandle<usize>> = threads.collect::<io::Result<_>>()?;
        threads.into_iter().for_each(|thread| _ = thread.join().expect("an allocating thread does not panic"));
    }
    Cost::since(start, 0, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_found_and_excluded() {
        let here = 0;
        assert_eq!(stacks_kib(&mut []).unwrap(), 0);
        let thread = thread::Builder::new().stack_size(STACK).spawn(move || {
            let on_the_stack = [here; 64];
            stacks_kib(&mut [on_the_stack.as_ptr().addr()]).unwrap()
        });
        let kib = thread.unwrap().join().unwrap();
        assert!((4..=STACK as u64 / 1024).contains(&kib), "{kib}");
        assert_eq!(range("7f00-7fff rw-p 0"), Some((0x7f00, 0x7fff)));
        assert_eq!(range("Rss:    4 kB"), None);
    }

    #[test]
    fn threads_are_counted() {
        assert_eq!(idle(5).unwrap().steps, 5);
        assert_eq!(come_and_go(TOGETHER + 5).unwrap().steps, TOGETHER + 5);
    }
}
