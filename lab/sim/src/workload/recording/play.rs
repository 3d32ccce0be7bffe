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

use super::cast::{Duty, Stage};
use super::script::{Deed, Script, Step, Wanted};
use crate::cpu::Block;

/// A block that was not allocated yet. No frame has this number.
const TO_COME: u32 = u32::MAX;
/// A block that was freed, or will be as soon as it comes.
const ENDED: u32 = u32::MAX - 1;

/// A time that is to come.
const UNSET: u64 = u64::MAX;

/// How a script is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staging {
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
    pub stage: Stage,
    /// What decides where the first copy begins, and which CPU plays whom.
    pub seed: u64,
}

impl Staging {
    /// Nanoseconds of the recording that are played.
    pub fn piece_ns(&self) -> u64 {
        (u128::from(self.play_ns) * u128::from(self.pace_percent) / 100).min(u128::from(u64::MAX)) as u64
    }
}

/// One line of a CPU's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// When, in nanoseconds since the run began.
    pub due_ns: u64,
    /// Number of the block in the play.
    pub block: u32,
    /// What is to be done.
    pub deed: Deed,
}

/// What one CPU does, in order of time.
pub type Part = Vec<Line>;

/// A block of the play.
#[derive(Debug)]
struct Role {
    wanted: Wanted,
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
    pub fn stage(script: &Script, staging: Staging) -> Play {
        let mut play = Play::default();
        play.parts.resize_with(usize::from(staging.cpus), Part::new);
        let piece = staging.piece_ns();
        let starts = script.duration.saturating_sub(piece) + 1;
        let mut rng = fastrand::Rng::with_seed(staging.seed);
        let first = rng.u64(0..starts);
        for copy in 0..copies(script, staging.cpus) {
            let start = first.wrapping_add(u64::from(copy).wrapping_mul(staging.offset_ns)) % starts;
            let steps = script.between(start, start.saturating_add(piece));
            let (cast, known) = (rng.u32(..), FxHashMap::default());
            Copy { play: &mut play, script, staging, cast, start, known }.deal(steps);
        }
        for part in &mut play.parts {
            spread_prelude(part, staging.prelude_ns);
            part.sort_by_key(|line| line.due_ns);
        }
        play
    }

    /// What a CPU does.
    pub fn part(&self, cpu: u16) -> &[Line] {
        &self.parts[usize::from(cpu)]
    }

    /// Pages that the copies have at a time at most, if all have their most at once.
    pub fn pages_peak(&self) -> u64 {
        self.pages_peak
    }

    /// What to ask for to get a block.
    pub fn wanted(&self, block: u32) -> Wanted {
        self.roles[block as usize].wanted
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
        is_there.then(|| Block { pfn: Pfn::new(pfn), order: role.wanted.order, from: role.cpu })
    }
}

/// Gives the lines of the prelude, which have no time yet and stand among the others, evenly distributed times.
fn spread_prelude(part: &mut Part, prelude_ns: u64) {
    let is_prop = |line: &Line| line.due_ns == UNSET;
    let props = part.iter().filter(|line| is_prop(line)).count().max(1) as u64;
    for (index, line) in (0..).zip(part.iter_mut().filter(|line| is_prop(line))) {
        line.due_ns = (u128::from(prelude_ns) * index / u128::from(props)) as u64;
    }
}

/// Copies of a recording that keep so many CPUs as busy as the recorded ones were.
pub fn copies(script: &Script, cpus: u16) -> u16 {
    (cpus / script.cpus).max(1)
}

/// One copy while it is dealt.
struct Copy<'p> {
    play: &'p mut Play,
    script: &'p Script,
    staging: Staging,
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
            pages += if step.deed == Deed::Alloc { size } else { -size };
            peak = peak.max(pages);
            let block = self.number(step.block);
            let since_ns = (step.time - self.start) * 100 / self.staging.pace_percent.max(1);
            let due_ns = self.staging.prelude_ns + since_ns;
            let cpu = self.cpu_of(step.runner, self.script.duty(step.runner));
            self.play.parts[usize::from(cpu)].push(Line { due_ns, block, deed: step.deed });
        }
        self.play.pages_peak += peak.max(0) as u64;
    }

    /// Numbers the blocks that are freed without being allocated, and gives them to who sets them out. Says how many
    /// pages they have.
    fn set_out_props(&mut self, steps: &[Step]) -> i64 {
        let mut pages = 0;
        for step in steps {
            let is_prop = step.deed == Deed::Free && !self.known.contains_key(&step.block);
            let block = self.number(step.block);
            if is_prop {
                let cpu = self.play.roles[block as usize].cpu;
                self.play.parts[usize::from(cpu)].push(Line { due_ns: UNSET, block, deed: Deed::Alloc });
                pages += i64::from(self.script.blocks[step.block as usize].order.pages());
            }
        }
        pages
    }

    /// A block's number in the play.
    fn number(&mut self, block: u32) -> u32 {
        let wanted = self.script.blocks[block as usize];
        // Nobody knows who allocated what was there before the recording: anybody.
        let cpu = match wanted.runner {
            Some(runner) => self.cpu_of(runner, self.script.duty(runner)),
            None => self.cpu_of(block, Duty::Other),
        };
        let roles = &mut self.play.roles;
        *self.known.entry(block).or_insert_with(|| {
            roles.push(Role { wanted, cpu, state: AtomicU32::new(TO_COME) });
            roles.len() as u32 - 1
        })
    }

    /// The CPU that plays somebody of this copy: neighbours end up on different CPUs.
    fn cpu_of(&self, runner: u32, duty: Duty) -> u16 {
        let mixed = (runner ^ self.cast).wrapping_mul(0x9e37_79b1);
        self.staging.stage.cpu(self.staging.cpus, mixed ^ mixed >> 15, duty)
    }
}

