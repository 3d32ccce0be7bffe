//! The inspected process: access to its memory, and a search for the malloc's tables in it.
//!
//! All data of the process may be false, and so may its tables. Therefore all address arithmetic is checked, memory is
//! allocated only for data that has been read, and a caller with little time sets a [deadline](Target::set_deadline).
//! The only files that are opened are those of the process in `/proc`.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use freehold_malloc::os::holes::{HOLES_MAX, decode_hole};
use freehold_malloc::process::outline::{MARK, Outline, WORDS};
use freehold_malloc::runs::PAGE;
use procfs::ProcError;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, MemoryPageFlags, PageInfo, PageMap, Process};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// Bytes of a mapping that are searched at a time. `SEARCHED_MAX` bounds the search; data segments are smaller.
const CHUNK: usize = 1 << 18;
const SEARCHED_MAX: u64 = 64 << 20;
/// Flag of kernel threads. linux: include/linux/sched.h:PF_KTHREAD
const PF_KTHREAD: u32 = 0x0020_0000;
/// Name of the command that runs other programs.
const RUNNER: &str = "freehold";

/// Reason why a process's heap cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum HeapError {
    /// There is no process with this ID.
    #[error("there is no process {0}; `pgrep -a NAME` prints process numbers")]
    NoProcess(u32),
    /// The process is a kernel thread.
    #[error("process {0} is a kernel thread, which has no heap; give the number of a program's process")]
    KernelThread(u32),
    /// The process has ended.
    #[error("process {0} has ended, but its parent has not waited for it; give the number of a running process")]
    Ended(u32),
    /// The kernel does not permit reading the process.
    #[error(
        "process {0} cannot be read; run as root (CAP_SYS_PTRACE), or as the user of the process with `sysctl \
         kernel.yama.ptrace_scope` at 0"
    )]
    Denied(u32),
    /// The process uses another malloc.
    #[error("process {pid} ({name}) does not run with Freehold's malloc; start it with `freehold run -- CMD`")]
    Foreign {
        /// Process ID.
        pid: u32,
        /// Name of the process.
        name: String,
    },
    /// The process runs another program, and waits for it.
    #[error("process {pid} waits for the program that it runs; give the number of that process, {child}")]
    Runner {
        /// Process ID.
        pid: u32,
        /// Process ID of that program.
        child: u32,
    },
    /// The process has not requested memory yet.
    #[error("process {0} has not requested memory yet; try again")]
    NoHeap(u32),
    /// The process uses another version of the malloc, whose tables may differ.
    #[error("process {0} runs with another version of Freehold's malloc; use the `freehold` that started it")]
    Version(u32),
    /// The read exceeded its deadline.
    #[error("the heap of process {0} could not be read within the time limit")]
    Late(u32),
    /// Some data that must exist cannot be read.
    #[error("the heap of process {pid} cannot be read: {why}; try again if the process still runs")]
    Unreadable {
        /// Process ID.
        pid: u32,
        /// Error message of the system.
        why: String,
    },
}

/// A process that is open for reading.
pub struct Target {
    pid: u32,
    process: Process,
    memory: File,
    pages: PageMap,
    deadline: Option<Instant>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl Target {
    /// Opens a process.
    ///
    /// # Errors
    /// If there is no process with this ID, or it may not be read.
    pub fn open(pid: u32) -> Result<Target, HeapError> {
        let number = i32::try_from(pid).map_err(|_| HeapError::NoProcess(pid))?;
        let process = Process::new(number).map_err(|error| failure(pid, error))?;
        let stat = process.stat().map_err(|error| failure(pid, error))?;
        if stat.flags & PF_KTHREAD != 0 {
            return Err(HeapError::KernelThread(pid));
        }
        if matches!(stat.state, 'Z' | 'X') {
            return Err(HeapError::Ended(pid));
        }
        let memory = process.mem().map_err(|error| failure(pid, error))?;
        let pages = process.pagemap().map_err(|error| failure(pid, error))?;
        Ok(Target { pid, process, memory, pages, deadline: None })
    }

    /// Sets a time after which reads fail.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
    }

