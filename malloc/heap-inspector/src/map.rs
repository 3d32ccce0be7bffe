//! The heap as a whole: what is in use, by size; how full blocks are; and what pins those that are nearly empty.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::amount::{Amount, PAGE_BYTES};
use crate::runs::{self, RunRow, Runs};
use crate::sheaves;
use crate::slabs::{self, BLOCK, Block, Caches, Pages, Part};
use crate::target::{HeapError, Target};

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
pub struct MapLimits {
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
    /// Whether it looks for misuse of memory: then objects that are held after they were freed count as in use.
    pub is_hardened: bool,
}

/// What a heap's memory is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryRow {
    /// Objects that the program has, as large as their size.
    pub objects: u64,
    /// Objects cached by CPUs and barns, and the arrays that say so.
    #[serde(rename = "at_hand")]
    pub cached: u64,
    /// All slabs, in which these lie.
    pub slabs: Amount,
    /// Pages that are no slab's.
    pub free_pages: Amount,
    /// Runs of pages that the program has.
    pub runs: Amount,
    /// Runs cached by CPUs; of a hardened process, runs that are held after they were freed.
    #[serde(rename = "runs_at_hand")]
    pub cached_runs: Amount,
    /// Free runs.
    pub free_runs: Amount,
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
    /// Objects cached by CPUs and barns.
    #[serde(rename = "at_hand")]
    pub cached: u64,
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
    /// Pages of no slab in them that are in memory.
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
    /// Objects in them that are cached.
    #[serde(rename = "at_hand")]
    pub cached: u64,
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockRow {
    /// Where it begins.
    pub address: u64,
    /// Its pages that are slabs.
    pub slab_pages: u32,
    /// Its pages that are none, and are in memory.
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
    /// Cached objects.
    #[serde(rename = "at_hand")]
    pub cached: u32,
}

impl HeapMap {
    /// Looks at a process's heap. Costs a copy of 41 bytes for each page that the heap has had, 8 or 24 for each page
    /// that was in a run, and of the arrays of cached objects.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn read(target: &mut Target, caches: &Caches, shown: MapLimits) -> Result<HeapMap, HeapError> {
        let outline = target.outline(caches.fingerprint())?;
        let pages = Pages::read(target, &outline)?;
        let cached = sheaves::count_cached(target, &outline, &pages, caches)?;
        let blocks = slabs::blocks(target, &outline, &pages, caches, &cached)?;
        let runs = runs::walk(target, &outline)?;
        let process = ProcessRow {
            pid: target.pid(),
            name: target.name(),
            resident: target.resident(),
            is_hardened: outline.is_hardened,
        };
        let sizes = sizes(&blocks, caches);
        Ok(HeapMap {
            process,
            memory: memory(&blocks, &sizes, &runs),
            sizes,
            fullness: fullness(&blocks),
            pins: pins(&blocks, caches),
            blocks: emptiest(&blocks, caches, shown.blocks),
            runs: runs.rows,
        })
    }
}

impl MemoryRow {
    /// What of it is in memory.
    pub fn in_memory(&self) -> u64 {
        let parts = [self.slabs, self.free_pages, self.runs, self.cached_runs, self.free_runs];
        parts.iter().map(|part| part.in_memory).sum()
    }

    /// What the program uses and is in memory: of slabs, its objects at most.
    pub fn used(&self) -> u64 {
        self.objects.min(self.slabs.in_memory) + self.runs.in_memory
    }

    /// Memory that is neither used nor free: in slabs, and cached.
    pub fn idle(&self) -> u64 {
        self.slabs.in_memory.saturating_sub(self.objects) + self.cached_runs.in_memory
    }

    /// What is free and in memory.
    pub fn free(&self) -> u64 {
        self.free_pages.in_memory + self.free_runs.in_memory
    }

    /// What is free and not in memory: given back, or never written to.
    pub fn given_back(&self) -> u64 {
        let free = [self.free_pages, self.free_runs];
        free.iter().map(|part| part.bytes.saturating_sub(part.in_memory)).sum()
    }
}

impl Block {
    fn is_sparse(&self) -> bool {
        self.slab_pages > 0 && self.slab_pages <= BLOCK / SPARSE_SHARE
    }
}

fn sizes(blocks: &[Block], caches: &Caches) -> Vec<SizeRow> {
    let mut rows: BTreeMap<u8, SizeRow> = BTreeMap::new();
    for part in blocks.iter().flat_map(|block| &block.parts) {
        let Some(cache) = caches.get(part.cache) else { continue };
        let row = rows.entry(part.cache).or_insert_with(|| SizeRow {
            name: cache.name.as_str().to_owned(),
            size: cache.object_size(),
            ..SizeRow::default()
        });
        let slabs = u64::from(part.slabs);
        row.objects += u64::from(part.objects);
        row.cached += u64::from(part.cached);
        row.room += slabs * u64::from(cache.layout.objects);
        row.slabs += slabs;
        row.bytes += slabs * u64::from(cache.layout.order.pages()) * PAGE_BYTES;
        row.blocks += 1;
    }
    rows.into_values().collect()
}

