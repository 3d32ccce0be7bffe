//! Mailboxes between CPUs: parcels of blocks, in the order in which they were sent.
//!
//! A mailbox holds a few parcels. A CPU that finds a mailbox full keeps the parcel, or waits until the receiver has
//! taken a parcel. Waiting senders are woken in the order of their arrival. So producers cannot outrun the CPUs that
//! free for them. The mutex of a mailbox is never held across a wait; in virtual time it is never contended.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::block::Block;

/// Maximum number of parcels in a mailbox.
const ROOM: usize = 4;

/// The mailboxes of all CPUs.
#[derive(Debug)]
pub struct Mailboxes(Vec<Mutex<Mailbox>>);

/// Parcels in one mailbox, and the CPUs that wait for room.
#[derive(Debug, Default)]
struct Mailbox {
    parcels: VecDeque<Vec<Block>>,
    senders: VecDeque<u16>,
}

impl Mailboxes {
    /// Creates an empty mailbox for each CPU.
    pub fn new(cpus: u16) -> Mailboxes {
        Mailboxes((0..cpus).map(|_| Mutex::default()).collect())
    }

    /// Puts a parcel into the mailbox of CPU `to`.
    ///
    /// # Errors
    /// Returns the parcel if the mailbox is full. The sender is then queued, unless it is queued already. Each parcel
    /// that is taken gives room to the first queued sender, which the taking CPU wakes.
    pub fn put(&self, to: u16, parcel: Vec<Block>, from: u16) -> Result<(), Vec<Block>> {
        let mut mailbox = self.open(to);
        let parcel = match mailbox.offer(parcel) {
            Ok(()) => return Ok(()),
            Err(back) => back,
        };
        if !mailbox.senders.contains(&from) {
            mailbox.senders.push_back(from);
        }
        Err(parcel)
    }

    /// Puts a parcel into the mailbox of CPU `to` for a sender that does not wait.
    ///
    /// # Errors
    /// Returns the parcel if the mailbox is full.
    pub fn offer(&self, to: u16, parcel: Vec<Block>) -> Result<(), Vec<Block>> {
        self.open(to).offer(parcel)
    }

    /// Takes the oldest parcel; returns `None` if there is none. Also returns the first waiting sender, if any, which
    /// has room now and must be woken.
    pub fn take(&self, cpu: u16) -> Option<(Vec<Block>, Option<u16>)> {
        let mut mailbox = self.open(cpu);
        let parcel = mailbox.parcels.pop_front()?;
        Some((parcel, mailbox.senders.pop_front()))
    }

    /// Locks a mailbox. A poisoned lock is accepted: a mailbox is consistent even if the CPU that locked it panicked.
    fn open(&self, cpu: u16) -> MutexGuard<'_, Mailbox> {
        self.0[usize::from(cpu)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mailbox {
    fn offer(&mut self, parcel: Vec<Block>) -> Result<(), Vec<Block>> {
        if self.parcels.len() == ROOM {
            return Err(parcel);
        }
        self.parcels.push_back(parcel);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parcels_and_waiting_senders_are_fifo() {
        let mailboxes = Mailboxes::new(2);
        for _ in 0..ROOM {
            mailboxes.put(1, Vec::new(), 0).unwrap();
        }
        mailboxes.offer(1, Vec::new()).unwrap_err();
        for sender in [7, 5, 7] {
            mailboxes.put(1, Vec::new(), sender).unwrap_err();
        }
        let woken: Vec<_> = (0..ROOM).map(|_| mailboxes.take(1).unwrap().1).collect();
        assert_eq!(woken, [Some(7), Some(5), None, None]);
        assert!(mailboxes.take(1).is_none() && mailboxes.take(0).is_none());
    }
}
