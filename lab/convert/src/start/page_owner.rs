//! Reader of a copy of `/sys/kernel/debug/page_owner`: the allocation of each block in use.
//!
//! ```text
//! Page allocated via order 0, mask 0x..(GFP_..), pid 1, tgid 1 (init), ts 5234 ns
//! PFN 0x1000 type Unmovable Block 8 type Unmovable Flags 0x..(slab|..)
//! ```
//!
//! Frames that are not listed are taken to be free. That is too many: pages on per-CPU lists, and pages that the kernel
//! allocated before it kept this list, are not listed either. linux: mm/page_owner.c:print_page_owner

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use freehold_trace::event::{NO_MIGRATETYPE, migratetype};
use freehold_trace::snapshot::flag;
use freehold_trace::state::ALLOCATED;

use super::memory_state::MemoryState;
use crate::error::Error;

const FIRST: &[u8] = b"Page allocated via order ";
/// Largest number of frames: 1 TiB of 4 KiB pages.
const FRAMES_MAX: u64 = 1 << 28;
/// Highest order of a block.
const ORDER_MAX: u8 = 20;

/// Names of flags about the use of a page.
const FLAGS: [(&str, u32); 8] = [
    ("referenced", flag::REFERENCED),
    ("dirty", flag::DIRTY),
    ("lru", flag::LRU),
    ("active", flag::ACTIVE),
    ("slab", flag::SLAB),
    ("writeback", flag::WRITEBACK),
    ("unevictable", flag::UNEVICTABLE),
    ("hwpoison", flag::HWPOISON),
];

/// Returns whether a file begins like such a text.
pub(crate) fn is_page_owner(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    text.starts_with(FIRST)
}

/// Reads a copy.
///
/// # Errors
/// If it cannot be read, no block in it can be parsed, or it names frames above 1 TiB.
pub(crate) fn read(path: &Path) -> Result<MemoryState, Error> {
    let mut file = BufReader::new(File::open(path).map_err(Error::read(path))?);
    let mut known = MemoryState::default();
    let (mut line, mut order) = (Vec::new(), None);
    loop {
        line.clear();
        if file.read_until(b'\n', &mut line).map_err(Error::read(path))? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        if let Some(allocated) = order_in(&text) {
            order = Some(allocated);
        } else if let Some(block) = Block::parse(&text)
            && let Some(order) = order.take()
        {
            if block.pfn >= FRAMES_MAX {
                return Err(Error::Start {
                    path: path.to_path_buf(),
                    reason: "names frames above 1 TiB; give a copy of /proc/kpageflags or a snapshot".to_owned(),
                });
            }
            known.put(&block, order);
        }
    }
    match known.words.is_empty() {
        false => Ok(known),
        true => Err(Error::Start {
            path: path.to_path_buf(),
            reason: "begins as a page_owner text, but no block in it has an order and a PFN".to_owned(),
        }),
    }
}

fn order_in(line: &str) -> Option<u8> {
    let rest = line.strip_prefix("Page allocated via order ")?;
    rest.split(',').next()?.trim().parse().ok().filter(|order| *order <= ORDER_MAX)
}

/// A block in use.
struct Block {
    pfn: u64,
    migratetype: i8,
    word: u32,
}

impl Block {
    /// Parses a line `PFN N type T Block N type T Flags ..`. The second type is that of the pageblock.
    fn parse(line: &str) -> Option<Block> {
        let mut words = line.strip_prefix("PFN ")?.split_ascii_whitespace();
        let pfn = number(words.next()?)?;
        let rest: Vec<&str> = words.collect();
        let name = rest.iter().rposition(|word| *word == "type").and_then(|at| rest.get(at + 1))?;
        let text = line.split_once("Flags").map_or("", |(_, flags)| flags);
        let flags = text.split(['(', '|', ')']).map(str::trim);
        let word =
            flags.filter_map(|flag| FLAGS.iter().find(|(name, _)| *name == flag)).fold(0, |sum, (_, bit)| sum | bit);
        Some(Block { pfn, migratetype: type_of(name), word: word | ALLOCATED })
    }
}

/// Parses a frame number: decimal before about Linux 5.14, hexadecimal since.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn type_of(name: &str) -> i8 {
    match name {
        "Unmovable" => migratetype::UNMOVABLE,
        "Movable" => migratetype::MOVABLE,
        "Reclaimable" => migratetype::RECLAIMABLE,
        "HighAtomic" => migratetype::HIGHATOMIC,
        "CMA" => migratetype::CMA,
        "Isolate" => migratetype::ISOLATE,
        _ => NO_MIGRATETYPE,
    }
}

/// Order of a pageblock, which the text lacks.
const PAGEBLOCK_ORDER: u8 = 9;

impl MemoryState {
    fn put(&mut self, block: &Block, order: u8) {
        let end = (block.pfn + (1 << order)) as usize;
        if self.words.len() < end {
            self.words.resize(end, flag::BUDDY);
        }
        let head = block.pfn as usize;
        self.words[head..end].fill(flag::COMPOUND_TAIL);
        self.words[head] = block.word | if order > 0 { flag::COMPOUND_HEAD } else { 0 };
        let pageblock = head >> PAGEBLOCK_ORDER;
        if self.types.len() <= pageblock {
            self.types.resize(pageblock + 1, NO_MIGRATETYPE);
        }
        self.types[pageblock] = block.migratetype;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_owner_blocks_have_order_and_pageblock_type() {
        for line in [
            "PFN 0x1001 type Unmovable Block 8 type Reclaimable Flags 0x17ffffc0000200(slab|node=0|zone=2)",
            "PFN 4097 type Unmovable Block 8 type Reclaimable Flags 0x17ffffc0000200(slab)",
        ] {
            let block = Block::parse(line).unwrap();
            assert_eq!((block.pfn, block.migratetype), (4097, migratetype::RECLAIMABLE));
            assert_eq!(block.word, flag::SLAB | ALLOCATED);
        }
        assert_eq!(order_in("Page allocated via order 3, mask 0xcc0(GFP_KERNEL), pid 1"), Some(3));
        assert!(order_in("Page allocated via order 99, mask").is_none());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner");
        let text = "Page allocated via order 0, mask 0x0(), pid 1, tgid 1 (x), ts 1 ns\n\
                    PFN 0xffffffffffffffff type Movable Block 0 type Movable Flags 0x0()\n";
        std::fs::write(&path, text).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("above 1 TiB"));
    }
}
