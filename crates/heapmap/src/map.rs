//! The heap as a whole: what is in use, by size; how full blocks are; and what pins those that are nearly empty.

use freehold_malloc::runs::PAGE;
use serde::Serialize;

use crate::runs::{self, RunRow};
use crate::sheaves;
use crate::slabs::{self, BLOCK, Block, Caches, Pages, Part};
use crate::target::{Files, HeapError, Target};

/// Bytes of a page.
const PAGE_BYTES: u64 = PAGE as u64;
/// What pins a block is asked where no more of its pages are slabs than this part of them.
const SPARSE_SHARE: u32 = 2;

/// A live process's heap. Bytes, but where something else is said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeapMap {
    /// Whose it is.
    pub process: ProcessRow,
    /// What its memory is used for.
    pub memory: MemoryRow,
    /// Objects, by size.
    pub sizes: Vec<SizeRow>,
    /// Blocks of 2 MiB, by how full they are.
    pub fullness: Vec<FullnessRow>,
    /// What pins blocks of which half or less are slabs.
    pub pins: Vec<PinRow>,
    /// The emptiest blocks that are not free.
    pub blocks: Vec<BlockRow>,
    /// Runs of pages in use, by size.
    pub runs: Vec<RunRow>,
}

/// How much of it is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Blocks that are listed one by one.
    pub blocks: usize,
}

/// The process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessRow {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Memory that it has in all: of the heap, its code, files and stacks.
    pub resident: u64,
    /// Whether it looks for misuse of memory: then what is held after it was freed counts as in use.
    pub is_hardened: bool,
}

/// What a heap's memory is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryRow {
    /// Objects that the program has, as large as their size.
    pub objects: u64,
    /// Objects that CPUs and barns have at hand, and the arrays that say so.
    pub at_hand: u64,
    /// The rest of slabs.
    pub idle_in_slabs: u64,
    /// Of all these, what has no memory, since nobody has written to it.
    pub untouched: u64,
    /// Pages of no slab that have memory.
    pub free_pages: u64,
    /// Pages of no slab that have none.
    pub given_back: u64,
    /// Runs of pages that the program has.
    pub runs: u64,
    /// Runs that CPUs have at hand.
    pub runs_at_hand: u64,
    /// Free runs that have memory.
    pub free_runs: u64,
}

/// Objects of a size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SizeRow {
    /// Name of the cache.
    pub name: String,
    /// Bytes of an object.
    pub size: u32,
    /// Objects that the program has.
    pub objects: u64,
    /// Objects that CPUs and barns have at hand.
    pub at_hand: u64,
    /// Objects that its slabs have room for.
    pub room: u64,
    /// Slabs.
    pub slabs: u64,
    /// Bytes of its slabs.
    pub bytes: u64,
    /// Blocks that it has slabs in.
    pub blocks: u64,
}

/// Blocks that are about as full as each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FullnessRow {
    /// Pages of a block that are slabs: more than the row before, and at most so many.
    pub most_pages: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Pages of no slab in them that have memory.
    pub free_pages: u64,
}

/// What slabs of a size do to blocks of which half or less are slabs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PinRow {
    /// Name of the cache.
    pub name: String,
    /// Such blocks that it has slabs in.
    pub blocks: u64,
    /// Of these, blocks in which nothing else is.
    pub alone: u64,
    /// Of these, blocks in which the program has none of its objects.
    pub unused: u64,
    /// Slabs in them.
    pub slabs: u64,
    /// Objects in them that the program has.
    pub objects: u64,
    /// Objects in them that are at hand.
    pub at_hand: u64,
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockRow {
    /// Where it begins.
    pub address: u64,
    /// Its pages that are slabs.
    pub slab_pages: u32,
    /// Its pages that are none, and have memory.
    pub free_pages: u32,
    /// What lies in it, by cache, what has the fewest objects first.
    pub pins: Vec<BlockPin>,
}

