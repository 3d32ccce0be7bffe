//! Heap profiles as text: one line for each sample, followed by the memory mappings.

use std::ops::Range;

/// Start of a profile's first line.
const HEADER: &str = "heap profile:";
/// End of the first line, before the mean distance of samples.
const KIND: &str = "@ heap_v2/";
/// Line before the mappings.
const MAPPINGS: &str = "MAPPED_LIBRARIES:";

/// A sampled profile whose values are not scaled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Mean of the bytes between two samples.
    pub mean: u64,
    /// Samples of blocks in use.
    pub samples: Vec<Sample>,
    /// Mappings of the program and its libraries.
    pub mappings: Vec<Mapping>,
}

/// Blocks of one size and one stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Number of blocks.
    pub count: u64,
    /// Bytes of all blocks.
    pub bytes: u64,
    /// Return addresses, innermost call first.
    pub stack: Vec<u64>,
}

/// A part of a file that is mapped into the address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Addresses of the mapping.
    pub range: Range<u64>,
    /// Offset of the mapping in the file.
    pub offset: u64,
    /// Name of the file.
    pub file: String,
}

/// Reason why a text is not a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The first line is not that of a profile.
    #[error("the first line is not that of a heap profile; use a profile that Freehold wrote")]
    Header,
    /// A line is not a sample.
    #[error("line {line} is not a sample")]
    Sample {
        /// Number of the line, from 1.
        line: usize,
    },
}

impl Profile {
    /// Parses a profile.
    ///
    /// # Errors
    /// If the text is not a profile.
    pub fn parse(text: &str) -> Result<Profile, TextError> {
        let mut lines = text.lines().enumerate();
        let (_, header) = lines.next().ok_or(TextError::Header)?;
        let (_, digits) =
            header.strip_prefix(HEADER).and_then(|rest| rest.split_once(KIND)).ok_or(TextError::Header)?;
        let mean = digits.trim().parse().ok().filter(|&mean| mean > 0).ok_or(TextError::Header)?;
        let mut samples = Vec::new();
        for (index, line) in lines.by_ref().take_while(|(_, line)| *line != MAPPINGS) {
            if !line.is_empty() {
                samples.push(sample(line).ok_or(TextError::Sample { line: index + 1 })?);
            }
        }
        Ok(Profile { mean, samples, mappings: lines.filter_map(|(_, line)| mapping(line)).collect() })
    }
}

/// Parses a line such as `1: 100 [0: 0] @ 0x401136 0x401200`.
fn sample(line: &str) -> Option<Sample> {
    let (numbers, stack) = line.split_once('@')?;
    let (count, bytes) = numbers.split_once('[')?.0.split_once(':')?;
    Some(Sample {
        count: count.trim().parse().ok().filter(|&count| count > 0)?,
        bytes: bytes.trim().parse().ok()?,
        stack: stack.split_whitespace().map(|word| hexadecimal(word.strip_prefix("0x")?)).collect::<Option<_>>()?,
    })
}

/// Parses a line of /proc/PID/maps that is code of a file: addresses, permissions, offset, device, inode and name.
fn mapping(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let [range, permissions, offset, _, _] = std::array::from_fn(|_| {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after.trim_start();
        word
    });
    let (start, end) = range.split_once('-')?;
    let name = rest.trim_end_matches(" (deleted)");
    let is_code = permissions.contains('x') && (name.starts_with('/') || name == "[vdso]");
    let range = hexadecimal(start)?..hexadecimal(end)?;
    is_code.then_some(Mapping { range, offset: hexadecimal(offset)?, file: name.to_owned() })
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_profile_is_parsed() {
        let text = "heap profile: 3: 300 [0: 0] @ heap_v2/4096\n1: 100 [0: 0] @ 0x401136 0x7f0000001200\n\
                    2: 200 [0: 0] @\n\nMAPPED_LIBRARIES:\n\
                    00401000-00402000 r-xp 00001000 fe:01 1234567                            /opt/a b\n\
                    00402000-00403000 r--p 00002000 fe:01 1234567                            /opt/a b\n\
                    7f0000000000-7f0000002000 r-xp 00000000 00:00 0                          [vdso]\n\
                    7f0000003000-7f0000004000 rwxp 00000000 00:00 0\n";
        let profile = Profile::parse(text).unwrap();
        let first = Sample { count: 1, bytes: 100, stack: vec![0x40_1136, 0x7f00_0000_1200] };
        assert_eq!(profile.samples, [first, Sample { count: 2, bytes: 200, stack: Vec::new() }]);
        assert_eq!(profile.mean, 4096);
        let code = Mapping { range: 0x40_1000..0x40_2000, offset: 0x1000, file: "/opt/a b".to_owned() };
        let vdso = Mapping { range: 0x7f00_0000_0000..0x7f00_0000_2000, offset: 0, file: "[vdso]".to_owned() };
        assert_eq!(profile.mappings, [code, vdso]);
    }

    #[test]
    fn invalid_profiles_are_errors() {
        let header = "heap profile: 1: 1 [0: 0] @ heap_v2/4096\n";
        for wrong in ["", "heap_v2/4096\n", "heap profile: 1: 1 [0: 0] @ heap_v2/0", "heap profile: 1: 1 [0: 0] @ heap"]
        {
            assert_eq!(Profile::parse(wrong), Err(TextError::Header), "{wrong}");
        }
        for wrong in ["1: 2", "0: 2 [0: 0] @ 0x1", "1: x [0: 0] @ 0x1", "1: 2 [0: 0] @ 1", "word"] {
            assert_eq!(Profile::parse(&format!("{header}{wrong}\n")), Err(TextError::Sample { line: 2 }), "{wrong}");
        }
    }
}
