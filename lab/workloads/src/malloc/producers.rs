//! Producers and one consumer that only frees, to measure resident memory while a fixed amount waits to be freed.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread;

use fastrand::Rng;

use super::block::Block;
use super::cost::{Cost, Start};
use super::held::fill_block;
use super::work::size;

/// Threads that allocate.
const PRODUCERS: usize = 4;
/// Blocks that are passed on together.
const BATCH: usize = 100;
/// Maximum number of batches in transit.
const ON_THEIR_WAY: usize = 4;

type Batch = Box<[Block]>;

/// Allocates `batches` batches in each producer. The consumer keeps `bytes` bytes and frees the oldest batches beyond
/// that.
pub(super) fn producers(batches: usize, bytes: usize) -> io::Result<Cost> {
    let start = Start::now()?;
    let (send, receive) = sync_channel::<Batch>(ON_THEIR_WAY);
    let mut waiting = Vec::new();
    let threads: Vec<_> = (0..PRODUCERS)
        .map(|number| {
            let (wake, woken) = channel::<()>();
            waiting.push(wake);
            let send = send.clone();
            thread::spawn(move || {
                produce(number, batches, send);
                // The thread's caches in the malloc stay until the end of the measurement.
                _ = woken.recv();
            })
        })
        .collect();
    drop(send);
    let (mut held, mut live) = (VecDeque::new(), 0);
    for batch in receive {
        live += size_of_batch(&batch);
        held.push_back(batch);
        while live > bytes
            && let Some(oldest) = held.pop_front()
        {
            live -= size_of_batch(&oldest);
        }
    }
    let cost = Cost::since(start, live, PRODUCERS * batches)?;
    waiting.into_iter().for_each(drop::<Sender<()>>);
    threads.into_iter().for_each(|thread| thread.join().expect("an allocating thread does not panic"));
    Ok(cost)
}

fn produce(number: usize, batches: usize, send: SyncSender<Batch>) {
    let mut chance = Rng::with_seed(number as u64);
    for _ in 0..batches {
        let batch = (0..BATCH).map(|_| fill_block(size(&mut chance))).collect();
        if send.send(batch).is_err() {
            break;
        }
    }
}

/// Returns the requested bytes of a batch: its blocks, and the slice of blocks.
fn size_of_batch(batch: &Batch) -> usize {
    size_of_val::<[Block]>(batch) + batch.iter().map(|block| block.len()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_blocks_are_counted() {
        let cost = producers(50, 4 << 20).unwrap();
        assert!((3 << 20..=4 << 20).contains(&cost.live) && cost.steps == 200, "{cost:?}");
    }
}
