//! `FREEHOLD_OPTIONS=key=value,...`: what a program's user may choose.
//!
//! What is not understood is said once, on standard error, and changes nothing. A program that runs with more rights
//! than its user is not told anything.

use core::ffi::CStr;
use core::fmt::Write;

use super::profile::{Choice, Template};
use crate::os::mmap::HugePages;
use crate::os::platform::StandardError;

/// The variable.
const NAME: &CStr = c"FREEHOLD_OPTIONS";

/// Choices for a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Who gives memory back to the system.
    pub give_back: GiveBack,
    /// Bytes that are kept for later requests when they are free, beside a quarter of what is in use, for long; half as
    /// many more, beside three times what is in use, for the moment.
    pub keep: usize,
    /// Milliseconds after which free memory is not kept any more.
    pub age: u32,
    /// CPUs that have cached objects at a time, at most; one more takes those of another.
    pub cpus: u32,
    /// Whether to ask for huge pages.
    pub huge_pages: HugePages,
    /// How a CPU's objects are taken and left.
    pub sections: Sections,
    /// Whether to look for misuse.
    pub hardened: Hardened,
    /// Whether to say at exit what was used.
    pub stats: Stats,
    /// Whether, how and where to write which calls hold the memory.
    pub profile: Choice,
}

/// Whether to look for misuse of memory: writes beyond a block or after it was given back, frees of what is no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardened {
    /// Where it costs nothing.
    Off,
    /// Wherever it can be found: 16 bytes a block, and time.
    On,
}

/// Who gives memory back to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveBack {
    /// Frees themselves, some of it each.
    Frees,
    /// A thread of the library's own, which starts after the program's first thread ([`helper`](super::helper)); frees
    /// until then, and in programs whose threads the library does not see.
    Helper,
    /// Nobody.
    Never,
}

/// How a CPU's objects are taken and left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sections {
    /// By restartable sequences where the process has them.
    Auto,
    /// Under a lock for each CPU.
    Locks,
}

/// Whether to say at exit what was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats {
    /// No.
    Off,
    /// Yes, in a line on standard error.
    AtExit,
    /// Yes, and of each size.
    OfSizes,
}

/// Bytes to keep for a program that wants nothing given back: more than there are.
pub const KEEP_ALL: usize = usize::MAX / 2;

/// The options of the process; `None` before its first request.
pub fn current() -> Option<Options> {
    super::MALLOC.get().map(|malloc| malloc.options)
}

/// Whether the program runs with more rights than its user has.
pub(super) fn has_more_rights() -> bool {
    // SAFETY: asks for a number alone.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

impl Options {
    /// What holds where nothing is said.
    pub const DEFAULT: Options = Options {
        give_back: GiveBack::Frees,
        keep: 8 << 20,
        age: 2000,
        cpus: 64,
        huge_pages: HugePages::BySystem,
        sections: Sections::Auto,
        hardened: Hardened::Off,
        stats: Stats::Off,
        profile: Choice::NONE,
    };

    /// What is known, for whoever wrote something else.
    pub const KNOWN: &str = "known are return=frees|helper|never, keep=SIZE, age=MILLISECONDS, cpus=NUMBER, \
                             huge-pages=system|wanted, sections=auto|locks, hardened=off|on, stats=off|exit|sizes, \
                             profile=PATH, profile-rate=SIZE, profile-signal=NUMBER";

    /// Whether all of a text is understood.
    ///
    /// # Errors
    /// The first part of it that is not.
    pub fn check(text: &[u8]) -> Result<(), &[u8]> {
        let mut options = Options::DEFAULT;
        options.read(text)
    }

    /// What the environment says.
    pub(super) fn from_environment() -> Options {
        let mut options = Options::DEFAULT;
        if has_more_rights() {
            return options;
        }
        // SAFETY: a name that ends in zero; the value stays while nobody changes the environment, which no other thread
        // does while the first allocation is under way.
        let value = unsafe {
            let value = libc::getenv(NAME.as_ptr());
            if value.is_null() {
                return options;
            }
            CStr::from_ptr(value)
        };
        if let Err(wrong) = options.read(value.to_bytes()) {
            let wrong = core::str::from_utf8(wrong).unwrap_or("something that is no text");
            let _written = writeln!(
                StandardError,
                "freehold: FREEHOLD_OPTIONS: `{wrong}` is not understood and has no effect; {}",
                Options::KNOWN
            );
        }
        options
    }

    /// Reads all that it understands; returns the first that it does not.
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
            (b"age", time) => self.age = u32::try_from(number(time)?).ok()?,
            (b"cpus", count) => self.cpus = u32::try_from(number(count)?).ok().filter(|&count| count > 0)?,
            (b"huge-pages", b"system") => self.huge_pages = HugePages::BySystem,
            (b"huge-pages", b"wanted") => self.huge_pages = HugePages::Wanted,
            (b"sections", b"auto") => self.sections = Sections::Auto,
            (b"sections", b"locks") => self.sections = Sections::Locks,
            (b"hardened", b"off") => self.hardened = Hardened::Off,
            (b"hardened", b"on") => self.hardened = Hardened::On,
            (b"stats", b"off") => self.stats = Stats::Off,
            (b"stats", b"exit") => self.stats = Stats::AtExit,
            (b"stats", b"sizes") => self.stats = Stats::OfSizes,
            (b"profile", path) => self.profile.path = Template::new(path)?,
            (b"profile-rate", size) => self.profile.mean = bytes(size).filter(|&mean| mean > 0)?,
            (b"profile-signal", number) => self.profile.signal = signal(number)?,
            _ => return None,
        }
        Some(())
    }
}

/// A signal, by its number: one that programs can have handlers for.
fn signal(text: &[u8]) -> Option<i32> {
    let signal = i32::try_from(number(text)?).ok()?;
    let is_heard = (1..=64).contains(&signal) && ![libc::SIGKILL, libc::SIGSTOP].contains(&signal);
    is_heard.then_some(signal)
}

fn number(text: &[u8]) -> Option<usize> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Bytes, or KiB, MiB or GiB by a letter.
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
    fn what_is_said_is_set() {
        let text = "return=helper, keep=4M,age=250,cpus=3,huge-pages=wanted,sections=locks,hardened=on,stats=exit,\
                    profile=/var/a=b.%p,profile-rate=4k,profile-signal=12,";
        let wanted = Options {
            give_back: GiveBack::Helper,
            keep: 4 << 20,
            age: 250,
            cpus: 3,
            huge_pages: HugePages::Wanted,
            sections: Sections::Locks,
            hardened: Hardened::On,
            stats: Stats::AtExit,
            profile: Choice { path: Template::new(b"/var/a=b.%p").unwrap(), mean: 4096, signal: 12 },
        };
        assert_eq!(read(text), (wanted, Ok(())));
        assert_eq!(read(""), (Options::DEFAULT, Ok(())));
        assert!(Options::KNOWN.split(['=', ' ']).filter(|word| text.contains(word)).count() >= 9);
    }

    #[test]
    fn what_is_not_understood_changes_nothing_else() {
        for wrong in [
            "keep",
            "keep=",
            "keep=x",
            "keep=1T",
            "keep=99999999999999999G",
            "colour=red",
            "age=-1",
            "cpus=0",
            "profile=",
            "profile-rate=0",
            "profile-signal=9",
            "profile-signal=65",
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
