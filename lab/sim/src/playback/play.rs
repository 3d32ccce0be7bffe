//! A play: copies of a script, given to the CPUs of one run.
//!
//! Each copy plays a piece of the recording as long as the run; the next copy begins a bit later in it. A task of a
//! copy has a simulated CPU for each of the recorded CPUs that it ran on, so it moves when it moved in the recording,
//! and what was freed elsewhere is freed elsewhere. What tasks of one recorded CPU handed to each other is freed
//! elsewhere too, more often than it was: there are more CPUs. What is freed in the piece and was allocated before it
//! is set out in a prelude, evenly, by the CPU of who allocated it; the play begins after it.
//!
//! CPUs keep their own pace. A free whose allocation is late finds nothing; it leaves a mark, and the allocation, when
//! it comes, ends at once. Nobody ever waits for another.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use freehold::base::Pfn;
use rustc_hash::FxHashMap;

use super::cast::CpuSplit;
use super::script::{Action, BlockRequest, Duty, Script, Step};
use crate::block::Block;

/// A block that was not allocated yet. No frame has this number.
const TO_COME: u32 = u32::MAX;
/// A block that was freed, or will be as soon as it comes.
const ENDED: u32 = u32::MAX - 1;

/// A time that is to come.
const UNSET: u64 = u64::MAX;

/// How a script is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaySettings {
    /// CPUs of the run.
    pub cpus: u16,
    /// Nanoseconds in which everything is set out.
    pub prelude_ns: u64,
    /// Nanoseconds that the play takes.
    pub play_ns: u64,
    /// Nanoseconds of the recording by which a copy begins later than the one before.
    pub offset_ns: u64,
    /// Time runs by so many percent of the recorded pace.
    pub pace_percent: u64,
    /// Which CPUs are whose.
    pub split: CpuSplit,
    /// What decides where the first copy begins, and which CPU plays whom.
    pub seed: u64,
}

impl PlaySettings {
    /// Nanoseconds of the recording that are played.
    pub(crate) fn piece_ns(&self) -> u64 {
        (u128::from(self.play_ns) * u128::from(self.pace_percent) / 100).min(u128::from(u64::MAX)) as u64
    }
}

/// One line of a CPU's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// When, in nanoseconds since the run began.
    pub due_ns: u64,
    /// Number of the block in the play.
    pub block: u32,
    /// What is to be done.
    pub action: Action,
}

/// What one CPU does, in order of time.
pub(crate) type Part = Vec<Line>;

/// A block of the play.
#[derive(Debug)]
struct Role {
    request: BlockRequest,
    /// The CPU that allocates it.
    cpu: u16,
    /// Its first frame, or how far it is from having one.
    state: AtomicU32,
}

/// The copies of a script, for one run.
#[derive(Debug, Default)]
pub struct Play {
    parts: Vec<Part>,
    roles: Vec<Role>,
    pages_peak: u64,
}

impl Play {
    /// Deals the script to the CPUs. Cost: a few steps for each event that will be played.
    pub(crate) fn new(script: &Script, settings: PlaySettings) -> Play {
        let mut play = Play::default();
        play.parts.resize_with(usize::from(settings.cpus), Part::new);
        let piece = settings.piece_ns();
        let starts = script.duration.saturating_sub(piece) + 1;
        let mut rng = fastrand::Rng::with_seed(settings.seed);
        let first = rng.u64(0..starts);
        for copy in 0..copies(script, settings.cpus) {
            let start = first.wrapping_add(u64::from(copy).wrapping_mul(settings.offset_ns)) % starts;
            let steps = script.between(start, start.saturating_add(piece));
            let (cast, known) = (rng.u32(..), FxHashMap::default());
            Copy { play: &mut play, script, settings, cast, start, known }.deal(steps);
        }
        for part in &mut play.parts {
            spread_prelude(part, settings.prelude_ns);
            part.sort_by_key(|line| line.due_ns);
        }
        play
    }

    /// What a CPU does.
    pub(crate) fn part(&self, cpu: u16) -> &[Line] {
        &self.parts[usize::from(cpu)]
    }

    /// Pages that the copies have at a time at most, if all have their most at once.
    pub fn pages_peak(&self) -> u64 {
        self.pages_peak
    }

    /// What to ask for to get a block.
    pub(crate) fn request(&self, block: u32) -> BlockRequest {
        self.roles[block as usize].request
    }

