//! Loads of tasks: pages that move between CPUs, and kernel stacks.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::command;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Bytes in a MiB.
const MIB: usize = 1 << 20;
/// Bytes that are written to the pipe at once: its default capacity.
const CHUNK: usize = 64 << 10;

/// Writes `mib` MiB into a pipe on CPU `from` and reads them on CPU `to`.
pub(crate) fn pipe(from: usize, to: usize, mib: usize) -> io::Result<()> {
    let (read_end, write_end) = rustix::pipe::pipe()?;
    let (mut source, mut sink) = (File::from(read_end), File::from(write_end));
    let writer = thread::spawn(move || -> io::Result<()> {
        pin(from)?;
        let chunk = vec![1_u8; CHUNK];
        for _ in 0..mib * MIB / CHUNK {
            sink.write_all(&chunk)?;
        }
        Ok(())
    });
    pin(to)?;
    let mut chunk = vec![0_u8; CHUNK];
    while source.read(&mut chunk)? > 0 {}
    writer.join().map_err(|_| io::Error::other("the writer panicked"))?
}

/// Fills pipes with `mib` MiB in total, and runs `command` while they are full.
pub(crate) fn pipes(mib: usize, command: &[String]) -> io::Result<()> {
    let chunk = vec![1_u8; CHUNK];
    let mut full = Vec::new();
    for _ in 0..mib * MIB / CHUNK {
        let (source, write_end) = rustix::pipe::pipe()?;
        let mut sink = File::from(write_end);
        sink.write_all(&chunk)?;
        full.push((source, sink));
    }
    command::run(command)
}

/// Pins this thread to one CPU.
fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Starts `count` threads, lets all of them exist at once, and ends them. If the kernel refuses a thread, the failure
/// is reported, and no more are started.
pub(crate) fn threads(count: usize) -> io::Result<()> {
    let mut started = Vec::new();
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().map_err(|_| io::Error::other("the gate is poisoned"))?;
    for number in 0..count {
        let own_gate = Arc::clone(&gate);
        match thread::Builder::new().stack_size(64 << 10).spawn(move || drop(own_gate.lock())) {
            Ok(handle) => started.push(handle),
            Err(error) => {
                eprintln!("load: {number} of {count} threads: {error}");
                break;
            }
        }
    }
    drop(closed);
    for handle in started {
        handle.join().map_err(|_| io::Error::other("a thread panicked"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_loads_terminate() {
        pipe(0, 0, 1).unwrap();
        threads(4).unwrap();
    }

    #[test]
    fn pipes_passes_on_the_command_failure() {
        pipes(1, &["true".to_owned()]).unwrap();
        assert!(pipes(1, &["false".to_owned()]).is_err());
    }

    #[test]
    fn missing_cpu_is_an_error() {
        assert!(pipe(0, CpuSet::MAX_CPU - 1, 1).is_err());
    }
}
