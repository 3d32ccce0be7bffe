//! Summary of a heap: memory in use by size, fullness of blocks, and the objects that keep nearly empty blocks from
//! being returned.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::amount::{Amount, PAGE_BYTES};
use crate::runs::{self, RunRow, Runs};
use crate::sheaves;
use crate::slabs::{self, BLOCK, Block, Caches, Pages, Part};
use crate::states::{BlockKind, StateBytes, StateRow, States};
use crate::target::{HeapError, Target};

/// Divisor of a block's pages: a block is sparse, and its pins are listed, if at most this share of its pages are
/// slabs.
const SPARSE_SHARE: u32 = 2;

/// Heap of a live process. All amounts are in bytes unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeapMap {
    /// The process.
    pub process: ProcessRow,
    /// Memory by use.
    pub memory: MemoryRow,
    /// Objects by size.
    pub sizes: Vec<SizeRow>,
    /// Blocks of 2 MiB by fullness.
    pub fullness: Vec<FullnessRow>,
    /// Caches whose slabs pin sparse blocks, in which at most half of the pages are slabs.
    pub pins: Vec<PinRow>,
    /// The blocks with the fewest slab pages, without blocks that have none.
    pub blocks: Vec<BlockRow>,
    /// Runs of pages in use or cached, by size.
    pub runs: Vec<RunRow>,
    /// Live, cached, kept and returned memory, in total and by size.
    pub states: States,
}

/// Limits of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapLimits {
    /// Most blocks that are listed individually.
    pub blocks: usize,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessRow {
    /// Process ID.
    pub pid: u32,
    /// Name of the process.
    pub name: String,
    /// Resident bytes of the process in total: heap, code, files and stacks.
    pub resident: u64,
    /// Whether the process is hardened. Objects that are held after their free count as in use then.
    pub is_hardened: bool,
}

/// Memory of a heap by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryRow {
    /// Objects in use by the program, at the sizes of their caches.
    pub objects: u64,
    /// Objects cached by CPUs and barns, and the sheaves that hold them.
    #[serde(rename = "at_hand")]
    pub cached: u64,
    /// All slabs, which contain these objects.
    pub slabs: Amount,
    /// Pages that belong to no slab.
    pub free_pages: Amount,
    /// Runs of pages in use by the program.
    pub runs: Amount,
    /// Runs cached by CPUs, or in a hardened process, runs that are held after their free.
    #[serde(rename = "runs_at_hand")]
    pub cached_runs: Amount,
    /// Free runs.
    pub free_runs: Amount,
}

/// Objects of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SizeRow {
    /// Name of the cache.
    pub name: String,
    /// Least and most bytes of the requests that the cache serves; `None` for sheaves.
    pub request_bytes: Option<[u32; 2]>,
    /// Bytes of an object.
    pub size: u32,
    /// Objects in use by the program.
    pub objects: u64,
    /// Objects cached by CPUs and barns.
    #[serde(rename = "at_hand")]
    pub cached: u64,
    /// Objects for which the slabs have room.
    pub room: u64,
    /// Number of slabs.
    pub slabs: u64,
    /// Bytes of the slabs.
    pub bytes: u64,
    /// Bytes of the slabs that are in memory.
    pub in_memory: u64,
    /// Number of blocks that contain slabs of this cache.
    pub blocks: u64,
}

/// Blocks of similar fullness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FullnessRow {
    /// Most slab pages of a block in this row; a block has more than the bound of the row before.
    pub most_pages: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Pages of these blocks that are in memory and belong to no slab.
    pub free_pages: u64,
}

/// Slabs of one cache in sparse blocks, in which at most half of the pages are slabs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PinRow {
    /// Name of the cache.
    pub name: String,
    /// Least and most bytes of the requests that the cache serves; `None` for sheaves.
    pub request_bytes: Option<[u32; 2]>,
    /// Number of sparse blocks that contain slabs of this cache.
    pub blocks: u64,
    /// Blocks of these that contain no other slabs.
    pub alone: u64,
    /// Blocks of these in which the program uses no object of this cache.
    pub unused: u64,
    /// Slabs in these blocks.
    pub slabs: u64,
    /// Objects in these blocks that the program uses.
    pub objects: u64,
    /// Objects in these blocks that are cached.
    #[serde(rename = "at_hand")]
    pub cached: u64,
}