/// What slabs of a size there are in a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockPin {
    /// Name of the cache.
    pub name: String,
    /// Slabs.
    pub slabs: u32,
    /// Objects that the program has.
    pub objects: u32,
    /// Objects that are at hand.
    pub at_hand: u32,
}

impl HeapMap {
    /// Looks at a process's heap. Costs a copy of 33 bytes for each page that the heap has had, and a look at each run.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn of(target: &mut Target, shown: Shown) -> Result<HeapMap, HeapError> {
        HeapMap::with(target, &mut Files::default(), &Caches::of_this_version(target)?, shown)
    }

    /// The same with what does not change from one look to the next.
    pub(crate) fn with(
        target: &mut Target,
        files: &mut Files,
        caches: &Caches,
        shown: Shown,
    ) -> Result<HeapMap, HeapError> {
        let outline = target.outline(files)?;
        let pages = Pages::read(target, &outline)?;
        let at_hand = sheaves::at_hand(target, &outline, &pages, caches)?;
        let blocks = slabs::blocks(target, &outline, &pages, caches, &at_hand)?;
        let runs = runs::walk(target, &outline)?;
        let process = ProcessRow {
            pid: target.pid(),
            name: target.name(),
            resident: target.resident(),
            is_hardened: outline.is_hardened,
        };
        let sizes = sizes(&blocks, caches);
        let memory = MemoryRow {
            runs: runs.used,
            runs_at_hand: runs.at_hand,
            free_runs: runs.backed,
            ..memory(&blocks, &sizes)
        };
        Ok(HeapMap {
            process,
            memory,
            sizes,
            fullness: fullness(&blocks),
            pins: pins(&blocks, caches),
            blocks: emptiest(&blocks, &pages, caches, shown.blocks),
            runs: runs.rows,
        })
    }
}

impl MemoryRow {
    /// What nobody uses and is not free: in slabs, and at hand.
    pub fn idle(&self) -> u64 {
        (self.at_hand + self.idle_in_slabs).saturating_sub(self.untouched) + self.runs_at_hand
    }

    /// What of it has memory.
    pub fn resident(&self) -> u64 {
        self.objects + self.idle() + self.free_pages + self.runs + self.free_runs
    }
}

impl Block {
    fn is_sparse(&self) -> bool {
        self.slab_pages > 0 && self.slab_pages <= BLOCK / SPARSE_SHARE
    }
}

fn sizes(blocks: &[Block], caches: &Caches) -> Vec<SizeRow> {
    let row = |cache: &freehold::slab::Cache| {
        let parts = || blocks.iter().flat_map(|block| &block.parts).filter(|part| part.cache == cache.id.get());
        let sum = |of: fn(&Part) -> u32| parts().map(|part| u64::from(of(part))).sum::<u64>();
        let slabs = sum(|part| part.slabs);
        // A sheaf is nobody's object: all of them are at hand.
        let [objects, at_hand] = [sum(|part| part.objects), sum(|part| part.at_hand)];
        let is_of_sheaves = caches.is_of_sheaves(cache.id);
        SizeRow {
            name: cache.name.as_str().to_owned(),
            size: cache.object_size(),
            objects: if is_of_sheaves { 0 } else { objects },
            at_hand: if is_of_sheaves { objects + at_hand } else { at_hand },
            room: slabs * u64::from(cache.layout.objects),
            slabs,
            bytes: slabs * u64::from(cache.layout.order.pages()) * PAGE_BYTES,
            blocks: parts().count() as u64,
        }
    };
    caches.iter().map(row).filter(|row| row.slabs > 0).collect()
}

fn memory(blocks: &[Block], sizes: &[SizeRow]) -> MemoryRow {
    let sum = |of: fn(&Block) -> u32| blocks.iter().map(|block| u64::from(of(block))).sum::<u64>() * PAGE_BYTES;
    let bytes = |of: fn(&SizeRow) -> u64| sizes.iter().map(|row| of(row) * u64::from(row.size)).sum::<u64>();
    let [objects, at_hand] = [bytes(|row| row.objects), bytes(|row| row.at_hand)];
    let slabs = sum(|block| block.slab_pages);
    let free_pages = sum(|block| block.free_pages);
    MemoryRow {
        objects,
        at_hand,
        idle_in_slabs: slabs.saturating_sub(objects + at_hand),
        untouched: sum(|block| block.untouched_pages),
        free_pages,
        given_back: sum(|block| block.pages).saturating_sub(slabs + free_pages),
        ..MemoryRow::default()
    }
}

