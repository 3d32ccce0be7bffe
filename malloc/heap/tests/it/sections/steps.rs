//! Random steps, which are executed in two worlds.

use std::sync::atomic::Ordering::Relaxed;

use fastrand::Rng;
use freehold::base::CpuId;
use freehold::slab::address::{ObjectAddress, SlabAddress};
use freehold::slab::cpu::{CpuLocal, PushOutcome};
use freehold::slab::freelist::FixedLinks;
use freehold::slab::slab::Owner;
use freehold::slab::word::{EMPTY, Local, end_mark, is_mark};

use crate::common::world::{ALL_BITS, CAPACITY, OBJECTS, SLABS, World};

/// Steps of a run.
const STEPS: u32 = 300;
/// Lengths of the lists that a test prepares; some lists are short or empty.
const LENGTHS: [u16; 5] = [0, 1, 2, OBJECTS - 1, OBJECTS];

/// A step.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pop,
    Push {
        slab: usize,
        index: u16,
    },
    PushPaired {
        slab: usize,
        index: u16,
    },
    PopSheaf,
    PushSheaf {
        slab: usize,
        index: u16,
    },
    PopBits,
    PushBits {
        slab: usize,
        index: u16,
    },
    /// Resets the world to a scene.
    Reset(Scene),
}

/// Initial positions of lists.
#[derive(Clone, Copy, Debug)]
struct Scene {
    /// The slab and the length of the slot's list, or `None` for no slab.
    slot: Option<(usize, u16)>,
    /// Another slab: its index, the length of its own list, its objects in use, and its owner.
    other: (usize, u16, u16, Owner),
    kind: Kind,
}

/// Container of a CPU's free objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lists,
    Sheaves,
    Bits,
}

/// Result of a step. Addresses are relative to the start of the world.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Object(Option<u64>),
    Pushed(PushOutcome),
    Nothing,
}

/// Executes the same steps with both primitives on CPU `cpu`.
///
/// # Panics
/// At the first difference.
pub(crate) fn compare<A: CpuLocal, B: CpuLocal, L: FixedLinks>(a: &A, b: &B, links: L, cpu: CpuId, seed: u64) {
    let mut chance = Rng::with_seed(seed);
    let (left, right) = (World::new(cpu.0 + 1, links), World::new(cpu.0 + 1, links));
    let mut kind = Kind::Lists;
    for number in 0..STEPS {
        let step = draw(&mut chance, cpu, number, &mut kind);
        let answers = (perform(a, &left, cpu, step), perform(b, &right, cpu, step));
        let words = (words(&left, cpu, kind), words(&right, cpu, kind));
        assert!(answers.0 == answers.1 && words.0 == words.1, "{step:?} differ: {answers:x?}, {words:x?}");
    }
}

fn draw(chance: &mut Rng, cpu: CpuId, number: u32, kind: &mut Kind) -> Step {
    if number.is_multiple_of(10) {
        let scene = scene(chance, cpu);
        *kind = scene.kind;
        return Step::Reset(scene);
    }
    let (slab, index) = (chance.usize(..SLABS), chance.u16(..OBJECTS));
    match (*kind, chance.u8(..3)) {
        (Kind::Lists, 0) => Step::Pop,
        (Kind::Lists, 1) => Step::Push { slab, index },
        (Kind::Lists, _) => Step::PushPaired { slab, index },
        (Kind::Sheaves, 0) => Step::PopSheaf,
        (Kind::Sheaves, _) => Step::PushSheaf { slab, index },
        (Kind::Bits, 0) => Step::PopBits,
        (Kind::Bits, _) => Step::PushBits { slab, index },
    }
}

fn scene(chance: &mut Rng, cpu: CpuId) -> Scene {
    let slab = chance.usize(..SLABS);
    let slot = (chance.u8(..5) > 0).then(|| (slab, draw_length(chance)));
    let owner = chance.choice([Owner::Cpu(cpu), Owner::Cpu(cpu), Owner::Cpu(CpuId(cpu.0 + 1)), Owner::Node]);
    let other = ((slab + 1) % SLABS, draw_length(chance), chance.u16(1..4), owner.expect("there are some"));
    let kind = chance.choice([Kind::Lists, Kind::Lists, Kind::Sheaves, Kind::Bits]).expect("there are some");
    Scene { slot, other, kind }
}

fn draw_length(chance: &mut Rng) -> u16 {
    chance.choice(LENGTHS).expect("there are some")
}

