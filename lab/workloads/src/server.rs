//! The memory operations of a server: many threads receive requests; few threads answer them, and free memory that
//! others allocated.
//!
//! First the server allocates memory and frees it untouched, since tcmalloc begins to purge only after 2 GiB were
//! freed. Then each receiver takes a request, which is a buffer of 128 bytes to half a MiB. It writes the request,
//! reads it as often as configured (its work), and adds it to the backlog. When the backlog has reached its maximum,
//! the answering threads take requests out until a quarter is left, free them, and wait again. So memory in use
//! oscillates, and a malloc that purges has memory to return. Sizes depend only on the number of a request.

use std::collections::VecDeque;
use std::hint::black_box;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Bytes in a MiB.
const MIB: usize = 1 << 20;
/// Bounds of sizes, as powers of two.
const SIZE_BITS: [u32; 2] = [7, 19];
/// Divisor of the maximum backlog, down to which requests are answered.
const QUARTER: usize = 4;
/// Bytes of each allocation before the first request.
const CHUNK: usize = 64 * MIB;

/// Size of a server, and amount of its work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    /// Bytes that are allocated and freed untouched at first.
    pub before: usize,
    /// Number of threads that receive requests.
    pub receiving: usize,
    /// Number of threads that answer and free requests.
    pub answering: usize,
    /// Total number of requests.
    pub requests: usize,
    /// Maximum number of bytes in the backlog.
    pub backlog: usize,
    /// Number of times that a receiver reads its request.
    pub work: usize,
}

/// A request, which another thread frees.
type Request = Vec<u8>;

/// Requests that were received and not answered yet.
#[derive(Debug, Default)]
struct Backlog {
    state: Mutex<State>,
    /// Signalled when the backlog is full, or when no more requests will come.
    is_due: Condvar,
    /// Signalled when there is room again.
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Request>,
    bytes: usize,
    /// Whether requests are answered, until a quarter is left.
    is_answered: bool,
    /// Receivers that have no more requests.
    done: usize,
}

/// Serves all requests.
///
/// # Errors
/// Returns an error if a thread cannot be created.
pub(crate) fn serve(server: Server) -> io::Result<()> {
    for _ in 0..server.before.div_ceil(CHUNK) {
        drop(black_box(Request::with_capacity(CHUNK)));
    }
    let (server, backlog) = (&server, &Backlog::default());
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..server.receiving {
            let thread = thread::Builder::new().name("receive".to_owned());
            threads.push(thread.spawn_scoped(scope, move || receive(server, backlog, number))?);
        }
        for _ in 0..server.answering {
            let thread = thread::Builder::new().name("answer".to_owned());
            threads.push(thread.spawn_scoped(scope, || backlog.answer(server))?);
        }
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| io::Error::other("a thread panicked")))
    })
}

/// Receives this receiver's share of the requests.
fn receive(server: &Server, backlog: &Backlog, first: usize) {
    for number in (first..server.requests).step_by(server.receiving) {
        let request = vec![number as u8; size(number)];
        for _ in 0..server.work {
            black_box(sum(&request));
        }
        backlog.add(server, request);
    }
    backlog.lock().done += 1;
    backlog.is_due.notify_all();
}

/// Returns the bytes of a request: all powers of two are equally frequent, and sizes between them are uniform.
fn size(number: usize) -> usize {
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let [least, most] = SIZE_BITS;
    let bits = least + (mixed >> 48) as u32 % (most - least);
    (1 << bits) + (mixed >> 16) as usize % (1 << bits)
}

/// Computes a sum that depends on each byte and its position, so that no read can be omitted.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum: u64, &byte| sum.rotate_left(5) ^ u64::from(byte))
}

impl Backlog {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, as soon as there is room.
    fn add(&self, server: &Server, request: Request) {
        let mut state = self
            .has_room
            .wait_while(self.lock(), |state| state.bytes >= server.backlog)
            .unwrap_or_else(PoisonError::into_inner);
        state.bytes += request.len();
        state.waiting.push_back(request);
        if state.bytes >= server.backlog {
            state.is_answered = true;
            self.is_due.notify_all();
        }
    }

    /// Answers due requests until all have been received and answered.
    fn answer(&self, server: &Server) {
        while let Some(request) = self.next(server) {
            black_box(request.iter().step_by(64).fold(0_u8, |sum, byte| sum ^ byte));
        }
    }

    /// Returns the next request to answer; `None` after the last one.
    fn next(&self, server: &Server) -> Option<Request> {
        let mut state = self
            .is_due
            .wait_while(self.lock(), |state| !state.is_answered && state.done < server.receiving)
            .unwrap_or_else(PoisonError::into_inner);
        let request = state.waiting.pop_front()?;
        state.bytes -= request.len();
        if state.bytes <= server.backlog / QUARTER {
            state.is_answered = false;
        }
        self.has_room.notify_all();
        Some(request)
    }
}

/// Converts MiB to bytes.
pub(crate) fn mib(count: usize) -> usize {
    count * MIB
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Server =
        Server { before: CHUNK, receiving: 3, answering: 2, requests: 500, backlog: 2 * MIB, work: 1 };

    #[test]
    fn server_ends_after_all_requests() {
        serve(SMALL).unwrap();
        serve(Server { requests: 0, ..SMALL }).unwrap();
        serve(Server { backlog: 1, receiving: 1, answering: 1, requests: 9, ..SMALL }).unwrap();
    }

    #[test]
    fn request_sizes_are_reproducible_and_varied() {
        let sizes: Vec<usize> = (0..10_000).map(size).collect();
        assert!(sizes.iter().all(|size| (128..1 << 19).contains(size)));
        assert!(sizes.iter().filter(|size| **size < 1 << 10).count() > 2000, "small ones");
        assert!(sizes.iter().filter(|size| **size >= 1 << 17).count() > 1000, "large ones");
    }
}