/// A block of 2 MiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockRow {
    /// Address of the first byte.
    pub address: u64,
    /// Pages that belong to slabs.
    pub slab_pages: u32,
    /// Pages that are in memory and belong to no slab.
    pub free_pages: u32,
    /// Slabs in the block by cache, in increasing order of objects in use.
    pub pins: Vec<BlockPin>,
}

/// Slabs of one cache in a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockPin {
    /// Name of the cache.
    pub name: String,
    /// Least and most bytes of the requests that the cache serves; `None` for sheaves.
    pub request_bytes: Option<[u32; 2]>,
    /// Number of slabs.
    pub slabs: u32,
    /// Objects in use by the program.
    pub objects: u32,
    /// Cached objects.
    #[serde(rename = "at_hand")]
    pub cached: u32,
}

impl HeapMap {
    /// Reads the heap of a process. Copies at most 41 bytes for each page that the heap has had, 8 or 24 bytes for each
    /// page that was in a run, and the sheaves.
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
        let memory = memory(&blocks, &sizes, &runs);
        Ok(HeapMap {
            process,
            states: states(&memory, &sizes, &runs.rows),
            memory,
            sizes,
            fullness: fullness(&blocks),
            pins: pins(&blocks, caches),
            blocks: emptiest(&blocks, caches, shown.blocks),
            runs: runs.rows,
        })
    }
}

impl MemoryRow {
    /// Returns the bytes that are in memory.
    pub fn in_memory(&self) -> u64 {
        let parts = [self.slabs, self.free_pages, self.runs, self.cached_runs, self.free_runs];
        parts.iter().map(|part| part.in_memory).sum()
    }

    /// Returns the bytes that the program uses and that are in memory. The share of slabs is bounded by their resident
    /// part.
    pub fn used(&self) -> u64 {
        self.objects.min(self.slabs.in_memory) + self.runs.in_memory
    }

    /// Returns the bytes in memory that are neither used nor free: in slabs, and in runs that are cached, or held after
    /// their free.
    pub fn idle(&self) -> u64 {
        self.slabs.in_memory.saturating_sub(self.objects) + self.cached_runs.in_memory
    }

    /// Returns the bytes that are free and in memory.
    pub fn free(&self) -> u64 {
        self.free_pages.in_memory + self.free_runs.in_memory
    }

    /// Returns the bytes that are free and not in memory: returned to the system, never written to, or swapped out.
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
            request_bytes: caches.request_bytes(cache),
            size: cache.object_size(),
            ..SizeRow::default()
        });
        let slabs = u64::from(part.slabs);
        row.objects += u64::from(part.objects);
        row.cached += u64::from(part.cached);
        row.room += slabs * u64::from(cache.layout.objects);
        row.slabs += slabs;
        row.bytes += slabs * u64::from(cache.layout.order.pages()) * PAGE_BYTES;
        row.in_memory += u64::from(part.pages_in_memory) * PAGE_BYTES;
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

fn states(memory: &MemoryRow, sizes: &[SizeRow], runs: &[RunRow]) -> States {
    let pages = StateBytes { kept: memory.free(), returned: memory.given_back(), ..StateBytes::default() };
    let pages = StateRow { kind: BlockKind::Pages, size: None, bytes: pages };
    States::sum(sizes.iter().map(size_state).chain(runs.iter().map(run_state)).chain([pages]).collect())
}

