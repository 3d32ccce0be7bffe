//! A platform that panics: in its probe at the first event, the second, and at others of a long script, and in each of
//! its promises at every call. The panic is caught. Afterwards the engine must be in order, hold no lock, have lost at
//! most the blocks that the interrupted call held, and serve further requests.
//!
//! Cost: one machine, one run of the script and one check per event.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::Config;
use freehold::platform::{
    Event, FreePages, Migrated, Migration, OutOfMemory, Patience, Reclaim, Reclaimed, Request, Task,
};
use freehold::policy::{ContigPolicy, PcpPolicy};

use crate::attackers::machine::{Hooks, with_frames};
use crate::attackers::races::{PCP, config};
use crate::attackers::script::{Script, with_script};
use crate::common::{is_exhaustive, panic_hook};

/// Payload of a planned panic.
struct Planned;

/// Callback in which the platform panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Report,
    Cpu,
    Task,
    Reclaim,
    Migrate,
    Reclaimable,
    OutOfMemory,
    WakeKswapd,
    WakeKcompactd,
    Relax,
}

const PROMISES: [Place; 9] = [
    Place::Cpu,
    Place::Task,
    Place::Reclaim,
    Place::Migrate,
    Place::Reclaimable,
    Place::OutOfMemory,
    Place::WakeKswapd,
    Place::WakeKcompactd,
    Place::Relax,
];

/// Hooks that panic at the `left`-th call of one callback, and otherwise behave cooperatively.
struct Bomb<'s> {
    place: Place,
    left: AtomicU32,
    script: &'s Script,
    /// Kinds of all events, recorded only in runs without a planned panic.
    heard: Mutex<Vec<String>>,
}

/// Initial call count of a bomb that never panics.
const NEVER: u32 = u32::MAX;

impl<'s> Bomb<'s> {
    fn new(place: Place, left: u32, script: &'s Script) -> Bomb<'s> {
        Bomb { place, left: AtomicU32::new(left), script, heard: Mutex::default() }
    }

    fn pass(&self, place: Place) {
        if place == self.place && self.left.load(SeqCst) > 0 && self.left.fetch_sub(1, SeqCst) == 1 {
            panic_any(Planned);
        }
    }
}

impl Hooks for Bomb<'_> {
    fn report(&self, event: Event) {
        if self.left.load(SeqCst) > NEVER / 2 {
            let event = format!("{event:?}");
            let kind = event.split(' ').next().unwrap_or_default().to_owned();
            self.heard.lock().expect("no thread panicked while it held the lock").push(kind);
        }
        self.pass(Place::Report);
    }

    fn cpu(&self) -> CpuId {
        self.pass(Place::Cpu);
        freehold::platform::host::current_cpu()
    }

    fn task(&self) -> Task {
        self.pass(Place::Task);
        Task::default()
    }

    fn reclaim(&self, pages: &dyn FreePages, _: &Reclaim) -> Reclaimed {
        self.pass(Place::Reclaim);
        self.script.give_some(pages)
    }

    fn migrate(&self, migration: &Migration) -> Migrated {
        self.pass(Place::Migrate);
        self.script.migrate(migration)
    }

    fn reclaimable(&self, _: NodeId, _: ZoneKind) -> u64 {
        self.pass(Place::Reclaimable);
        64
    }

    fn out_of_memory(&self, pages: &dyn FreePages, _: &Request) -> OutOfMemory {
        self.pass(Place::OutOfMemory);
        self.script.give_some(pages);
        OutOfMemory::Freed
    }

    fn wake_kswapd(&self, _: NodeId) {
        self.pass(Place::WakeKswapd);
    }

    fn wake_kcompactd(&self, _: NodeId) {
        self.pass(Place::WakeKcompactd);
    }

    fn relax(&self) -> Patience {
        self.pass(Place::Relax);
        Patience::GiveUp
    }
}

/// Plays the script with a panic at call `at` of a callback. Returns the number of calls that were left when the script
/// ended, and the events that were recorded.
fn play(pcp: PcpPolicy, place: Place, at: u32) -> (u32, Vec<String>) {
    let script = Script::default();
    let bomb = Bomb::new(place, at, &script);
    let left = with_script(pcp, &script, &bomb, |stage| {
        let what = format!("{pcp:?}, {place:?} panics at call {at}");
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| stage.play())) {
            assert!(panic.is::<Planned>(), "{what}: another panic followed, {:?}", panic.downcast_ref::<String>());
        }
        let left = bomb.left.swap(0, SeqCst);
        let census = stage.engine.check().unwrap_or_else(|violation| panic!("{what}: {violation}"));
        stage.play_on();
        let after = stage.engine.check().unwrap_or_else(|violation| panic!("{what}, later: {violation}"));
        assert_eq!(after.claimed, census.claimed, "{what}: more pages were lost after the panic");
        let isolated = stage.engine.map().pageblocks().find(|&at| stage.engine.map().pageblock(at).isolations() > 0);
        assert_eq!(isolated, None, "{what}: a pageblock stays isolated");
        left
    });
    (left, bomb.heard.into_inner().expect("no thread panicked while it held the lock"))
}