fn memory(blocks: &[Block], sizes: &[SizeRow], runs: &Runs) -> MemoryRow {
    let slabs = sum_pages(blocks, |block| block.slab_pages);
    let free = sum_pages(blocks, |block| block.pages).saturating_sub(slabs);
    MemoryRow {
        objects: sizes.iter().map(|row| row.objects * u64::from(row.size)).sum(),
        cached: sizes.iter().map(|row| row.cached * u64::from(row.size)).sum(),
        slabs: Amount::from_pages(slabs, sum_pages(blocks, |block| block.slab_pages_in_memory)),
        free_pages: Amount::from_pages(free, sum_pages(blocks, |block| block.free_pages_in_memory)),
        runs: runs.used,
        cached_runs: runs.claimed,
        free_runs: runs.free,
    }
}

fn sum_pages(blocks: &[Block], pages: fn(&Block) -> u32) -> u64 {
    blocks.iter().map(|block| u64::from(pages(block))).sum()
}

/// Rows for none, an eighth or less, a half or less, less than all, and all.
fn fullness(blocks: &[Block]) -> Vec<FullnessRow> {
    let bounds = [0, BLOCK / 8, BLOCK / 2, BLOCK - 1, BLOCK];
    let mut rows = bounds.map(|most_pages| FullnessRow { most_pages, ..FullnessRow::default() });
    for block in blocks.iter().filter(|block| block.slab_pages + block.free_pages_in_memory > 0) {
        let row = &mut rows[bounds.partition_point(|&most| most < block.slab_pages)];
        row.blocks += 1;
        row.free_pages += u64::from(block.free_pages_in_memory);
    }
    rows.to_vec()
}

fn pins(blocks: &[Block], caches: &Caches) -> Vec<PinRow> {
    let mut by_cache: BTreeMap<u8, PinRow> = BTreeMap::new();
    let sparse = blocks.iter().filter(|block| block.is_sparse());
    for (block, part) in sparse.flat_map(|block| block.parts.iter().map(move |part| (block, part))) {
        let Some(cache) = caches.get(part.cache) else { continue };
        let row = by_cache
            .entry(part.cache)
            .or_insert_with(|| PinRow { name: cache.name.as_str().to_owned(), ..PinRow::default() });
        row.blocks += 1;
        row.alone += u64::from(block.parts.len() == 1);
        row.unused += u64::from(part.objects == 0);
        row.slabs += u64::from(part.slabs);
        row.objects += u64::from(part.objects);
        row.cached += u64::from(part.cached);
    }
    let mut rows: Vec<_> = by_cache.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.blocks, row.alone)));
    rows
}

fn emptiest(blocks: &[Block], caches: &Caches, most: usize) -> Vec<BlockRow> {
    let mut used: Vec<_> = blocks.iter().filter(|block| block.slab_pages > 0).collect();
    used.sort_by_key(|block| (block.slab_pages, block.address));
    used.into_iter().take(most).map(|block| block_row(block, caches)).collect()
}

fn block_row(block: &Block, caches: &Caches) -> BlockRow {
    let mut pins: Vec<_> = block.parts.iter().map(|part| block_pin(part, caches)).collect();
    pins.sort_by_key(|pin| pin.objects);
    BlockRow { address: block.address, slab_pages: block.slab_pages, free_pages: block.free_pages_in_memory, pins }
}

fn block_pin(part: &Part, caches: &Caches) -> BlockPin {
    BlockPin {
        name: caches.get(part.cache).map_or_else(String::new, |cache| cache.name.as_str().to_owned()),
        slabs: part.slabs,
        objects: part.objects,
        cached: part.cached,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_told_apart_by_how_many_pages_are_slabs() {
        let blocks = [(0, 0), (0, 1), (1, 2), (64, 0), (65, 5), (512, 0)]
            .map(|(slab_pages, free_pages_in_memory)| Block { slab_pages, free_pages_in_memory, ..Block::default() });
        let rows = fullness(&blocks);
        let shown: Vec<_> = rows.iter().map(|row| (row.most_pages, row.blocks, row.free_pages)).collect();
        assert_eq!(shown, [(0, 1, 1), (64, 2, 2), (256, 1, 5), (511, 0, 0), (512, 1, 0)]);
    }

    /// However much was never written to: of an object that was not, nobody knows whether it is one in use.
    #[test]
    fn what_is_in_memory_is_used_idle_or_free() {
        for (objects, slabs) in [(10, 100), (70, 40), (0, 0)] {
            let row = MemoryRow {
                objects,
                cached: 5,
                slabs: Amount { bytes: 100, in_memory: slabs },
                free_pages: Amount { bytes: 50, in_memory: 20 },
                runs: Amount { bytes: 1000, in_memory: 3 },
                cached_runs: Amount { bytes: 8, in_memory: 0 },
                free_runs: Amount { bytes: 16, in_memory: 16 },
            };
            assert_eq!(row.in_memory(), slabs + 20 + 3 + 16);
            assert_eq!(row.used() + row.idle() + row.free(), row.in_memory());
            assert_eq!(row.given_back(), 30);
        }
    }
}