    /// Says that a block was allocated; `false` if it has been freed before, and must go back now.
    pub fn enter(&self, block: u32, pfn: Pfn) -> bool {
        self.roles[block as usize].state.compare_exchange(TO_COME, pfn.raw(), Relaxed, Relaxed).is_ok()
    }

    /// Says that a block is freed; what the caller has to give back, if it is there.
    pub fn leave(&self, block: u32) -> Option<Block> {
        let role = &self.roles[block as usize];
        let pfn = role.state.swap(ENDED, Relaxed);
        let is_there = pfn != TO_COME && pfn != ENDED;
        is_there.then(|| Block { pfn: Pfn::new(pfn), order: role.request.order, from: role.cpu })
    }
}

/// Gives the lines of the prelude, which have no time yet and stand among the others, evenly distributed times.
fn spread_prelude(part: &mut Part, prelude_ns: u64) {
    let unset = part.iter().filter(|line| line.due_ns == UNSET).count().max(1) as u64;
    for (index, line) in (0..).zip(part.iter_mut().filter(|line| line.due_ns == UNSET)) {
        line.due_ns = (u128::from(prelude_ns) * index / u128::from(unset)) as u64;
    }
}

/// Copies of a recording that keep so many CPUs as busy as the recorded ones were.
pub(crate) fn copies(script: &Script, cpus: u16) -> u16 {
    (cpus / script.cpus).max(1)
}

/// One copy while it is dealt.
struct Copy<'p> {
    play: &'p mut Play,
    script: &'p Script,
    settings: PlaySettings,
    /// What decides which CPU plays whom.
    cast: u32,
    /// Where in the recording it begins.
    start: u64,
    /// Numbers in the play of the script's blocks.
    known: FxHashMap<u32, u32>,
}

impl Copy<'_> {
    fn deal(&mut self, steps: &[Step]) {
        let props_pages = self.set_out_props(steps);
        let (mut pages, mut peak) = (props_pages, props_pages);
        for step in steps {
            let size = i64::from(self.script.blocks[step.block as usize].order.pages());
            pages += if step.action == Action::Alloc { size } else { -size };
            peak = peak.max(pages);
            let block = self.number(step.block);
            let since_ns = (step.time - self.start) * 100 / self.settings.pace_percent.max(1);
            let due_ns = self.settings.prelude_ns + since_ns;
            let cpu = self.cpu_of(step.runner, self.script.duty(step.runner));
            self.play.parts[usize::from(cpu)].push(Line { due_ns, block, action: step.action });
        }
        self.play.pages_peak += peak.max(0) as u64;
    }

    /// Numbers the blocks that are freed without being allocated, and gives them to who sets them out. Says how many
    /// pages they have.
    fn set_out_props(&mut self, steps: &[Step]) -> i64 {
        let mut pages = 0;
        for step in steps {
            let is_prop = step.action == Action::Free && !self.known.contains_key(&step.block);
            let block = self.number(step.block);
            if is_prop {
                let cpu = self.play.roles[block as usize].cpu;
                self.play.parts[usize::from(cpu)].push(Line { due_ns: UNSET, block, action: Action::Alloc });
                pages += i64::from(self.script.blocks[step.block as usize].order.pages());
            }
        }
        pages
    }

    /// A block's number in the play.
    fn number(&mut self, block: u32) -> u32 {
        let request = self.script.blocks[block as usize];
        // Nobody knows who allocated what was there before the recording: anybody.
        let cpu = match request.runner {
            Some(runner) => self.cpu_of(runner, self.script.duty(runner)),
            None => self.cpu_of(block, Duty::Other),
        };
        let roles = &mut self.play.roles;
        *self.known.entry(block).or_insert_with(|| {
            roles.push(Role { request, cpu, state: AtomicU32::new(TO_COME) });
            roles.len() as u32 - 1
        })
    }

    /// The CPU that plays somebody of this copy: neighbours end up on different CPUs.
    fn cpu_of(&self, runner: u32, duty: Duty) -> u16 {
        let mixed = (runner ^ self.cast).wrapping_mul(0x9e37_79b1);
        self.settings.split.cpu(self.settings.cpus, mixed ^ mixed >> 15, duty)
    }
}

#[cfg(test)]
mod tests {
    use freehold::base::{Gfp, Order};

    use super::*;

    const SETTINGS: PlaySettings = PlaySettings {
        cpus: 2,
        prelude_ns: 0,
        play_ns: 100,
        offset_ns: 0,
        pace_percent: 100,
        split: CpuSplit::Shared,
        seed: 1,
    };

