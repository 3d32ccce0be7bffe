//! Options of a process from the environment variable `FREEHOLD_OPTIONS=key=value,...`.
//!
//! The first setting that is not understood is reported once on standard error, and has no effect. A program that runs
//! with elevated privileges ignores the variable and reports nothing.

use core::ffi::CStr;
use core::fmt::Write;

use super::count_file::CountFile;
use super::profile::{Choice, Template};
use crate::os::mmap::HugePages;
use crate::os::platform::StandardError;

/// Name of the environment variable.
const NAME: &CStr = c"FREEHOLD_OPTIONS";

/// Options of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Agent that returns memory to the system.
    pub give_back: GiveBack,
    /// Free bytes that are kept for later requests. In the long run frees keep this many bytes, plus a sixteenth of the
    /// bytes in use; in the short run 1.5 times as many, plus three times the bytes in use. The helper ignores this
    /// number.
    pub keep: usize,
    /// Most bytes of memory that the malloc takes from the system, at least [`LIMIT_MIN`].
    pub limit: Option<usize>,
    /// Milliseconds after which free memory counts as old. The helper returns all old runs, and free blocks of the heap
    /// of any age. Frees return memory beyond the long-term limit after an eighth of this time, a little at a time.
    pub age: u32,
    /// Most CPUs that have cached objects at a time. If another CPU caches objects, those of an inactive CPU are
    /// drained.
    pub cpus: u32,
    /// Advice to the kernel about huge pages.
    pub huge_pages: HugePages,
    /// Implementation of the CPU-local sections.
    pub sections: Sections,
    /// System calls that the malloc makes.
    pub system_calls: SystemCalls,
    /// Whether misuse is detected.
    pub hardened: Hardened,
    /// Statistics that are written at exit.
    pub stats: Stats,
    /// Process whose child writes its line even if it was brief, or 0.
    pub stats_parent: i32,
    /// File that counts the processes without a line.
    pub stats_file: CountFile,
    /// Settings of the heap profiler.
    pub profile: Choice,
}

/// Detection of misuse: writes beyond a block or after its free, and frees of addresses that are not blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardened {
    /// Detection where it costs nothing.
    Off,
    /// Detection wherever possible, at a cost of 16 bytes per block and of time.
    On,
}

/// Agent that returns memory to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveBack {
    /// Each free returns some memory.
    Frees,
    /// A thread of the library, which starts after the program's first thread ([`helper`](super::helper)). Until then
    /// frees return memory, as they do in programs whose threads the library does not see.
    Helper,
    /// Neither frees nor a thread return memory. Memory is still returned if a request would fail otherwise, if the
    /// control group's limit is near after more memory came into use, and by [`trim`](super::stats::trim).
    Never,
}

/// Implementation of the CPU-local sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sections {
    /// Restartable sequences if the process has them, or else locks.
    Auto,
    /// A lock for each CPU.
    Locks,
}

/// System calls that the malloc makes after its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCalls {
    /// All that are useful. Once the program announces a filter of system calls, those of [`Few`](SystemCalls::Few).
    All,
    /// A short list ([`sandbox`](super::sandbox)). The heap has locks.
    Few,
}

/// Statistics that are written at exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats {
    /// None.
    Off,
    /// One line on standard error.
    AtExit,
    /// One line, unless the process was brief ([`Usage::is_brief`](super::usage::Usage::is_brief)).
    OfLong,
    /// One line, and a table by size.
    OfSizes,
}

/// Number of bytes to keep that is never reached, for a program that wants no memory returned.
pub const KEEP_ALL: usize = usize::MAX / 2;

/// Least bytes of a limit: a heap begins with 2 MiB, and a limit should leave room for runs beside them.
pub const LIMIT_MIN: usize = 4 << 20;

/// Returns the options of the process; `None` before its first request, or if no heap could be created.
pub fn current() -> Option<Options> {
    super::MALLOC.get().map(|malloc| malloc.options)
}

