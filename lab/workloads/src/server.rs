//! A server as its malloc sees it: requests come in on many threads; few answer them, and free what others allocated.
//!
//! First it asks for memory and gives it back untouched: tcmalloc begins to purge only when 2 GiB were given back. Then
//! a receiver takes a request, which is a buffer of some size between 128 bytes and half a MiB, writes it, reads it as
//! often as it is told (its work), and leaves it in the backlog. When the backlog has grown to its most, those who
//! answer take requests out until a quarter is left, free them, and wait again. So memory in use swings, and a malloc
//! that purges has something to give back. Sizes follow from the number of a request alone.

use std::collections::VecDeque;
use std::hint::black_box;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Bytes in a MiB.
const MIB: usize = 1 << 20;
/// Sizes lie between two to the power of the first and two to the power of the second.
const SIZE_BITS: [u32; 2] = [7, 19];
/// What part of its most the backlog is answered down to.
const QUARTER: usize = 4;
/// What is asked for at once before there are requests.
const CHUNK: usize = 64 * MIB;

/// How large a server is, and how much it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    /// Bytes that are asked for and given back untouched first.
    pub before: usize,
    /// Threads that take requests.
    pub receiving: usize,
    /// Threads that answer and free them.
    pub answering: usize,
    /// Requests in all.
    pub requests: usize,
    /// Bytes of the backlog at its most.
    pub backlog: usize,
    /// How often a receiver reads its request.
    pub work: usize,
}

/// A request: what somebody else will free.
type Request = Vec<u8>;

/// Requests that were received and not answered.
#[derive(Debug, Default)]
struct Backlog {
    state: Mutex<State>,
    /// It is full, or nothing more will come.
    is_due: Condvar,
    /// There is room again.
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Request>,
    bytes: usize,
    /// Whether requests are answered until a quarter is left.
    is_answered: bool,
    /// Receivers that have no more requests.
    done: usize,
}

/// Serves all requests.
///
/// # Errors
/// If a thread cannot be had.
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

/// Takes this receiver's share of the requests.
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

/// Bytes of a request: all powers of two are as frequent, and so is what lies between them.
fn size(number: usize) -> usize {
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let [least, most] = SIZE_BITS;
    let bits = least + (mixed >> 48) as u32 % (most - least);
    (1 << bits) + (mixed >> 16) as usize % (1 << bits)
}

/// A sum that depends on each byte and its place, so that none can be left out.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum: u64, &byte| sum.rotate_left(5) ^ u64::from(byte))
}

impl Backlog {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a request, as soon as there is room.
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

    /// Answers what is due until no more comes.
    fn answer(&self, server: &Server) {
        while let Some(request) = self.next(server) {
            black_box(request.iter().step_by(64).fold(0_u8, |sum, byte| sum ^ byte));
        }
    }

    /// The next request to be answered; nothing when all have been.
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

/// Bytes of so many MiB.
pub(crate) fn mib(count: usize) -> usize {
    count * MIB
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Server =
        Server { before: CHUNK, receiving: 3, answering: 2, requests: 500, backlog: 2 * MIB, work: 1 };

    #[test]
    fn a_server_ends_when_all_requests_are_answered() {
        serve(SMALL).unwrap();
        serve(Server { requests: 0, ..SMALL }).unwrap();
        serve(Server { backlog: 1, receiving: 1, answering: 1, requests: 9, ..SMALL }).unwrap();
    }

    #[test]
    fn sizes_are_small_and_large_and_always_the_same() {
        let sizes: Vec<usize> = (0..10_000).map(size).collect();
        assert!(sizes.iter().all(|size| (128..1 << 19).contains(size)));
        assert!(sizes.iter().filter(|size| **size < 1 << 10).count() > 2000, "small ones");
        assert!(sizes.iter().filter(|size| **size >= 1 << 17).count() > 1000, "large ones");
    }
}