/// Rows for none, an eighth or less, a half or less, less than all, and all.
fn fullness(blocks: &[Block]) -> Vec<FullnessRow> {
    let bounds = [0, BLOCK / 8, BLOCK / 2, BLOCK - 1, BLOCK];
    let mut rows = bounds.map(|most_pages| FullnessRow { most_pages, ..FullnessRow::default() });
    for block in blocks.iter().filter(|block| block.slab_pages + block.free_pages > 0) {
        let row = &mut rows[bounds.partition_point(|&most| most < block.slab_pages)];
        row.blocks += 1;
        row.free_pages += u64::from(block.free_pages);
    }
    rows.to_vec()
}

fn pins(blocks: &[Block], caches: &Caches) -> Vec<PinRow> {
    let sparse = || blocks.iter().filter(|block| block.is_sparse());
    let row = |cache: &freehold::slab::Cache| {
        let mut row = PinRow { name: cache.name.as_str().to_owned(), ..PinRow::default() };
        for (block, part) in sparse().flat_map(|block| block.parts.iter().map(move |part| (block, part))) {
            if part.cache == cache.id.get() {
                row.blocks += 1;
                row.alone += u64::from(block.parts.len() == 1);
                row.unused += u64::from(part.objects == 0);
                row.slabs += u64::from(part.slabs);
                row.objects += u64::from(part.objects);
                row.at_hand += u64::from(part.at_hand);
            }
        }
        row
    };
    let mut rows: Vec<_> = caches.iter().map(row).filter(|row| row.blocks > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.alone, row.blocks)));
    rows
}

fn emptiest(blocks: &[Block], pages: &Pages, caches: &Caches, most: usize) -> Vec<BlockRow> {
    let mut used: Vec<_> = blocks.iter().filter(|block| block.slab_pages > 0).collect();
    used.sort_by_key(|block| (block.slab_pages, block.first));
    let pin = |part: &Part| BlockPin {
        name: caches.get(part.cache).map_or_else(String::new, |cache| cache.name.as_str().to_owned()),
        slabs: part.slabs,
        objects: part.objects,
        at_hand: part.at_hand,
    };
    let row = |block: &Block| {
        let mut pins: Vec<_> = block.parts.iter().map(pin).collect();
        pins.sort_by_key(|pin| pin.objects);
        BlockRow {
            address: pages.address(block.first),
            slab_pages: block.slab_pages,
            free_pages: block.free_pages,
            pins,
        }
    };
    used.into_iter().take(most).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_told_apart_by_how_many_pages_are_slabs() {
        let block = |slab_pages, free_pages| Block { slab_pages, free_pages, pages: 512, ..Block::default() };
        let rows = fullness(&[block(0, 0), block(0, 1), block(1, 2), block(64, 0), block(65, 5), block(512, 0)]);
        let shown: Vec<_> = rows.iter().map(|row| (row.most_pages, row.blocks, row.free_pages)).collect();
        assert_eq!(shown, [(0, 1, 1), (64, 2, 2), (256, 1, 5), (511, 0, 0), (512, 1, 0)]);
    }

    #[test]
    fn memory_of_the_heap_is_what_its_parts_have() {
        let row = MemoryRow {
            objects: 1,
            at_hand: 2,
            idle_in_slabs: 4,
            untouched: 3,
            free_pages: 8,
            given_back: 16,
            runs: 32,
            runs_at_hand: 64,
            free_runs: 128,
        };
        assert_eq!(row.resident(), 1 + 2 + 4 - 3 + 8 + 32 + 64 + 128);
    }
}