    /// Returns the process ID.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the name of the process; `?` if it has ended.
    pub fn name(&self) -> String {
        self.process.stat().map_or_else(|_| "?".to_owned(), |stat| stat.comm)
    }

    /// Returns the start time of the process in clock ticks since the machine's boot. Together with the process ID it
    /// identifies the process. Returns 0 if the process has ended.
    pub fn started(&self) -> u64 {
        self.process.stat().map_or(0, |stat| stat.starttime)
    }

    /// Returns the resident bytes of the process, as the kernel counts them; 0 if the process has ended.
    pub fn resident(&self) -> u64 {
        self.process.statm().map_or(0, |sizes| sizes.resident.saturating_mul(procfs::page_size()))
    }

    /// Returns the process IDs of its living children.
    pub fn children(&self) -> Vec<u32> {
        let tasks = self.process.tasks().into_iter().flatten().flatten();
        tasks.flat_map(|task| task.children().unwrap_or_default()).collect()
    }

    /// Returns the IDs of its threads.
    pub fn threads(&self) -> Vec<u32> {
        let tasks = self.process.tasks().into_iter().flatten().flatten();
        tasks.filter_map(|task| u32::try_from(task.tid).ok()).collect()
    }

    /// Finds the addresses of its malloc's tables. `fingerprint` is that of the caches that the caller can decode.
    ///
    /// # Errors
    /// If the process uses another malloc or another version of this one, or has no heap yet.
    pub fn outline(&self, fingerprint: u64) -> Result<Outline, HeapError> {
        let maps = self.process.maps().map_err(|error| failure(self.pid, error))?;
        let mut places = 0;
        // A program that contains this malloc may also run with the library preloaded. Only one of the two has a heap.
        for address in maps.iter().filter(|map| is_data(map)).flat_map(|map| self.marks(map)) {
            places += 1;
            let mut words = [0; WORDS];
            if self.words(address, &mut words).is_ok()
                && let Some(outline) = Outline::from_words(address, words)
            {
                return if outline.fingerprint == fingerprint {
                    Ok(outline)
                } else {
                    Err(HeapError::Version(self.pid))
                };
            }
        }
        match self.children().first() {
            Some(&child) if self.name() == RUNNER => Err(HeapError::Runner { pid: self.pid, child }),
            _ if places > 0 => Err(HeapError::NoHeap(self.pid)),
            _ => Err(HeapError::Foreign { pid: self.pid, name: self.name() }),
        }
    }

    /// Returns the addresses in the first [`SEARCHED_MAX`] bytes of a mapping at which the first three words of an
    /// outline are found.
    fn marks(&self, map: &MemoryMap) -> Vec<u64> {
        let (start, map_end) = map.address;
        let end = map_end.min(start.saturating_add(SEARCHED_MAX));
        let mut found = Vec::new();
        let mut words = vec![0; CHUNK / WORD];
        // Consecutive pieces overlap, because a mark may cross the boundary between them.
        for from in (start..end).step_by(CHUNK - MARK.len() * WORD) {
            let count = ((end - from) as usize / WORD).min(words.len());
            if self.words(from, &mut words[..count]).is_ok() {
                let places = (0_u64..).zip(words[..count].windows(MARK.len()));
                found.extend(places.filter(|(_, seen)| **seen == MARK).map(|(place, _)| from + place * WORD as u64));
            }
        }
        found
    }

    /// Copies bytes of the process's memory.
    ///
    /// # Errors
    /// If there is no memory at these addresses, or the deadline has passed.
    pub fn bytes(&self, address: u64, to: &mut [u8]) -> Result<(), HeapError> {
        self.expect_time()?;
        self.memory.read_exact_at(to, address).map_err(|error| self.unreadable(&error))
    }

    /// Copies words of the process's memory.
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

    /// Returns a word of the process's memory.
    ///
    /// # Errors
    /// As for [`bytes`](Self::bytes).
    pub fn word(&self, address: u64) -> Result<u64, HeapError> {
        let mut word = [0];
        self.words(address, &mut word).map(|()| word[0])
    }