#[cfg(test)]
mod tests {
    use freehold::base::{Gfp, Order};

    use super::*;

    const STAGING: Staging =
        Staging { cpus: 2, prelude_ns: 0, play_ns: 100, offset_ns: 0, pace_percent: 100, stage: Stage::Open, seed: 1 };

    /// Runner 1 allocates blocks 0 and 1, runner 2 frees block 0 later, and block 2, which was there before.
    fn script() -> Script {
        let step = |time, runner, block, deed| Step { time, runner, block, deed };
        let wanted = |order, runner| Wanted { gfp: Gfp::KERNEL, order: Order::new(order), runner };
        Script {
            steps: vec![
                step(10, 1, 0, Deed::Alloc),
                step(20, 1, 1, Deed::Alloc),
                step(60, 2, 0, Deed::Free),
                step(90, 2, 2, Deed::Free),
            ],
            blocks: vec![wanted(0, Some(1)), wanted(1, Some(1)), wanted(2, None)],
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
        let play = Play::stage(&script(), STAGING);
        assert_eq!(dues(&play), [0, 10, 20, 60, 90]);
        let by_first = |part: &&Part| [10, 20].map(|due| part.iter().any(|line| line.due_ns == due));
        assert!(play.parts.iter().any(|part| by_first(&part) == [true, true]));
    }

    #[test]
    fn purgers_play_on_their_own_cpus() {
        let duties = vec![Duty::Purger, Duty::Other];
        let script = Script { duties, cpus: 2, ..script() };
        for seed in 0..20 {
            let stage = Stage::Parted { cpus_per_purger: 2 };
            let play = Play::stage(&script, Staging { cpus: 4, stage, seed, ..STAGING });
            // Runner 1 is task 0, the purger; runner 2 is task 1.
            for (cpu, part) in play.parts.iter().enumerate() {
                let is_own = |line: &Line| [10, 20].contains(&line.due_ns) == (cpu % 2 == 0);
                assert!(part.iter().all(is_own), "seed {seed}: CPU {cpu} plays {part:?}");
            }
        }
    }

    #[test]
    fn what_was_there_before_is_set_out_in_the_prelude() {
        let play = Play::stage(&script(), STAGING);
        assert_eq!(play.pages_peak(), 4 + 1 + 2, "the prop, and both blocks before one is freed");
        let late = Script { steps: script().steps.split_off(2), ..script() };
        let play = Play::stage(&late, Staging { cpus: 1, prelude_ns: 40, ..STAGING });
        assert_eq!(dues(&play), [0, 20, 100, 130], "block 0 is there already");
    }

    #[test]
    fn copies_grow_with_the_cpus_and_time_with_the_pace() {
        let play = Play::stage(&script(), Staging { cpus: 8, ..STAGING });
        assert_eq!(lines(&play).len(), 4 * 5);
        let fast = Play::stage(&script(), Staging { pace_percent: 200, play_ns: 50, ..STAGING });
        assert_eq!(dues(&fast), [0, 5, 10, 30, 45]);
    }

    #[test]
    fn copies_begin_apart_and_seeds_decide_where() {
        let quarter = Staging { play_ns: 25, offset_ns: 30, cpus: 4, ..STAGING };
        let starts = |seed| lines(&Play::stage(&script(), Staging { seed, ..quarter }));
        assert_eq!(starts(1), starts(1));
        assert!((2..20).any(|seed| starts(seed) != starts(1)));
    }

    #[test]
    fn a_free_that_comes_first_ends_its_block_as_soon_as_it_comes() {
        let play = Play::stage(&script(), STAGING);
        assert_eq!(play.leave(0), None);
        assert!(!play.enter(0, Pfn::new(7)), "it goes back at once");
        assert!(play.enter(1, Pfn::new(8)));
        let left = play.leave(1).expect("it is there");
        assert_eq!((left.pfn, left.order), (Pfn::new(8), Order::new(1)));
        assert_eq!(play.leave(1), None, "once");
    }
}
