//! How fast a file is imported: `cargo run --profile dist -p freehold-convert --example speed -- perf.data`.
//!
//! The start is a machine whose memory is all free, since drawing one is no part of the exchange. Time is taken from the
//! opening of the file to the recording that has its name; events that were passed over do not count.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use freehold_convert::{Drawn, Incoming, Said};
use freehold_trace::facts::ZoneFacts;
use freehold_trace::{Facts, Kind, Row};

/// A machine of so many pageblocks, all of them free.
fn all_free(pageblocks: u64, cpus: u16) -> Drawn {
    let pages = pageblocks << 9;
    let name = "Normal".to_owned();
    let zone = ZoneFacts { name, spanned: pages, present: pages, managed: pages, ..ZoneFacts::default() };
    let facts = Facts { cpus, pageblock_order: 9, page_size: 4096, zones_start: vec![zone], ..Facts::default() };
    let free = |block: u64| Row { pfn: block << 9, order: 9, migratetype: 1, ..Row::new(Kind::StartFree) };
    Drawn { how: "all free".to_owned(), facts, rows: (0..pageblocks).map(free).collect() }
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = PathBuf::from(std::env::args_os().nth(1).ok_or("which file?")?);
    let out = file.with_extension("speed.parquet");
    let begin = Instant::now();
    let incoming = Incoming::read(&file, &out, &Said::default(), None)?;
    let read = begin.elapsed();
    let drawn = all_free(incoming.pageblocks(), incoming.cpus());
    let imported = incoming.write(&out, Some(drawn))?;
    let all = begin.elapsed();
    println!(
        "{} events: read in {:.2} s, written after {:.2} s: {:.2} million a second",
        imported.events,
        read.as_secs_f64(),
        all.as_secs_f64(),
        imported.events as f64 / all.as_secs_f64() / 1e6
    );
    std::fs::remove_file(out)?;
    Ok(())
}
