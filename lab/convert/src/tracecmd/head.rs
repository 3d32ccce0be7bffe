//! Contents of a file before its pages.

use crate::bytes::Cursor;
use crate::tracing::Tracing;

/// Numbers of options. trace-cmd: lib/trace-cmd/include/private/trace-cmd-private.h:TRACECMD_OPTION_
mod option {
    pub(super) const CPUSTAT: u16 = 2;
    pub(super) const BUFFER: u16 = 3;
    pub(super) const TRACECLOCK: u16 = 4;
    pub(super) const UNAME: u16 = 5;
    pub(super) const CPUCOUNT: u16 = 8;
    pub(super) const VERSION: u16 = 9;
    pub(super) const TSC2NSEC: u16 = 14;
}

/// Name of the format for users.
pub(crate) const FORMAT: &str = "trace.dat";

/// Location of a CPU's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuData {
    pub cpu: u16,
    pub offset: u64,
    pub size: u64,
}

/// Compression of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Zlib,
    Zstd,
}

/// Unit of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    Nanoseconds,
    /// Ticks of the processor. Nanoseconds are the ticks times the multiplier, shifted right.
    Tsc {
        multiplier: u32,
        shift: u32,
    },
}

impl Clock {
    /// Converts a time of the ring to nanoseconds.
    pub(super) fn nanoseconds(self, time: u64) -> u64 {
        match self {
            Clock::Nanoseconds => time,
            Clock::Tsc { multiplier, shift } => {
                let product = (u128::from(time) * u128::from(multiplier)) >> shift.min(127);
                u64::try_from(product).unwrap_or(u64::MAX)
            }
        }
    }
}

/// All parts of a file except the pages.
#[derive(Debug)]
pub(super) struct Head {
    pub tracing: Tracing,
    pub data: Vec<CpuData>,
    pub packing: Packing,
    pub release: Option<String>,
    pub machine: Option<String>,
    pub cpus: Option<u32>,
    /// Events that were lost, by the kernel's counts for each CPU.
    pub lost: u64,
    /// Events that were read from the rings of all CPUs, by the kernel's counts; 0 if the file has none.
    pub read_events: u64,
    /// Whether the following counts are those of another buffer.
    is_in_other_buffer: bool,
    /// Buffers that are not read, as phrases.
    pub unread: Vec<String>,
    /// Whether the file ends in the middle of a section that is not needed here.
    pub is_cut: bool,
    clock: String,
    tsc: Option<(u32, u32)>,
    pub notes: Vec<String>,
}

impl Head {
    pub(super) fn new(tracing: Tracing) -> Head {
        Head {
            tracing,
            data: Vec::new(),
            packing: Packing::None,
            release: None,
            machine: None,
            cpus: None,
            lost: 0,
            read_events: 0,
            is_in_other_buffer: false,
            unread: Vec::new(),
            is_cut: false,
            clock: String::new(),
            tsc: None,
            notes: Vec::new(),
        }
    }

    /// Handles an option; `None` if it is too short.
    pub(super) fn take(&mut self, id: u16, data: &[u8]) -> Option<()> {
        let cursor = &mut Cursor::new(data);
        match id {
            option::CPUSTAT => self.take_counts(&text(data)),
            option::BUFFER => {
                let _offset = cursor.u64()?;
                self.unread.push(format!("the buffer `{}`", text(cursor.until_zero()?)));
            }
            option::TRACECLOCK => self.clock = chosen(&text(data)),
            option::UNAME => {
                let text = text(data);
                let mut words = text.split_ascii_whitespace().map(str::to_owned);
                self.release = words.nth(2);
                self.machine = words.next_back();
            }
            option::CPUCOUNT => self.cpus = Some(cursor.u32()?),
            option::VERSION => self.notes.push(format!("recorded by trace-cmd {}", text(data).trim())),
            option::TSC2NSEC => self.tsc = Some((cursor.u32()?, cursor.u32()?)),
            _ => {}
        }
        Some(())
    }

    /// Handles the `stats` of a CPU. Those of other buffers follow a line with the buffer's name.
    fn take_counts(&mut self, stats: &str) {
        self.is_in_other_buffer |= stats.trim_start().starts_with("Buffer:");
        if !self.is_in_other_buffer {
            self.lost = self.lost.saturating_add(sum(stats, &["overrun", "commit overrun", "dropped events"]));
            self.read_events = self.read_events.saturating_add(sum(stats, &["read events"]));
        }
    }

