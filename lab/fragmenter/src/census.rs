//! Contents of each pageblock of the machine, read frame by frame in about a second for 24 GiB.
//!
//! Page tables, slabs and compound pages have their own flags. A page in a pipe has none, and neither has a free page
//! on a per-CPU list. These two are distinguished by the control group that a page is charged to: only pages of this
//! process's group count. Without such a group, all of them count.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use freehold_trace::snapshot::flag;

use super::error::Error;
use super::kind::Kind;
use super::page_set::PAGEBLOCK_PAGES;

/// Files of the kernel.
const FLAGS: &str = "/proc/kpageflags";
const GROUPS: &str = "/proc/kpagecgroup";
/// Bytes of a frame's word.
const WORD_BYTES: usize = 8;
/// Pageblocks that are read at once.
const PAGEBLOCKS_AT_ONCE: usize = 64;
/// Kinds whose pages the kernel places.
const ORDERED: [Kind; 4] = [Kind::Pipes, Kind::Sockets, Kind::PageTables, Kind::Slab];
/// Flags that identify the use of a page.
const NAMED: u32 = flag::LRU
    | flag::ANON
    | flag::MMAP
    | flag::HUGE
    | flag::THP
    | flag::HWPOISON
    | flag::OFFLINE
    | flag::RESERVED
    | flag::SLAB
    | flag::PGTABLE;

/// Numbers of pages of a pageblock, by their use. Free pages are not counted, and neither are pages of other control
/// groups without a flag that shows their use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// Page tables of this process's control group.
    tables: u16,
    /// Pages of slabs.
    slabs: u16,
    /// Pages without any flag, of this process's control group.
    plain: u16,
    /// Parts of compound pages without another flag, of this process's control group.
    compound: u16,
    /// All other pages whose flags show their use, including page tables of other control groups.
    others: u16,
}

impl Content {
    fn count(&mut self, flags: u32, is_charged: bool) {
        let class = match () {
            () if flags & (flag::BUDDY | flag::NOPAGE) != 0 => return,
            () if flags & flag::PGTABLE != 0 && is_charged => &mut self.tables,
            () if flags & flag::SLAB != 0 => &mut self.slabs,
            () if flags & NAMED != 0 => &mut self.others,
            () if !is_charged => return,
            () if flags & (flag::COMPOUND_HEAD | flag::COMPOUND_TAIL) != 0 => &mut self.compound,
            () => &mut self.plain,
        };
        *class += 1;
    }

    /// Returns the number of pages that may be of this kind.
    pub(crate) fn pages_of(&self, kind: Kind) -> u16 {
        match kind {
            Kind::Pins | Kind::Movable => self.others,
            Kind::Pipes => self.plain,
            Kind::Sockets => self.compound,
            Kind::PageTables => self.tables,
            Kind::Slab => self.slabs,
        }
    }

    /// Returns by how many pages of this kind the content exceeds an earlier one.
    fn gain(&self, earlier: &Content, kind: Kind) -> u16 {
        self.pages_of(kind).saturating_sub(earlier.pages_of(kind))
    }

    /// Returns whether no page is counted.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Content::default()
    }

    /// Returns whether every page in use could also be a free page on a per-CPU list.
    fn may_be_empty(&self) -> bool {
        Content { plain: 0, ..*self }.is_empty()
    }
}

/// Contents of all pageblocks, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census(Vec<Content>);

impl Census {
    /// Returns the content of a pageblock.
    pub(crate) fn content(&self, pageblock: u64) -> Content {
        self.0.get(pageblock as usize).copied().unwrap_or_default()
    }

    /// Returns the number of pageblocks in the census.
    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns the pageblocks that were empty before and have pages of this kind now, with the number of these pages.
    /// If a pageblock has gained more pages of another kind, it is counted for that kind: a datagram also takes some
    /// slab memory.
    pub(crate) fn gained(&self, before: &Census, kind: Kind) -> impl Iterator<Item = (u64, u16)> {
        (0..self.len()).filter_map(move |number| {
            let (then, now) = (before.content(number), self.content(number));
            let gain = now.gain(&then, kind);
            let is_its = gain > 0 && ORDERED.iter().all(|other| now.gain(&then, *other) <= gain);
            (is_its && then.may_be_empty()).then_some((number, gain))
        })
    }
}

/// Reader of the kernel's files on page frames.
#[derive(Debug)]
pub(crate) struct Reader {
    flags: File,
    /// File of the groups that pages are charged to, and the number of this process's group.
    groups: Option<(File, u64)>,
}

impl Reader {
    /// Opens the kernel's files on page frames.
    pub(crate) fn open() -> Result<Reader, Error> {
        let flags = File::open(FLAGS).map_err(Error::kernel(FLAGS))?;
        let groups = File::open(GROUPS).ok().zip(own_group());
        Ok(Reader { flags, groups })
    }

    /// Returns whether pages without flags can be distinguished from free pages on per-CPU lists.
    pub(crate) fn tells_owners(&self) -> bool {
        self.groups.is_some()
    }