/// Returns the memory of a cache's slabs by state. A table does not show which objects are in memory, so live and
/// cached objects count as if they were.
fn size_state(row: &SizeRow) -> StateRow {
    let size = u64::from(row.size);
    let (live, cached) = (row.objects * size, row.cached * size);
    let resident = row.in_memory.max(live + cached);
    let (kept, returned) = (resident - live - cached, row.bytes.saturating_sub(resident));
    let kind = if row.request_bytes.is_some() { BlockKind::Objects } else { BlockKind::Sheaves };
    StateRow { kind, size: Some(size), bytes: StateBytes { live, cached, kept, returned } }
}

fn run_state(row: &RunRow) -> StateRow {
    let bytes = StateBytes { live: row.bytes, cached: row.cached_bytes, ..StateBytes::default() };
    StateRow { kind: BlockKind::Runs, size: Some(row.most_bytes), bytes }
}

fn sum_pages(blocks: &[Block], pages: fn(&Block) -> u32) -> u64 {
    blocks.iter().map(|block| u64::from(pages(block))).sum()
}

/// Returns rows for blocks with no slab page, at most an eighth, at most a half, less than all, and all. Blocks that
/// have neither a slab page nor a page in memory are left out.
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
        let row = by_cache.entry(part.cache).or_insert_with(|| PinRow {
            name: cache.name.as_str().to_owned(),
            request_bytes: caches.request_bytes(cache),
            ..PinRow::default()
        });
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
    let cache = caches.get(part.cache);
    BlockPin {
        name: cache.map_or_else(String::new, |cache| cache.name.as_str().to_owned()),
        request_bytes: cache.and_then(|cache| caches.request_bytes(cache)),
        slabs: part.slabs,
        objects: part.objects,
        cached: part.cached,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_grouped_by_their_slab_pages() {
        let blocks = [(0, 0), (0, 1), (1, 2), (64, 0), (65, 5), (512, 0)]
            .map(|(slab_pages, free_pages_in_memory)| Block { slab_pages, free_pages_in_memory, ..Block::default() });
        let rows = fullness(&blocks);
        let shown: Vec<_> = rows.iter().map(|row| (row.most_pages, row.blocks, row.free_pages)).collect();
        assert_eq!(shown, [(0, 1, 1), (64, 2, 2), (256, 1, 5), (511, 0, 0), (512, 1, 0)]);
    }

    /// The sums must hold for any part that was never written to: a table does not tell whether such an object is in
    /// use.
    #[test]
    fn resident_memory_is_used_idle_or_free() {
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

    /// All memory is in one state, for any part of the slabs that is in memory.
    #[test]
    fn totals_are_sums_and_cover_all_memory() {
        for in_memory in [0, 1000, 4096] {
            let sizes = [SizeRow {
                request_bytes: Some([49, 64]),
                size: 64,
                objects: 10,
                cached: 5,
                bytes: 4096,
                in_memory,
                ..SizeRow::default()
            }];
            let runs = [RunRow { most_bytes: 65_536, runs: 1, bytes: 40_960, cached_bytes: 36_864 }];
            let memory = MemoryRow {
                slabs: Amount { bytes: 4096, in_memory },
                free_pages: Amount { bytes: 8192, in_memory: 4096 },
                runs: Amount { bytes: 40_960, in_memory: 0 },
                cached_runs: Amount { bytes: 36_864, in_memory: 36_864 },
                free_runs: Amount { bytes: 12_288, in_memory: 8192 },
                ..MemoryRow::default()
            };
            let States { total, parts } = states(&memory, &sizes, &runs);
            let StateBytes { live, cached, kept, returned } = total;
            assert_eq!((live, cached), (640 + 40_960, 320 + 36_864));
            assert_eq!(live + cached + kept + returned, 4096 + 8192 + 40_960 + 36_864 + 12_288);
            assert_eq!(kept, in_memory.saturating_sub(960) + 12_288);
            let kinds: Vec<_> = parts.iter().map(|part| (part.kind.name(), part.size)).collect();
            assert_eq!(kinds, [("objects", Some(64)), ("runs", Some(65_536)), ("pages", None)]);
        }
    }
}