/// Returns whether the program runs with more privileges than its user has, for example as a set-user-ID program.
pub(super) fn has_more_rights() -> bool {
    // SAFETY: `getauxval` takes no pointer and returns a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

impl Options {
    /// Options without any setting.
    pub const DEFAULT: Options = Options {
        give_back: GiveBack::Frees,
        keep: 4 << 20,
        limit: None,
        age: 2000,
        cpus: 64,
        huge_pages: HugePages::BySystem,
        sections: Sections::Auto,
        system_calls: SystemCalls::All,
        hardened: Hardened::Off,
        stats: Stats::Off,
        stats_parent: 0,
        stats_file: CountFile::NONE,
        profile: Choice::NONE,
    };

    /// Description of the known settings, which is appended to a report of an unknown one.
    pub const KNOWN: &str = "the options are return=frees|helper|never, keep=SIZE, limit=SIZE (4M or more), \
                             age=MILLISECONDS, cpus=NUMBER, huge-pages=system|wanted, sections=auto|locks, \
                             system-calls=all|few, hardened=off|on, stats=off|exit|long|sizes, \
                             stats-parent=NUMBER, stats-file=PATH, profile=PATH, profile-rate=SIZE, \
                             profile-signal=NUMBER";

    /// Checks that every setting of a text is understood.
    ///
    /// # Errors
    /// The first setting that is not understood.
    pub fn check(text: &[u8]) -> Result<(), &[u8]> {
        let mut options = Options::DEFAULT;
        options.read(text)
    }

    /// Reads the options from the environment.
    pub(super) fn from_environment() -> Options {
        let mut options = Options::DEFAULT;
        if has_more_rights() {
            return options;
        }
        // SAFETY: the name ends in a zero byte. The value is valid until the environment changes, which no other thread
        // does during the first allocation.
        let value = unsafe {
            let value = libc::getenv(NAME.as_ptr());
            if value.is_null() {
                return options;
            }
            CStr::from_ptr(value)
        };
        if let Err(wrong) = options.read(value.to_bytes()) {
            let wrong = core::str::from_utf8(wrong).unwrap_or("text that is not UTF-8");
            let _written = writeln!(
                StandardError,
                "freehold: FREEHOLD_OPTIONS: `{wrong}` is not understood and has no effect; {}",
                Options::KNOWN
            );
        }
        options
    }

    /// Applies all settings that are understood; returns the first one that is not.
    fn read<'t>(&mut self, text: &'t [u8]) -> Result<(), &'t [u8]> {
        let pairs = text.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty());
        let mut wrong = None;
        for pair in pairs {
            if self.set(pair).is_none() {
                wrong = wrong.or(Some(pair));
            }
        }
        wrong.map_or(Ok(()), Err)
    }

    fn set(&mut self, pair: &[u8]) -> Option<()> {
        let at = pair.iter().position(|&byte| byte == b'=')?;
        match (&pair[..at], &pair[at + 1..]) {
            (b"return", b"frees") => self.give_back = GiveBack::Frees,
            (b"return", b"helper") => self.give_back = GiveBack::Helper,
            (b"return", b"never") => self.give_back = GiveBack::Never,
            (b"keep", size) => self.keep = bytes(size)?,
            (b"limit", size) => self.limit = Some(bytes(size).filter(|&limit| limit >= LIMIT_MIN)?),
            (b"age", time) => self.age = u32::try_from(number(time)?).ok()?,
            (b"cpus", count) => self.cpus = u32::try_from(number(count)?).ok().filter(|&count| count > 0)?,
            (b"huge-pages", b"system") => self.huge_pages = HugePages::BySystem,
            (b"huge-pages", b"wanted") => self.huge_pages = HugePages::Wanted,
            (b"sections", b"auto") => self.sections = Sections::Auto,
            (b"sections", b"locks") => self.sections = Sections::Locks,
            (b"system-calls", b"all") => self.system_calls = SystemCalls::All,
            (b"system-calls", b"few") => self.system_calls = SystemCalls::Few,
            (b"hardened", b"off") => self.hardened = Hardened::Off,
            (b"hardened", b"on") => self.hardened = Hardened::On,
            (b"stats", b"off") => self.stats = Stats::Off,
            (b"stats", b"exit") => self.stats = Stats::AtExit,
            (b"stats", b"long") => self.stats = Stats::OfLong,
            (b"stats", b"sizes") => self.stats = Stats::OfSizes,
            (b"stats-parent", process) => self.stats_parent = i32::try_from(number(process)?).ok()?,
            (b"stats-file", path) => self.stats_file = CountFile::new(path)?,
            (b"profile", path) => self.profile.path = Template::new(path)?,
            (b"profile-rate", size) => self.profile.mean = bytes(size).filter(|&mean| mean > 0)?,
            (b"profile-signal", number) => self.profile.signal = signal(number)?,
            _ => return None,
        }
        Some(())
    }
}

