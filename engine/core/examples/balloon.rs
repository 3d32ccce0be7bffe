//! A balloon: a virtual machine monitor takes memory back from its guest, in pieces of 2 MiB.
//!
//! The monitor keeps a guest's pages in host frames that Freehold manages. When the host needs memory for another
//! purpose, the monitor inflates a balloon: it requests whole huge pages from the allocator. After a while none are
//! left, because the free memory consists of single pages between the guest's. The allocator then compacts, and if that
//! is not enough it reclaims. For both it needs the monitor, because only the monitor knows which guest page is in a
//! frame and which table entries refer to the frame:
//!
//! - `migrate` copies a page and updates the guest's entry to the new frame;
//! - `reclaim` takes pages from the guest that it has not used recently (here by the clock algorithm) and frees them.
//!
//! Neither callback needs a lock of the allocator or a pointer to it. To run the example:
//! `cargo run -p freehold --example balloon`

use std::cell::{Cell, RefCell};

use freehold::base::lock::SoloLock;
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::Config;
use freehold::platform::{FreePages, Migrated, Migration, Platform, Reclaim, Reclaimed};
use freehold::stats::Counters;
use freehold::{PageAllocator, machine};

/// Host memory: 64 MiB in frames of 4 KiB.
const FRAMES: u32 = 16 * 1024;
/// Memory promised to the guest, in pages.
const GUEST_PAGES: usize = 15 * 1024;
/// Order of one piece of the balloon: 2 MiB.
const PIECE: Order = Order::new(9);

/// Number of pieces that the host needs.
const WANTED: usize = 16;

/// The monitor, as the allocator's platform.
struct Monitor {
    guest: RefCell<Guest>,
    counters: Counters<Cell<u64>>,
}

/// One guest: its memory map, and the reverse map from frames to guest pages.
struct Guest {
    /// Frame of each guest page that is in memory.
    frames: Vec<Option<Pfn>>,
    /// Guest page in each frame that has one.
    pages: Vec<Option<usize>>,
    /// Contents of each frame; one word represents its 4096 bytes.
    memory: Vec<u64>,
    /// Whether each guest page was used since the clock hand passed it.
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

    /// Moves a guest page: first its bytes, then the two entries for its frame. The engine read the block's state
    /// without a lock, so it may be outdated. In this example only single pages with one reference are moved.
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

    /// Scans as many guest pages as the priority allows, and frees the unused ones.
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

    /// Returns all pages in memory, since all of them can be reclaimed eventually. The allocator uses this number to
    /// decide whether to retry.
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

    /// Advances the clock hand by one page. Returns its frame if the page was not used since the hand passed it last.
    fn next_unused(&mut self) -> Option<Pfn> {
        let page = self.hand;
        self.hand = (page + 1) % GUEST_PAGES;
        if core::mem::take(&mut self.used[page]) { None } else { self.unmap(page) }
    }

    /// Returns the number of guest pages in memory, and asserts that each still holds the guest's data.
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
        // The caller prefers waiting to a failed request.
        let insist = Gfp::TRANSHUGE | Gfp::RETRY_MAYFAIL;
        while balloon.len() < WANTED
            && let Ok(piece) = host.alloc_pages(insist, PIECE)
        {
            balloon.push(piece);
        }
        say(host, &format!("the balloon has {} pieces of 2 MiB", balloon.len()));
        assert!(balloon.len() > unused / PIECE.pages() as usize, "the guest returned no memory");
        balloon.into_iter().for_each(|piece| host.free_pages(piece, PIECE).expect("the balloon owns the piece"));
        say(host, "the balloon is empty");
        host.check().expect("the allocator is consistent");
    })
    .expect("64 MiB are enough for a machine");
}

/// Runs a guest that touches all of its memory and then returns every third page.
fn run_guest(host: &PageAllocator<'_, Monitor>) {
    for page in 0..GUEST_PAGES {
        let frame = host.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("the host is larger than the guest");
        host.platform().guest.borrow_mut().map(page, frame);
    }
    for page in (0..GUEST_PAGES).step_by(3) {
        let frame = host.platform().guest.borrow_mut().unmap(page).expect("the guest touched this page");
        host.free_pages(frame, Order::ZERO).expect("the guest owns the frame");
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

/// Makes `cargo test` run the example.
#[test]
fn balloon_example_runs() {
    main();
}