    /// Checks a number of pages that a table contains: it cannot exceed the process's address space.
    ///
    /// # Errors
    /// If the number is larger.
    pub(crate) fn pages(&self, said: u64) -> Result<u32, HeapError> {
        let addresses = self.process.statm().map_or(0, |sizes| sizes.size.saturating_mul(procfs::page_size()));
        let pages = u32::try_from(said).ok().filter(|&pages| u64::from(pages) <= addresses / PAGE as u64);
        pages.ok_or_else(|| self.impossible("a count of pages exceeds the size of the address space"))
    }

    /// Returns the holes of a range. The pointer to their words is at an address.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn holes(&self, address: u64) -> Result<Vec<Range<u32>>, HeapError> {
        let (list, mut words) = (self.word(address)?, [0; HOLES_MAX]);
        if list != 0 {
            self.words(list, &mut words)?;
        }
        Ok(words.into_iter().map_while(decode_hole).collect())
    }

    /// Checks the number of the page up to which a range is in use, as [`pages`](Self::pages) does. Pages in holes do
    /// not count.
    ///
    /// # Errors
    /// If the number is larger.
    pub(crate) fn end_page(&self, end: u64, holes: &[Range<u32>]) -> Result<u32, HeapError> {
        let in_holes: u64 = holes.iter().map(|hole| hole.len() as u64).sum();
        self.pages(end.saturating_sub(in_holes))?;
        u32::try_from(end).map_err(|_| self.impossible("a page number does not fit 32 bits"))
    }

    /// Returns the address of an entry of a table.
    ///
    /// # Errors
    /// If the address is out of range.
    pub(crate) fn place(&self, base: u64, index: u64, size: usize) -> Result<u64, HeapError> {
        let offset = index.checked_mul(size as u64);
        // The bound leaves room for a read that starts there.
        let place = offset.and_then(|offset| base.checked_add(offset)).filter(|place| *place < 1 << 63);
        place.ok_or_else(|| self.impossible("an address is outside of the address space"))
    }

    /// Returns for each page of the engine from an address on whether it is in memory.
    ///
    /// # Errors
    /// If the kernel does not provide the information, or the deadline has passed.
    pub fn in_memory(&mut self, address: u64, pages: u32) -> Result<Vec<bool>, HeapError> {
        self.expect_time()?;
        let end = self.place(address, pages.into(), PAGE)?;
        let size = procfs::page_size();
        let first = address / size;
        let infos = self
            .pages
            .get_range_info(first as usize..end.div_ceil(size) as usize)
            .map_err(|error| failure(self.pid, error))?;
        let places = (0..u64::from(pages)).map(|page| (address + page * PAGE as u64) / size - first);
        Ok(places.map(|place| infos.get(place as usize).is_some_and(is_present)).collect())
    }

    /// Returns an error for a table whose contents are impossible.
    pub(crate) fn impossible(&self, why: &str) -> HeapError {
        HeapError::Unreadable { pid: self.pid, why: why.to_owned() }
    }

    fn expect_time(&self) -> Result<(), HeapError> {
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_late { Err(HeapError::Late(self.pid)) } else { Ok(()) }
    }

    fn unreadable(&self, error: &io::Error) -> HeapError {
        match error.kind() {
            io::ErrorKind::PermissionDenied => HeapError::Denied(self.pid),
            io::ErrorKind::UnexpectedEof => HeapError::NoProcess(self.pid),
            _ => self.impossible(&error.to_string()),
        }
    }
}

fn is_present(info: &PageInfo) -> bool {
    matches!(info, PageInfo::MemoryPage(flags) if flags.contains(MemoryPageFlags::PRESENT))
}

/// Returns whether a mapping may be a data segment of a program or library.
fn is_data(map: &MemoryMap) -> bool {
    let wanted = MMPermissions::READ | MMPermissions::WRITE | MMPermissions::PRIVATE;
    matches!(map.pathname, MMapPath::Path(_)) && map.perms.contains(wanted)
}

fn failure(pid: u32, error: ProcError) -> HeapError {
    match error {
        ProcError::NotFound(_) => HeapError::NoProcess(pid),
        ProcError::PermissionDenied(_) => HeapError::Denied(pid),
        error => HeapError::Unreadable { pid, why: error.to_string() },
    }
}