/// Parses the number of a signal that a program can handle; returns `None` for any other text.
fn signal(text: &[u8]) -> Option<i32> {
    let signal = i32::try_from(number(text)?).ok()?;
    let is_heard = (1..=64).contains(&signal) && ![libc::SIGKILL, libc::SIGSTOP].contains(&signal);
    is_heard.then_some(signal)
}

fn number(text: &[u8]) -> Option<usize> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses a number of bytes, with an optional letter for KiB, MiB or GiB; returns `None` for any other text or too
/// large a number.
fn bytes(text: &[u8]) -> Option<usize> {
    let (digits, shift) = match text.split_last()? {
        (b'k' | b'K', digits) => (digits, 10),
        (b'm' | b'M', digits) => (digits, 20),
        (b'g' | b'G', digits) => (digits, 30),
        _ => (text, 0),
    };
    number(digits)?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Options, Result<(), &[u8]>) {
        let mut options = Options::DEFAULT;
        let result = options.read(text.as_bytes());
        assert_eq!(Options::check(text.as_bytes()), result);
        (options, result)
    }

    #[test]
    fn options_are_parsed() {
        let text = "return=helper, keep=4M,limit=4M,age=250,cpus=3,huge-pages=wanted,sections=locks,\
                    system-calls=few,\
                    hardened=on,stats=long,\
                    stats-parent=7,stats-file=x,profile=/var/a=b.%p,profile-rate=4k,profile-signal=12,";
        let wanted = Options {
            give_back: GiveBack::Helper,
            keep: 4 << 20,
            limit: Some(4 << 20),
            age: 250,
            cpus: 3,
            huge_pages: HugePages::Wanted,
            sections: Sections::Locks,
            system_calls: SystemCalls::Few,
            hardened: Hardened::On,
            stats: Stats::OfLong,
            stats_parent: 7,
            stats_file: CountFile::new(b"x").unwrap(),
            profile: Choice { path: Template::new(b"/var/a=b.%p").unwrap(), mean: 4096, signal: 12 },
        };
        assert_eq!(read(text), (wanted, Ok(())));
        assert_eq!(read(""), (Options::DEFAULT, Ok(())));
        assert!(Options::KNOWN.split(['=', ' ']).filter(|word| text.contains(word)).count() >= 9);
    }

    #[test]
    fn invalid_option_is_reported_and_others_apply() {
        for wrong in [
            "keep",
            "keep=",
            "keep=x",
            "keep=1T",
            "keep=99999999999999999G",
            "limit=0",
            "limit=x",
            "limit=4095K",
            "colour=red",
            "age=-1",
            "cpus=0",
            "profile=",
            "profile-rate=0",
            "profile-signal=9",
            "profile-signal=65",
            "stats-parent=-1",
            "stats-file=",
            "=",
            "\u{fc}",
        ] {
            let text = ["stats=exit", wrong, "age=7"].join(",");
            let (options, result) = read(&text);
            assert_eq!(result, Err(wrong.as_bytes()));
            assert_eq!(options, Options { stats: Stats::AtExit, age: 7, ..Options::DEFAULT });
        }
    }
}
