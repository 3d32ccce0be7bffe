//! A program that frees all its memory and becomes idle, to measure the memory that its malloc keeps and the longest
//! free.

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::cost::resident_kib;
use super::work::block;

/// How much, and for how long.
#[derive(Debug, Args)]
pub(crate) struct IdleArgs {
    /// Bytes of an object.
    #[arg(long)]
    size: usize,
    /// MiB that are allocated and freed.
    #[arg(long, default_value_t = 256)]
    mib: usize,
    /// Seconds without a request.
    #[arg(long, default_value_t = 11)]
    seconds: u64,
    /// Create a thread first, which ends at once: a malloc may have a helper thread from then on.
    #[arg(long)]
    threaded: bool,
}

/// Runs the load, and prints resident memory in KiB and the longest free as a line of JSON.
///
/// # Errors
/// Returns an error if the resident memory cannot be read, or if the line cannot be printed.
pub(crate) fn run(args: &IdleArgs) -> io::Result<()> {
    if args.threaded {
        thread::spawn(|| ()).join().expect("an empty thread does not panic");
    }
    let mut objects = Vec::new();
    for _ in 0..(args.mib << 20) / args.size.max(1) {
        let mut object = block(args.size);
        object.fill(std::mem::MaybeUninit::new(1));
        objects.push(object);
    }
    let full = resident_kib()?;
    let mut longest = Duration::ZERO;
    for object in objects.drain(..) {
        let before = Instant::now();
        drop(object);
        longest = longest.max(before.elapsed());
    }
    drop(objects);
    let freed = resident_kib()?;
    thread::sleep(Duration::from_secs(args.seconds));
    let (idle, longest) = (resident_kib()?, longest.as_micros());
    writeln!(
        io::stdout(),
        "{{\"full_kib\":{full},\"freed_kib\":{freed},\"idle_kib\":{idle},\"longest_free_us\":{longest}}}"
    )
}
