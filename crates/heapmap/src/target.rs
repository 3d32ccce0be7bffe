//! The process that is looked at: its memory as a file, and where in it the malloc's tables are.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use freehold_malloc::process::outline::{Outline, WORDS};
use freehold_malloc::runs::PAGE;
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache};
use procfs::ProcError;
use procfs::process::{MMapPath, MemoryMap, PageInfo, PageMap, Process};

/// The name of the words that say where the tables are.
const OUTLINE: &str = "freehold_outline";

/// Why a process's heap cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum HeapError {
    /// Nobody has that number.
    #[error("there is no process {0}; `pgrep -a NAME` tells numbers")]
    NoProcess(u32),
    /// The kernel does not let it be read.
    #[error(
        "process {0} may not be read: look as root, or as the user whose process it is where \
         `sysctl kernel.yama.ptrace_scope` is 0"
    )]
    Denied(u32),
    /// Its malloc is another.
    #[error("process {pid} ({name}) does not run with Freehold's malloc; start it by `freehold run -- {name}`")]
    Foreign {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// It has asked for no memory so far.
    #[error("process {0} has asked for no memory yet; look again")]
    NoHeap(u32),
    /// Its tables may be others than this program's.
    #[error("process {0} runs with another version of Freehold's malloc; look with the `freehold` that started it")]
    Version(u32),
    /// Something cannot be read that should be there.
    #[error("the heap of process {pid} cannot be read: {why}; if it has not ended, look again")]
    Unreadable {
        /// Its number.
        pid: u32,
        /// What the system says.
        why: String,
    },
}

/// A process, open to be read.
pub struct Target {
    pid: u32,
    process: Process,
    memory: File,
    pages: PageMap,
}