    /// Returns whether this frame is a part of a compound page.
    pub(crate) fn is_compound(&self, frame: u64) -> Result<bool, Error> {
        let mut word = [0; WORD_BYTES];
        self.flags.read_exact_at(&mut word, frame * WORD_BYTES as u64).map_err(Error::kernel(FLAGS))?;
        Ok(flag::from_kernel(u64::from_le_bytes(word)) & (flag::COMPOUND_HEAD | flag::COMPOUND_TAIL) != 0)
    }

    /// Reads all pageblocks.
    pub(crate) fn census(&self) -> Result<Census, Error> {
        let mut flags = vec![0; PAGEBLOCKS_AT_ONCE * PAGEBLOCK_PAGES * WORD_BYTES];
        let mut groups = vec![0; flags.len()];
        let mut census = Census::default();
        loop {
            let offset = census.len() * (PAGEBLOCK_PAGES * WORD_BYTES) as u64;
            let read = read_up_to(&self.flags, &mut flags, offset).map_err(Error::kernel(FLAGS))?;
            if let Some((file, _)) = &self.groups {
                read_up_to(file, &mut groups[..read], offset).map_err(Error::kernel(GROUPS))?;
            }
            let pageblock = PAGEBLOCK_PAGES * WORD_BYTES;
            let pairs = flags[..read].chunks(pageblock).zip(groups[..read].chunks(pageblock));
            census.0.extend(pairs.map(|(flags, groups)| self.content(flags, groups)));
            if read < flags.len() {
                return Ok(census);
            }
        }
    }

    fn content(&self, flags: &[u8], groups: &[u8]) -> Content {
        let own = self.groups.as_ref().map(|(_, own)| *own);
        let ((flag_words, _), (group_words, _)) = (flags.as_chunks::<WORD_BYTES>(), groups.as_chunks::<WORD_BYTES>());
        let mut content = Content::default();
        for (flags, group) in flag_words.iter().zip(group_words) {
            let group = u64::from_le_bytes(*group);
            content.count(flag::from_kernel(u64::from_le_bytes(*flags)), own.is_none_or(|own| own == group));
        }
        content
    }
}

/// Fills the buffer from `offset` on, until the end of the file. Returns the number of bytes.
fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Returns the number of this process's control group for memory; `None` if it is the root, to which no page is
/// charged.
fn own_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let folder = group_folder(&groups)?;
    folder.metadata().ok().map(|metadata| metadata.ino())
}

/// Returns the folder of the group that memory is charged to: that of the memory controller, or of the unified
/// hierarchy.
fn group_folder(groups: &str) -> Option<PathBuf> {
    let controller = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|name| name == "memory").then_some(("/sys/fs/cgroup/memory", path))
    });
    let unified = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let (root, path) = controller.or(unified.map(|path| ("/sys/fs/cgroup", path)))?;
    let relative = path.trim_start_matches('/');
    (!relative.is_empty()).then(|| Path::new(root).join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(pages: &[(u32, bool)]) -> Content {
        let mut content = Content::default();
        pages.iter().for_each(|(flags, is_charged)| content.count(*flags, *is_charged));
        content
    }

    #[test]
    fn pages_are_classified_by_their_flags() {
        let tail = flag::COMPOUND_TAIL;
        let found =
            content(&[(flag::PGTABLE, true), (flag::SLAB | tail, false), (0, true), (tail, true), (flag::LRU, false)]);
        assert_eq!(found, Content { tables: 1, slabs: 1, plain: 1, compound: 1, others: 1 });
    }

    #[test]
    fn free_pages_count_as_empty() {
        assert!(content(&[(flag::BUDDY, true), (0, false), (flag::NOPAGE, false)]).is_empty());
        assert!(!content(&[(flag::PGTABLE, false)]).is_empty(), "others have page tables too");
    }

    #[test]
    fn only_previously_empty_pageblocks_count_as_gained() {
        let pipe = content(&[(0, true)]);
        let before = Census(vec![Content::default(), content(&[(flag::LRU, false)])]);
        let after = Census(vec![pipe, pipe, pipe]);
        assert_eq!(after.gained(&before, Kind::Pipes).collect::<Vec<_>>(), [(0, 1), (2, 1)]);
        assert_eq!(after.gained(&before, Kind::Slab).count(), 0);
        let tail = (flag::COMPOUND_TAIL, true);
        let socket = Census(vec![content(&[tail, tail, (flag::SLAB, false)])]);
        let before = Census::default();
        assert_eq!(socket.gained(&before, Kind::Sockets).collect::<Vec<_>>(), [(0, 2)]);
        assert_eq!(socket.gained(&before, Kind::Slab).count(), 0);
    }

    #[test]
    fn cgroup_folder_belongs_to_the_memory_controller() {
        assert_eq!(group_folder("4:memory:/a/b\n0::/\n"), Some(PathBuf::from("/sys/fs/cgroup/memory/a/b")));
        assert_eq!(group_folder("0::/user.slice\n"), Some(PathBuf::from("/sys/fs/cgroup/user.slice")));
        assert_eq!([group_folder("0::/\n"), group_folder("3:cpu:/x\n")], [None, None]);
    }
}