    /// Handles a buffer of version 7. The first buffer is used, or the one of the whole machine, which has no name.
    /// Returns `None` if the option is too short.
    pub(super) fn take_buffer(&mut self, data: &[u8]) -> Option<()> {
        let cursor = &mut Cursor::new(data);
        let _section = cursor.u64()?;
        let name = text(cursor.until_zero()?);
        let clock = text(cursor.until_zero()?);
        let _page_size = cursor.u32()?;
        let mut cpus = Vec::new();
        for _ in 0..cursor.u32()? {
            let cpu = u16::try_from(cursor.u32()?).ok()?;
            cpus.push(CpuData { cpu, offset: cursor.u64()?, size: cursor.u64()? });
        }
        if !self.data.is_empty() && !name.is_empty() {
            self.unread.push(format!("the buffer `{name}`"));
            return Some(());
        }
        self.clock = chosen(&clock);
        self.data = cpus;
        Some(())
    }

    /// Returns the unit of times.
    ///
    /// # Errors
    /// Returns the problem as a clause, if the clock does not measure time.
    pub(super) fn clock(&self) -> Result<Clock, String> {
        match (self.clock.as_str(), self.tsc) {
            ("counter" | "uptime", _) => {
                Err(format!("its clock, `{}`, is too coarse; record with -C mono", self.clock))
            }
            ("x86-tsc", Some((multiplier, shift))) => Ok(Clock::Tsc { multiplier, shift }),
            ("x86-tsc", None) => Err("its times are ticks of unknown length; record with -C mono".into()),
            _ => Ok(Clock::Nanoseconds),
        }
    }

    /// Returns whether the clocks of CPUs may differ.
    pub(super) fn has_local_clocks(&self) -> bool {
        self.clock == "local"
    }
}

/// Returns whether an option is a buffer.
pub(super) fn is_buffer(id: u16) -> bool {
    id == option::BUFFER
}

fn text(bytes: &[u8]) -> String {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Returns the chosen clock, which is in brackets if all clocks are listed.
fn chosen(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text.trim(), |(name, _)| name).to_owned()
}

/// Returns the sum of these numbers of a CPU's `stats`.
fn sum(stats: &str, names: &[&str]) -> u64 {
    let lines = stats.lines().filter_map(|line| line.split_once(": "));
    let chosen = lines.filter(|(name, _)| names.contains(&name.trim()));
    chosen.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_describe_the_machine() {
        let mut head = Head::new(Tracing::default());
        head.take(option::UNAME, b"Linux host 6.18.4 x86_64\0").unwrap();
        head.take(option::CPUSTAT, b"CPU: 0\nentries: 5\noverrun: 3\ndropped events: 4\nread events: 9\n\0").unwrap();
        head.take(option::BUFFER, b"\0\0\0\0\0\0\0\0mine\0").unwrap();
        head.take(option::CPUSTAT, b"\nBuffer: mine\n\n\0").unwrap();
        head.take(option::CPUSTAT, b"CPU: 0\noverrun: 300\nread events: 900\n\0").unwrap();
        assert_eq!((head.read_events, &head.unread[..]), (9, &["the buffer `mine`".to_owned()][..]));
        head.take(option::CPUCOUNT, &2_u32.to_ne_bytes()).unwrap();
        head.take(option::TRACECLOCK, b"local global [mono] x86-tsc\n\0").unwrap();
        assert_eq!((head.release.as_deref(), head.machine.as_deref()), (Some("6.18.4"), Some("x86_64")));
        assert_eq!((head.cpus, head.lost, head.clock()), (Some(2), 7, Ok(Clock::Nanoseconds)));
        assert!(head.take(option::CPUCOUNT, b"ab").is_none());
    }

    #[test]
    fn unsupported_clocks_are_errors() {
        for (clock, is_understood) in [("counter", false), ("x86-tsc", false), ("local", true)] {
            let head = Head { clock: clock.to_owned(), ..Head::new(Tracing::default()) };
            assert_eq!(head.clock().is_ok(), is_understood, "{clock}");
        }
        let head = Head { clock: "x86-tsc".to_owned(), tsc: Some((2, 1)), ..Head::new(Tracing::default()) };
        assert_eq!(head.clock().unwrap().nanoseconds(77), 77);
    }
}