/// Repeats the script with a panic at every call of a callback, and returns the number of calls. Thousands of events
/// are alike, so for events it panics only at the first ones of each kind and at a sample of the others, unless
/// `TEST_FACTOR` is above 1.
fn panic_everywhere(pcp: PcpPolicy, place: Place) -> u32 {
    let (left, heard) = play(pcp, place, NEVER);
    let (calls, mut met) = (NEVER - left, BTreeMap::<&str, u32>::new());
    for at in 1..=calls {
        let kind = heard.get(at as usize - 1).filter(|_| place == Place::Report).map_or("", String::as_str);
        let of_kind = met.entry(kind).or_default();
        *of_kind += 1;
        let (first, step) = if cfg!(miri) { (0, 4000) } else { (9, 211) };
        if is_exhaustive() || *of_kind <= first || at % step == 0 {
            assert_eq!(play(pcp, place, at).0, 0, "call {at} was not reached in the repetition");
        }
    }
    calls
}

#[test]
fn probe_panic_at_any_event_keeps_the_state_valid() {
    panic_hook::silence_payload::<Planned>();
    for pcp in PCP {
        let events = panic_everywhere(pcp, Place::Report);
        assert!(events > 200, "the script has only {events} events under {pcp:?}");
    }
}

#[test]
fn callback_panic_at_any_call_keeps_the_state_valid() {
    panic_hook::silence_payload::<Planned>();
    let mut never = PROMISES.to_vec();
    for pcp in PCP {
        never.retain(|&place| panic_everywhere(pcp, place) == 0);
    }
    assert_eq!(never, [], "these callbacks are never called");
}

/// Frees a long range, of which 4096 pages are claimed at a time, with a panic between the parts. The pages that were
/// claimed before the panic leave the machine in order.
#[test]
fn probe_panic_within_a_long_range_keeps_the_state_valid() {
    panic_hook::silence_payload::<Planned>();
    let frames = if cfg!(miri) { 5000 } else { 12_288 };
    let range = Pfn::new(0)..Pfn::new(frames);
    for at in 1..=4 {
        let script = Script::default();
        let bomb = Bomb::new(Place::Report, 0, &script);
        with_frames(&Config::default(), frames + 1024, |engine| {
            engine.platform().answer_with(&bomb);
            engine.alloc_contig_range(range.clone(), Gfp::KERNEL).expect("the range must be free");
            bomb.left.store(at, SeqCst);
            let freed = catch_unwind(AssertUnwindSafe(|| engine.free_contig_range(range.clone())));
            assert!(
                freed.is_err_and(|panic| panic.is::<Planned>()),
                "there is no event {at}, so the planned panic did not occur"
            );
            engine.check().unwrap_or_else(|violation| panic!("a panic at event {at}: {violation}"));
        });
    }
}

/// Frees all pages of a shared block but the first, with a panic when the upper half is free. The page between leaves
/// the machine in order.
#[test]
fn probe_panic_within_a_shared_block_keeps_the_state_valid() {
    panic_hook::silence_payload::<Planned>();
    let script = Script::default();
    let bomb = Bomb::new(Place::Report, 0, &script);
    with_frames(&config(PcpPolicy::Off, ContigPolicy::Batched), 1024, |engine| {
        engine.platform().answer_with(&bomb);
        let order = Order::new(2);
        let block = engine.alloc_pages(Gfp::KERNEL, order).expect("enough memory must be free");
        engine.get_page(block).expect("the test holds these pages");
        bomb.left.store(1, SeqCst);
        let freed = catch_unwind(AssertUnwindSafe(|| engine.free_pages(block, order)));
        assert!(freed.is_err_and(|panic| panic.is::<Planned>()), "the planned panic did not occur");
        let census = engine.check().expect("the check must find no error");
        assert_eq!((census.allocated, census.claimed), (1, 1));
    });
}

/// The script produces all kinds of events that it was written for.
#[test]
fn script_produces_the_expected_event_kinds() {
    let kinds: BTreeSet<String> = PCP.into_iter().flat_map(|pcp| play(pcp, Place::Report, NEVER).1).collect();
    const EXPECTED: [&str; 22] = [
        "ZoneLockReleased",
        "ZoneLocked",
        "PcpuDrain",
        "Refill",
        "Drain",
        "PcpSplit",
        "PcpMerge",
        "StackPush",
        "StackTake",
        "Claim",
        "Steal",
        "Boost",
        "Reserve",
        "Unreserve",
        "Withheld",
        "Migrate",
        "HighAtomicServed",
        "DirectReclaim",
        "Reclaim",
        "KswapdRun",
        "CompactScan",
        "Failed",
    ];
    let missing: Vec<_> = EXPECTED.iter().filter(|&&kind| !kinds.contains(kind)).collect();
    assert!(missing.is_empty(), "{missing:?} are missing among {kinds:?}");
}

/// Tests the harness: the check finds a block that a planted fault broke.
#[test]
fn planted_broken_block_is_found() {
    let script = Script::default();
    let bomb = Bomb::new(Place::Report, 0, &script);
    with_script(PCP[1], &script, &bomb, |stage| {
        let page = stage.engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("enough memory must be free");
        stage.engine.damage().set_state(page, freehold::base::State::Interior);
        stage.engine.check().expect_err("a frame is in no block");
        let _: Pfn = page;
    });
}
