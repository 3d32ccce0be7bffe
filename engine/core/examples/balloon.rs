//! A balloon: a virtual machine monitor takes memory back from its guest, in pieces of 2 MiB.
//!
//! The monitor keeps a guest's pages in host frames that Freehold manages. When the host wants memory for somebody
//! else, the monitor inflates a balloon: it asks the allocator for whole huge pages. After a while none are left: what
//! is free lies in single pages between the guest's. So the allocator compacts, and when that is not enough it
//! reclaims. For both it needs the monitor, which alone knows what is in a frame and what refers to it:
//!
//! - `migrate`: copy a page, and let the guest's entry point to the new frame;
//! - `reclaim`: take pages from the guest that it has not used for a while (here: the second hand of a clock), and
//!   free them.
//!
//! Neither needs a lock of the allocator, or a pointer back to it. Run it:
//! `cargo run -p freehold --example balloon`

use std::cell::{Cell, RefCell};

use freehold::base::lock::SoloLock;
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::Config;
use freehold::platform::{FreePages, Migrated, Migration, Platform, Reclaim, Reclaimed};
use freehold::stats::Counters;
use freehold::{PageAllocator, machine};

/// Host memory: 64 MiB of 4 KiB frames.
const FRAMES: u32 = 16 * 1024;
/// Memory that the guest was promised, in pages.
const GUEST_PAGES: usize = 15 * 1024;
/// What one piece of the balloon is: 2 MiB.
const PIECE: Order = Order::new(9);

/// Pieces that the host wants.
const WANTED: usize = 16;

/// The monitor, as the allocator sees it.
struct Monitor {
    guest: RefCell<Guest>,
    counters: Counters<Cell<u64>>,
}

/// One guest: its memory map, and the way back from a frame to the page that is in it.
struct Guest {
    /// Frame of each guest page that is in memory.
    frames: Vec<Option<Pfn>>,
    /// Guest page in each frame that has one.
    pages: Vec<Option<usize>>,
    /// What is in each frame; one word stands for its 4096 bytes.
    memory: Vec<u64>,
    /// Guest pages that were used since the hand passed them.
    used: Vec<bool>,
    hand: usize,
}

impl Platform for Monitor {
    type Lock = SoloLock;
    type Probe = Counters<Cell<u64>>;

    fn probe(&self) -> &Self::Probe {
        &self.counters
    }

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }

    /// Moves a guest page: its bytes, then the two entries that name its frame. The engine looked without a lock, so
    /// what it saw may be gone: here nothing but single pages with one reference is ever moved.
    fn migrate(&self, migration: &Migration) -> Migrated {
        let mut guest = self.guest.borrow_mut();
        if (migration.order, migration.refs, migration.compound) != (Order::ZERO, 1, false) {
            return Migrated::Refused;
        }
        let (from, to) = (migration.from.index(), migration.to.index());
        let Some(page) = guest.pages[from].take() else { return Migrated::Refused };
        guest.memory[to] = guest.memory[from];
        guest.frames[page] = Some(migration.to);
        guest.pages[to] = Some(page);
        Migrated::Moved
    }

    /// Looks at as many guest pages as the urgency asks for, and frees those that nobody uses.
    fn reclaim(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        let mut guest = self.guest.borrow_mut();
        let mut done = Reclaimed::default();
        while done.pages < wanted.goal && done.scanned < (GUEST_PAGES >> wanted.priority) as u64 {
            done.scanned += 1;
            if let Some(frame) = guest.next_unused() {
                pages.free_pages(frame, Order::ZERO);
                done.pages += 1;
            }
        }
        done
    }

    /// Everything, in the end: it decides whether the allocator goes on trying.
    fn reclaimable(&self, _node: NodeId, _zone: ZoneKind) -> u64 {
        self.guest.borrow().resident() as u64
    }
}

impl Guest {
    fn new() -> Guest {
        Guest {
            frames: vec![None; GUEST_PAGES],
            pages: vec![None; FRAMES as usize],
            memory: vec![0; FRAMES as usize],
            used: vec![false; GUEST_PAGES],
            hand: 0,
        }
    }

    fn map(&mut self, page: usize, frame: Pfn) {
        self.frames[page] = Some(frame);
        self.pages[frame.index()] = Some(page);
        self.memory[frame.index()] = page as u64;
        self.used[page] = true;
    }

    fn unmap(&mut self, page: usize) -> Option<Pfn> {
        let frame = self.frames[page].take()?;
        self.pages[frame.index()] = None;
        Some(frame)
    }

    /// Moves the clock's hand by a page; its frame, if it was not used since the hand was here last.
    fn next_unused(&mut self) -> Option<Pfn> {
        let page = self.hand;
        self.hand = (page + 1) % GUEST_PAGES;
        if core::mem::take(&mut self.used[page]) { None } else { self.unmap(page) }
    }

    /// Guest pages in memory; each must still hold what the guest wrote.
    fn resident(&self) -> usize {
        let pages = self.frames.iter().enumerate().filter_map(|(page, frame)| Some((page, (*frame)?)));
        pages.inspect(|&(page, frame)| assert_eq!(self.memory[frame.index()], page as u64)).count()
    }
}

fn main() {
    let monitor = Monitor { guest: RefCell::new(Guest::new()), counters: Counters::default() };
    machine::with_memory(monitor, &Config::default(), FRAMES, |host| {
        run_guest(host);
        say(host, "the guest runs");
        let unused = FRAMES as usize - host.platform().guest.borrow().resident();
        let mut balloon = Vec::new();
        // A caller that wants the memory would rather wait than go without.
        let insist = Gfp::TRANSHUGE | Gfp::RETRY_MAYFAIL;
        while balloon.len() < WANTED
            && let Ok(piece) = host.alloc_pages(insist, PIECE)
        {
            balloon.push(piece);
        }
        say(host, &format!("the balloon has {} pieces of 2 MiB", balloon.len()));
        assert!(balloon.len() > unused / PIECE.pages() as usize, "the guest gave up nothing");
        balloon.into_iter().for_each(|piece| host.free_pages(piece, PIECE).expect("the piece is ours"));
        say(host, "the balloon is empty");
        host.check().expect("nothing is lost");
    })
    .expect("64 MiB are enough");
}

/// A guest that touches all of its memory, and then gives every third page back.
fn run_guest(host: &PageAllocator<'_, Monitor>) {
    for page in 0..GUEST_PAGES {
        let frame = host.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("the host has more than it promised");
        host.platform().guest.borrow_mut().map(page, frame);
    }
    for page in (0..GUEST_PAGES).step_by(3) {
        let frame = host.platform().guest.borrow_mut().unmap(page).expect("it was touched");
        host.free_pages(frame, Order::ZERO).expect("the frame is the guest's");
    }
}

fn say(host: &PageAllocator<'_, Monitor>, what: &str) {
    let counts = host.platform().counters.counts();
    let free: u64 = host.zones().iter().map(|zone| zone.free_pages()).sum();
    println!(
        "{what}: {} guest pages in memory, {free} frames free; so far {} pages moved, {} reclaimed",
        host.platform().guest.borrow().resident(),
        counts.migrations,
        counts.pgsteal_direct,
    );
}

/// `cargo test` plays the example too.
#[test]
fn the_balloon_fills() {
    main();
}