    fn step(time: u64, runner: u32, block: u32, action: Action) -> Step {
        Step { time, runner, block, action }
    }

    fn request(order: u8, runner: Option<u32>) -> BlockRequest {
        BlockRequest { gfp: Gfp::KERNEL, order: Order::new(order), runner }
    }

    /// Runner 1 allocates blocks 0 and 1, runner 2 frees block 0 later, and block 2, which was there before.
    fn script() -> Script {
        Script {
            steps: vec![
                step(10, 1, 0, Action::Alloc),
                step(20, 1, 1, Action::Alloc),
                step(60, 2, 0, Action::Free),
                step(90, 2, 2, Action::Free),
            ],
            blocks: vec![request(0, Some(1)), request(1, Some(1)), request(2, None)],
            duration: 100,
            cpus: 2,
            ..Script::default()
        }
    }

    fn lines(play: &Play) -> Vec<Line> {
        let mut lines: Vec<Line> = play.parts.iter().flatten().copied().collect();
        lines.sort_by_key(|line| line.due_ns);
        lines
    }

    fn dues(play: &Play) -> Vec<u64> {
        lines(play).iter().map(|line| line.due_ns).collect()
    }

    #[test]
    fn every_step_is_dealt_once_and_runners_stay_together() {
        let play = Play::new(&script(), SETTINGS);
        assert_eq!(dues(&play), [0, 10, 20, 60, 90]);
        assert!(play.parts.iter().any(|part| [10, 20].iter().all(|due| part.iter().any(|line| line.due_ns == *due))));
    }

    #[test]
    fn purgers_play_on_their_own_cpus() {
        let duties = vec![Duty::Purger, Duty::Other];
        let script = Script { duties, cpus: 2, ..script() };
        for seed in 0..20 {
            let split = CpuSplit::Purgers { cpus_per_purger: 2 };
            let play = Play::new(&script, PlaySettings { cpus: 4, split, seed, ..SETTINGS });
            // Runner 1 is task 0, the purger; runner 2 is task 1.
            for (cpu, part) in play.parts.iter().enumerate() {
                assert!(
                    part.iter().all(|line| [10, 20].contains(&line.due_ns) == (cpu % 2 == 0)),
                    "seed {seed}: CPU {cpu} plays {part:?}"
                );
            }
        }
    }

    #[test]
    fn what_was_there_before_is_set_out_in_the_prelude() {
        let whole = Play::new(&script(), SETTINGS);
        assert_eq!(whole.pages_peak(), 4 + 1 + 2, "the prop, and both blocks before one is freed");
        let late = Script { steps: script().steps.split_off(2), ..script() };
        let play = Play::new(&late, PlaySettings { cpus: 1, prelude_ns: 40, ..SETTINGS });
        assert_eq!(dues(&play), [0, 20, 100, 130], "block 0 is there already");
    }

    #[test]
    fn copies_grow_with_the_cpus_and_time_with_the_pace() {
        let play = Play::new(&script(), PlaySettings { cpus: 8, ..SETTINGS });
        assert_eq!(lines(&play).len(), 4 * 5);
        let fast = Play::new(&script(), PlaySettings { pace_percent: 200, play_ns: 50, ..SETTINGS });
        assert_eq!(dues(&fast), [0, 5, 10, 30, 45]);
    }

    #[test]
    fn copies_begin_apart_and_seeds_decide_where() {
        let quarter = PlaySettings { play_ns: 25, offset_ns: 30, cpus: 4, ..SETTINGS };
        let first = lines(&Play::new(&script(), quarter));
        assert_eq!(first, lines(&Play::new(&script(), quarter)));
        let others = (2..20).map(|seed| lines(&Play::new(&script(), PlaySettings { seed, ..quarter })));
        assert!(others.into_iter().any(|other| other != first));
    }

    #[test]
    fn a_free_that_comes_first_ends_its_block_as_soon_as_it_comes() {
        let play = Play::new(&script(), SETTINGS);
        assert_eq!(play.leave(0), None);
        assert!(!play.enter(0, Pfn::new(7)), "it goes back at once");
        assert!(play.enter(1, Pfn::new(8)));
        let left = play.leave(1).expect("it is there");
        assert_eq!((left.pfn, left.order), (Pfn::new(8), Order::new(1)));
        assert_eq!(play.leave(1), None, "once");
    }
}
