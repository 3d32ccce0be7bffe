//! Measures the speed of an import: `cargo run --profile dist -p freehold-convert --example speed -- perf.data`.
//!
//! The start state is a machine whose memory is all free, since drawing a start state is not part of the import. The
//! time is measured from opening the file until the recording has its name. Events that were passed over do not count.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use freehold_convert::{Import, MachineOverrides, SyntheticStart};
use freehold_trace::facts::ZoneFacts;
use freehold_trace::{Facts, Kind, Row};

/// Returns a machine of this many pageblocks, all of them free.
fn all_free(pageblocks: u64, cpus: u16) -> SyntheticStart {
    let pages = pageblocks << 9;
    let name = "Normal".to_owned();
    let zone = ZoneFacts { name, spanned: pages, present: pages, managed: pages, ..ZoneFacts::default() };
    let facts = Facts { cpus, pageblock_order: 9, page_size: 4096, zones_start: vec![zone], ..Facts::default() };
    let free = Row { order: 9, migratetype: 1, ..Row::new(Kind::StartFree) };
    let rows = (0..pageblocks).map(|block| Row { pfn: block << 9, ..free }).collect();
    SyntheticStart { how: "all free".to_owned(), facts, rows }
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = PathBuf::from(std::env::args_os().nth(1).ok_or("which file?")?);
    let out = file.with_extension("speed.parquet");
    let begin = Instant::now();
    let import = Import::read(&file, &out, &MachineOverrides::default(), None)?;
    let read = begin.elapsed();
    let start = all_free(import.pageblocks(), import.cpus());
    let summary = import.write(&out, Some(start))?;
    let all = begin.elapsed();
    println!(
        "{} events: read in {:.2} s, written after {:.2} s: {:.2} million a second",
        summary.events,
        read.as_secs_f64(),
        all.as_secs_f64(),
        summary.events as f64 / all.as_secs_f64() / 1e6
    );
    std::fs::remove_file(out)?;
    Ok(())
}
