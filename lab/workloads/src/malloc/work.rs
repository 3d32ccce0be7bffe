//! Loads of one thread: objects, texts, trees, and blocks up to 25 MiB.

use std::hint::black_box;
use std::ops::RangeInclusive;

use fastrand::Rng;

use super::block::{Block, Live};

/// Allocates a block and writes its first and last bytes.
pub(super) fn block(bytes: usize) -> Block {
    let mut block = Box::new_uninit_slice(bytes);
    if let [first, .., last] = &mut *block {
        first.write(1);
        last.write(2);
    }
    black_box(block)
}

/// Allocates a block and writes a byte in each page, whose faults are accepted as part of the cost.
fn allocate_touched(bytes: usize) -> Block {
    let mut block = block(bytes);
    block.iter_mut().step_by(4096).for_each(|byte| _ = byte.write(3));
    black_box(block)
}

/// Returns a size up to 32 KiB; half of the sizes are below 128 bytes.
pub(super) fn size(chance: &mut Rng) -> usize {
    let bits = match chance.u8(..16) {
        0..8 => chance.u32(3..7),
        8..14 => chance.u32(7..10),
        _ => chance.u32(10..15),
    };
    (1 << bits) + chance.usize(..1 << bits)
}

/// Returns a size between two bounds, log-uniformly distributed.
pub(super) fn even_doublings(chance: &mut Rng, sizes: RangeInclusive<usize>) -> usize {
    let (least, most) = (*sizes.start(), *sizes.end());
    let (low, high) = ((least as f64).ln(), (most as f64).ln());
    ((low + chance.f64() * (high - low)).exp() as usize).clamp(least, most)
}

/// Replaces random objects among 40,000.
pub(super) fn random(steps: usize) -> Live {
    let mut chance = Rng::with_seed(1);
    let mut live: Vec<Block> = (0..40_000).map(|_| block(size(&mut chance))).collect();
    for _ in 0..steps {
        let at = chance.usize(..live.len());
        live[at] = block(size(&mut chance));
    }
    Live::new(live)
}

/// Replaces random blocks among `count`, with log-uniform sizes.
pub(super) fn blocks(steps: usize, sizes: RangeInclusive<usize>, count: usize) -> Live {
    let mut chance = Rng::with_seed(2);
    let mut live: Vec<Block> =
        (0..count).map(|_| allocate_touched(even_doublings(&mut chance, sizes.clone()))).collect();
    let mut place = Rng::with_seed(3);
    for step in 0..steps {
        let at = place.usize(..count);
        // Few blocks are written, since the allocator is measured and not the kernel.
        let size = even_doublings(&mut chance, sizes.clone());
        live[at] = if step % 8 == 0 { allocate_touched(size) } else { block(size) };
    }
    Live::new(live)
}

/// Builds, sorts and drops lists of texts.
pub(super) fn texts(rounds: usize) -> Live {
    let mut chance = Rng::with_seed(4);
    let mut length = 0;
    for _ in 0..rounds {
        let mut list = Vec::new();
        for number in 0..40_000_u32 {
            let mut text = number.to_string();
            for _ in 0..chance.u8(..6) {
                text.push_str("and so on, ");
            }
            list.push(text);
        }
        list.sort_unstable();
        list.retain(|text| text.len() % 3 > 0);
        length += black_box(list.concat()).len();
    }
    black_box(length);
    Live::default()
}

/// A node of a tree.
struct Node {
    _children: Option<[Box<Node>; 2]>,
}

impl Node {
    fn tree(depth: u32) -> Node {
        Node { _children: (depth > 0).then(|| [Box::new(Node::tree(depth - 1)), Box::new(Node::tree(depth - 1))]) }
    }
}

/// Builds and drops trees of half a million nodes and smaller ones, while one tree stays.
pub(super) fn trees(rounds: usize) -> Live {
    let stays = black_box(Node::tree(18));
    for _ in 0..rounds {
        black_box(Node::tree(18));
        for _ in 0..64 {
            black_box(Node::tree(12));
        }
    }
    drop(stays);
    Live::default()
}
