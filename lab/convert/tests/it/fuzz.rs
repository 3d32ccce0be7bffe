//! Fuzz tests with thousands of damaged files. An importer may refuse them with one sentence, but must not panic.
//!
//! A case is a sample with bits flipped, or pieces cut out, doubled or overwritten. Its number is its seed, so that a
//! failure can be repeated. The last test uses a reader with a planted bug to show that the harness finds it.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use freehold_convert::{Import, MachineOverrides};

use crate::common::{import, sample};

const CASES: u64 = 250;

/// Random numbers from a seed. Marsaglia, "Xorshift RNGs", 2003.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// Returns a damaged copy of `whole`.
fn damage(whole: &[u8], seed: u64) -> Vec<u8> {
    let numbers = &mut Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut bytes = whole.to_vec();
    for _ in 0..=numbers.below(3) {
        // A third of the damage is in the first bytes, which contain the locations of all parts.
        let length = bytes.len() as u64;
        let reach = if numbers.below(3) == 0 { length.min(400) } else { length };
        let at = numbers.below(reach) as usize;
        let end = (at + 1 + numbers.below(16) as usize).min(bytes.len());
        match numbers.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at.min(end)..end)),
            2 => bytes[at.min(end)..end].fill(0xff),
            3 => bytes.extend_from_within(at.min(end)..end),
            4 => bytes[at.min(end)..end].fill(numbers.next() as u8),
            _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << numbers.below(8)),
        }
    }
    bytes
}

/// Runs `reader` on damaged copies. Returns the number of accepted copies, or the first case in which the reader
/// panicked.
fn fuzz(whole: &[u8], reader: impl Fn(&[u8]) -> Result<(), String>) -> Result<u64, String> {
    let mut taken = 0;
    for seed in 0..CASES {
        let bytes = damage(whole, seed);
        match catch_unwind(AssertUnwindSafe(|| reader(&bytes))) {
            Err(_) => return Err(format!("case {seed} panics")),
            Ok(Ok(())) => taken += 1,
            Ok(Err(sentence)) if sentence.is_empty() || sentence.contains('\n') => {
                return Err(format!("case {seed} is no sentence: {sentence}"));
            }
            Ok(Err(_)) => {}
        }
    }
    Ok(taken)
}

/// Returns a reader that reads a file until its machine is determined.
fn reader(folder: &Path) -> impl Fn(&[u8]) -> Result<(), String> {
    let (file, out) = (folder.join("damaged"), folder.join("r.parquet"));
    move |bytes| {
        fs::write(&file, bytes).unwrap();
        let import = Import::read(&file, &out, &MachineOverrides::default(), None);
        import.map(drop).map_err(|error| error.to_string())
    }
}

fn fuzz_sample(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(sample(name)).unwrap();
    let read = reader(folder.path());
    read(&whole).unwrap();
    let taken = fuzz(&whole, read).unwrap();
    assert!((1..CASES).contains(&taken), "{name}: some damage is harmless, some is not: {taken}");
}

#[test]
fn damaged_perf_files_are_refused_or_read() {
    ["perf.data", "perf-zstd.data", "perf-pipe.data"].iter().for_each(|name| fuzz_sample(name));
}

#[test]
fn damaged_trace_cmd_files_are_refused_or_read() {
    ["trace-v6.dat", "trace-v7-zstd.dat"].iter().for_each(|name| fuzz_sample(name));
}

#[test]
fn damaged_texts_are_refused_or_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["perf-script.txt", "trace.txt", "trace_pipe.txt"] {
        fuzz(&fs::read(sample(name)).unwrap(), reader(folder.path())).unwrap();
    }
}

#[test]
fn damaged_starts_are_refused_or_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let event = |what: &str| format!("sh-7 [000] d..2. 1.000001: {what} pfn=0x1 order=0\n");
    let text = event("mm_page_alloc: migratetype=1 gfp_flags=GFP_USER") + &event("mm_page_free:");
    fs::write(path("events"), text).unwrap();
    let overrides = MachineOverrides { memory: Some(4 << 20), ..MachineOverrides::default() };
    let owner = "Page allocated via order 2, mask 0xcc0(GFP_USER), pid 1, tgid 1 (init), ts 1 ns\n\
                 PFN 0x10 type Movable Block 0 type Movable Flags 0x8(lru|uptodate)\n";
    let flags: Vec<u8> = (0..1024_u64).flat_map(|pfn| (1_u64 << (5 + pfn % 6)).to_le_bytes()).collect();
    for whole in [owner.repeat(20).into_bytes(), flags] {
        let start = |bytes: &[u8]| {
            fs::write(path("start"), bytes).unwrap();
            let imported = import(&path("events"), &path("r.parquet"), &overrides, Some(&path("start")));
            imported.map(drop).map_err(|error| error.to_string())
        };
        start(&whole).unwrap();
        fuzz(&whole, start).unwrap();
    }
}

#[test]
fn harness_finds_a_planted_panic() {
    // A reader that trusts the number of bytes in the header.
    let planted = |bytes: &[u8]| {
        let size = bytes.get(8..16).and_then(|size| size.try_into().ok()).map_or(0, u64::from_le_bytes) as usize;
        let header = &bytes[..size];
        if header.len() > 16 { Ok(()) } else { Err("short".to_owned()) }
    };
    let error = fuzz(&fs::read(sample("perf.data")).unwrap(), planted).unwrap_err();
    assert!(error.ends_with("panics"), "{error}");
}