fn perform<C: CpuLocal, L: FixedLinks>(local: &C, world: &World<L>, cpu: CpuId, step: Step) -> Answer {
    let links = world.links();
    match step {
        Step::Pop => Answer::Object(local.pop(world.slots(), links).map(|object| relative(world, object.get()))),
        Step::Push { slab, index } => {
            Answer::Pushed(local.push(world.slots(), world.freed(world.object(slab, index)), links))
        }
        Step::PushPaired { slab, index } => {
            Answer::Pushed(local.push_paired(world.slots(), world.freed(world.object(slab, index)), links))
        }
        Step::PopSheaf => Answer::Object(local.pop_sheaf(world.slots()).map(|object| relative(world, object.get()))),
        Step::PushSheaf { slab, index } => {
            // SAFETY: the objects are only compared and never used, so that one of them may be pushed twice.
            Answer::Pushed(unsafe { local.push_sheaf(world.slots(), ObjectAddress::new(world.object(slab, index))) })
        }
        Step::PopBits => {
            let place = local.pop_bits(world.slots());
            Answer::Object(place.map(|(word, index)| {
                relative(world, world.object(world.slab_by_word(word).expect("a slab of this world"), index as u16))
            }))
        }
        Step::PushBits { slab, index } => {
            let freed = world.freed(world.object(slab, index));
            Answer::Pushed(local.push_bits(world.slots(), freed, world.bit_of(freed.object().get()), ALL_BITS))
        }
        Step::Reset(scene) => {
            reset(world, cpu, scene);
            Answer::Nothing
        }
    }
}

/// Encodes an object as the index of its slab and its offset in the slab, which are equal in all worlds.
fn relative<L: FixedLinks>(world: &World<L>, object: u64) -> u64 {
    (slab_of(world, object) as u64) << 32 | object & !World::<L>::mask()
}

/// Returns the index of the slab that contains an object.
fn slab_of<L: FixedLinks>(world: &World<L>, object: u64) -> usize {
    (0..SLABS).find(|&slab| world.base(slab).get() == object & World::<L>::mask()).expect("an object of this world")
}

fn reset<L: FixedLinks>(world: &World<L>, cpu: CpuId, scene: Scene) {
    for slab in 0..SLABS {
        world.set_local(slab, Local::new(end_mark(world.base(slab)), OBJECTS));
        world.set_owner(slab, Owner::Node);
    }
    let (slab, length, used, owner) = scene.other;
    world.set_local(slab, Local::new(world.chain(slab, 0..length).head, used));
    world.set_owner(slab, owner);
    let slot = world.slot(cpu);
    if scene.kind == Kind::Bits {
        return reset_bits(world, cpu, scene);
    }
    if scene.kind == Kind::Sheaves {
        world.use_sheaves();
        let objects: Vec<u64> = (0..length_of(scene)).map(|index| world.object(0, index)).collect();
        world.fill_sheaf(cpu.index(), &objects);
        return;
    }
    let (list, slab) = match scene.slot {
        Some((slab, length)) => (world.chain(slab, 0..length).head, world.base(slab)),
        None => (EMPTY, SlabAddress::new(0)),
    };
    slot.main.store(list, Relaxed);
    slot.paired.store(slab.get(), Relaxed);
}

fn reset_bits<L: FixedLinks>(world: &World<L>, cpu: CpuId, scene: Scene) {
    let (other, length, used, _) = scene.other;
    for slab in 0..SLABS {
        world.local(slab).store(0, Relaxed);
    }
    world.local(other).store(((1 << length) - 1) ^ u64::from(used & 1), Relaxed);
    let current = scene.slot.map(|(slab, length)| {
        world.local(slab).store((1 << length) - 1, Relaxed);
        world.slab_word(slab)
    });
    world.slot(cpu).main.store(current.unwrap_or(world.nowhere()), Relaxed);
}

/// Returns the initial number of objects in a sheaf, at most its capacity.
fn length_of(scene: Scene) -> u16 {
    scene.other.1.min(CAPACITY as u16)
}

/// Returns all words relative to the start of the world. A list is followed for a bounded number of steps, because
/// objects that are pushed twice form cycles.
fn words<L: FixedLinks>(world: &World<L>, cpu: CpuId, kind: Kind) -> Vec<u64> {
    let mut found = Vec::new();
    if kind == Kind::Bits {
        return (0..SLABS).map(|slab| world.local(slab).load(Relaxed)).collect();
    }
    let locals: Vec<Local> = (0..SLABS).map(|slab| world.slab(slab).local()).collect();
    locals.iter().for_each(|local| follow(world, local.list(0), &mut found));
    if kind == Kind::Lists {
        follow(world, world.slot(cpu).main.load(Relaxed), &mut found);
    }
    found.extend(locals.iter().map(|local| u64::from(local.used())));
    if kind == Kind::Sheaves {
        found.extend(world.sheaf(cpu.index()).iter().map(|object| object & !World::<L>::mask()));
    }
    found
}

/// Appends the words of a list, up to a bounded number of steps.
fn follow<L: FixedLinks>(world: &World<L>, list: u64, found: &mut Vec<u64>) {
    let mut at = list;
    for _ in 0..20 {
        let slab = (0..SLABS).find(|slab| at & World::<L>::mask() == world.base(*slab).get());
        found.push(slab.map_or(u64::MAX, |slab| slab as u64) << 32 | at & !World::<L>::mask());
        if is_mark(at) || slab.is_none() {
            break;
        }
        // SAFETY: the address is in a slab of this world, so its link can be read.
        at = unsafe { freehold::slab::freelist::get_freepointer(ObjectAddress::new(at), world.links()) };
    }
}