/// Files that were looked at, by device and number: where in each the outline is, if there is one.
#[derive(Debug, Default)]
pub struct Files(HashMap<((i32, i32), u64), Option<u64>>);

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl Target {
    /// Opens a process.
    ///
    /// # Errors
    /// If there is none of this number, or it may not be read.
    pub fn open(pid: u32) -> Result<Target, HeapError> {
        let number = i32::try_from(pid).map_err(|_| HeapError::NoProcess(pid))?;
        let process = Process::new(number).map_err(|error| failure(pid, error))?;
        let opened = process.mem().and_then(|memory| Ok((memory, process.pagemap()?)));
        let (memory, pages) = opened.map_err(|error| match error {
            // It is there, and a thread of the kernel's.
            ProcError::NotFound(_) if process.is_alive() => HeapError::Foreign { pid, name: name_of(&process) },
            error => failure(pid, error),
        })?;
        Ok(Target { pid, process, memory, pages })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its name; `?` if it has ended.
    pub fn name(&self) -> String {
        name_of(&self.process)
    }

    /// Bytes of memory that it has, as the kernel counts them.
    pub fn resident(&self) -> u64 {
        self.process.statm().map_or(0, |sizes| sizes.resident * procfs::page_size())
    }

    /// The numbers of processes that it has started and that are there.
    pub fn children(&self) -> Vec<u32> {
        let tasks = self.process.tasks().into_iter().flatten().flatten();
        tasks.flat_map(|task| task.children().unwrap_or_default()).collect()
    }

    /// The numbers of its threads.
    pub fn threads(&self) -> Vec<u32> {
        let tasks = self.process.tasks().into_iter().flatten().flatten();
        tasks.filter_map(|task| u32::try_from(task.tid).ok()).collect()
    }

    /// Where the tables of its malloc are. What is found out about files is kept in `files`.
    ///
    /// # Errors
    /// If its malloc is another, of another version, or has no heap yet.
    pub fn outline(&self, files: &mut Files) -> Result<Outline, HeapError> {
        let maps = self.process.maps().map_err(|error| failure(self.pid, error))?;
        let mut seen = BTreeSet::new();
        let firsts = maps.iter().filter(|map| map.offset == 0 && seen.insert((map.dev, map.inode)));
        // A program that brings this malloc may be run with it, too: one of the two has the heap.
        let mut found = Err(HeapError::Foreign { pid: self.pid, name: self.name() });
        for map in firsts {
            let place = files.0.entry((map.dev, map.inode)).or_insert_with(|| self.place_of_outline(map));
            let Some(address) = place.map(|place| map.address.0 + place) else { continue };
            let mut words = [0; WORDS];
            self.words(address, &mut words)?;
            match Outline::from_words(words) {
                Some(outline) if outline.version == Outline::VERSION => return Ok(outline),
                Some(_) => found = Err(HeapError::Version(self.pid)),
                None if matches!(found, Err(HeapError::Foreign { .. })) => found = Err(HeapError::NoHeap(self.pid)),
                None => {}
            }
        }
        found
    }

    /// Where in the file that is mapped here the outline is once it is loaded, if it has one.
    fn place_of_outline(&self, map: &MemoryMap) -> Option<u64> {
        let MMapPath::Path(path) = &map.pathname else { return None };
        let cache = ReadCache::new(self.open_mapped(map, path)?);
        let file = object::File::parse(&cache).ok()?;
        let symbols = || file.dynamic_symbols().chain(file.symbols());
        let symbol = symbols().find(|symbol| symbol.is_definition() && symbol.name() == Ok(OUTLINE))?;
        let first = file.segments().find(|segment| segment.file_range().0 == 0)?;
        symbol.address().checked_sub(first.address())
    }

    /// A mapped file, as the process sees it, or by the kernel's own link where it is gone from there.
    fn open_mapped(&self, map: &MemoryMap, path: &Path) -> Option<File> {
        let within = PathBuf::from("root").join(path.strip_prefix("/").ok()?);
        let link = format!("map_files/{:x}-{:x}", map.address.0, map.address.1);
        self.process.open_relative(within).or_else(|_| self.process.open_relative(link)).ok()
    }

    /// Copies bytes of its memory.
    ///
    /// # Errors
    /// If there is no memory at these addresses.
    pub fn bytes(&self, address: u64, to: &mut [u8]) -> Result<(), HeapError> {
        self.memory.read_exact_at(to, address).map_err(|error| self.unreadable(&error))
    }

    /// Copies words of its memory.
    ///
    /// # Errors
    /// As for [`bytes`](Self::bytes).
    pub fn words(&self, address: u64, to: &mut [u64]) -> Result<(), HeapError> {
        let mut bytes = vec![0; size_of_val(to)];
        self.bytes(address, &mut bytes)?;
        let (words, _) = bytes.as_chunks();
        for (word, bytes) in to.iter_mut().zip(words) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Ok(())
    }

    /// A word of its memory.
    ///
    /// # Errors
    /// As for [`bytes`](Self::bytes).
    pub fn word(&self, address: u64) -> Result<u64, HeapError> {
        let mut word = [0];
        self.words(address, &mut word).map(|()| word[0])
    }

    /// For each page of the engine from an address on, whether it has memory, be it swapped out.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn has_memory(&mut self, address: u64, pages: u32) -> Result<Vec<bool>, HeapError> {
        let size = procfs::page_size();
        let index = |address: u64| (address / size) as usize;
        let place = |page: u32| address + u64::from(page) * PAGE as u64;
        let first = index(address);
        let infos = self.pages.get_range_info(first..index(place(pages) - 1) + 1);
        let infos = infos.map_err(|error| failure(self.pid, error))?;
        let has = |info: &PageInfo| match info {
            PageInfo::MemoryPage(flags) => flags.contains(procfs::process::MemoryPageFlags::PRESENT),
            PageInfo::SwapPage(_) => true,
        };
        Ok((0..pages).map(|page| infos.get(index(place(page)) - first).is_some_and(has)).collect())
    }

    /// That what its tables say cannot be.
    pub(crate) fn impossible(&self, why: &str) -> HeapError {
        HeapError::Unreadable { pid: self.pid, why: why.to_owned() }
    }

    fn unreadable(&self, error: &io::Error) -> HeapError {
        match error.kind() {
            io::ErrorKind::PermissionDenied => HeapError::Denied(self.pid),
            io::ErrorKind::UnexpectedEof => HeapError::NoProcess(self.pid),
            _ => HeapError::Unreadable { pid: self.pid, why: error.to_string() },
        }
    }
}

fn name_of(process: &Process) -> String {
    process.stat().map_or_else(|_| "?".to_owned(), |stat| stat.comm)
}

fn failure(pid: u32, error: ProcError) -> HeapError {
    match error {
        ProcError::NotFound(_) => HeapError::NoProcess(pid),
        ProcError::PermissionDenied(_) => HeapError::Denied(pid),
        error => HeapError::Unreadable { pid, why: error.to_string() },
    }
}
