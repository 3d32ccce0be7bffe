//! File names of profiles, with the process ID and the number of the profile.
//!
//! In a template `%p` is replaced by the process ID, and `%n` by the number of profiles that the process has written
//! before. A template without `%p` yields the same name in every process; therefore a forked child, which inherits the
//! template, appends its process ID.

use core::ffi::CStr;
use core::fmt::{self, Write};

/// Most bytes of a template.
const MOST: usize = 1024;
/// Bytes of a name with its numbers filled in.
const ROOM: usize = MOST + 256;
/// Suffix of a file's name while the file is being written.
const PART: &str = ".part";

/// Template of a file name; empty if there is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Template {
    bytes: [u8; MOST],
    count: usize,
}

impl Template {
    /// No template.
    pub const NONE: Template = Template { bytes: [0; MOST], count: 0 };

    /// Returns a template for a name of 1 to 1024 bytes, or `None` for any other length.
    pub fn new(name: &[u8]) -> Option<Template> {
        let mut template = Template::NONE;
        template.bytes.get_mut(..name.len()).filter(|_| !name.is_empty())?.copy_from_slice(name);
        template.count = name.len();
        Some(template)
    }

    /// Returns whether the template is empty.
    pub fn is_none(&self) -> bool {
        self.count == 0
    }

    fn name(&self) -> &[u8] {
        &self.bytes[..self.count]
    }

    /// Fills in the name of a process's profile.
    pub(super) fn fill(&self, process: Process, number: u32, name: &mut Name) -> fmt::Result {
        let mut rest = self.name();
        let mut names_process = false;
        name.clear();
        while let Some((&byte, after)) = rest.split_first() {
            rest = match (byte, after.first()) {
                (b'%', Some(b'p')) => {
                    names_process = true;
                    write!(name, "{}", process.number())?;
                    &after[1..]
                }
                (b'%', Some(b'n')) => {
                    write!(name, "{number}")?;
                    &after[1..]
                }
                (b'%', Some(b'%')) => {
                    name.push(b"%")?;
                    &after[1..]
                }
                _ => {
                    name.push(&[byte])?;
                    after
                }
            };
        }
        match process {
            Process::Child(number) if !names_process => write!(name, ".{number}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().utf8_chunks().try_for_each(|chunk| f.write_str(chunk.valid()))
    }
}

/// A process ID, and whether the process was forked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Process {
    /// The process that read the options.
    First(i32),
    /// A process that was forked from it.
    Child(i32),
}

impl Process {
    fn number(self) -> i32 {
        match self {
            Process::First(number) | Process::Child(number) => number,
        }
    }
}

/// Name of a file, and its name while it is being written.
#[derive(Debug)]
pub(super) struct Name {
    bytes: [u8; ROOM],
    count: usize,
    part: [u8; ROOM],
}

impl Name {
    pub(super) const fn new() -> Name {
        Name { bytes: [0; ROOM], count: 0, part: [0; ROOM] }
    }

    /// Sets a name that a caller passed.
    pub(super) fn set(&mut self, name: &CStr) -> fmt::Result {
        self.clear();
        self.push(name.to_bytes())
    }

    pub(super) fn whole(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// Returns the name of the file while it is being written.
    pub(super) fn part(&mut self) -> &CStr {
        let end = self.count + PART.len();
        self.part[..self.count].copy_from_slice(&self.bytes[..self.count]);
        self.part[self.count..end].copy_from_slice(PART.as_bytes());
        self.part[end] = 0;
        CStr::from_bytes_until_nul(&self.part).unwrap_or_default()
    }

    fn clear(&mut self) {
        (self.bytes[0], self.count) = (0, 0);
    }

    fn push(&mut self, more: &[u8]) -> fmt::Result {
        let end = self.count + more.len();
        // Both names end in a zero byte, which needs room as well.
        if end + PART.len() >= ROOM {
            return Err(fmt::Error);
        }
        self.bytes[self.count..end].copy_from_slice(more);
        self.bytes[end] = 0;
        self.count = end;
        Ok(())
    }
}

impl Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(template: &str, process: Process) -> Name {
        let mut name = Name::new();
        Template::new(template.as_bytes()).unwrap().fill(process, 3, &mut name).unwrap();
        name
    }

    #[test]
    fn profile_path_placeholders_are_replaced() {
        assert_eq!(fill("/var/a", Process::First(17)).whole(), c"/var/a");
        assert_eq!(fill("/var/a", Process::Child(18)).whole(), c"/var/a.18");
        assert_eq!(fill("a.%p.%n%%%", Process::First(17)).whole(), c"a.17.3%%");
        assert_eq!(fill("a.%p", Process::Child(18)).whole(), c"a.18");
        assert_eq!(fill("%n", Process::Child(18)).part(), c"3.18.part");
    }

    #[test]
    fn profile_path_length_is_limited() {
        assert_eq!(Template::new(b""), None);
        assert_eq!(Template::new(&[b'a'; MOST + 1]), None);
        let mut name = Name::new();
        let template = Template::new(&[b'a'; MOST]).unwrap();
        assert_eq!(template.fill(Process::Child(1), 0, &mut name), Ok(()));
        assert_eq!(name.part().to_bytes().len(), MOST + 2 + PART.len());
        let many = Template::new(&b"%p"[..].repeat(MOST / 2)).unwrap();
        assert_eq!(many.fill(Process::First(1_000_000), 0, &mut name), Err(fmt::Error));
    }
}
