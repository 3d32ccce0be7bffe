//! Measures the speed of converting raw ring pages to rows: `cargo run --profile dist -p freehold-trace --example
//! ring_speed -- [EVENTS PAGES...]`
//!
//! EVENTS is tracefs' `events` folder, and PAGES are files of raw pages, read from `per_cpu/cpuN/trace_pipe_raw` on the
//! same kernel. Without arguments it decodes generated pages, filled with allocations and frees in the layout of Linux
//! 6.18. Uses one thread, and prints the fastest of several rounds.

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use freehold_trace::decode::Decoder;
use freehold_trace::format::EventFormat;
use freehold_trace::gfp::{GfpMap, parse_names};
use freehold_trace::ring::{PageLayout, RingError};

const ROUNDS: usize = 5;
const HEADER_PAGE: &str = include_str!("../tests/fixtures/linux-6.18/header_page");
const ALLOC: &str = include_str!("../tests/fixtures/linux-6.18/mm_page_alloc.format");
const FREE: &str = include_str!("../tests/fixtures/linux-6.18/mm_page_free.format");

/// Subsystems whose events may become rows.
const SYSTEMS: [&str; 6] = ["kmem", "compaction", "vmscan", "huge_memory", "migrate", "vmalloc"];

/// The pages to decode, and their decoder.
struct Work {
    layout: PageLayout,
    decoder: Decoder,
    bytes: Vec<u8>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let work = match arguments.split_first() {
        None => own_pages()?,
        Some((events, pages)) => recorded_pages(Path::new(events), pages)?,
    };
    let mut best = f64::INFINITY;
    let mut counts = (0, 0);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        counts = decode(&work)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    let (events, rows) = counts;
    println!("{events} events in {} bytes, {rows} rows", work.bytes.len());
    println!("{:.1} million events a second", events as f64 / best / 1e6);
    Ok(())
}

/// Decodes all pages. Returns the numbers of events and of rows.
fn decode(work: &Work) -> Result<(u64, u64), RingError> {
    let (mut events, mut rows) = (0, 0);
    for page in work.bytes.chunks(work.layout.page_bytes()) {
        for event in work.layout.page(page)?.events() {
            events += 1;
            rows += u64::from(black_box(work.decoder.decode(&event?, 0)).is_some());
        }
    }
    Ok((events, rows))
}

fn decoder(formats: &[EventFormat]) -> Result<Decoder, Box<dyn Error>> {
    let names = formats.iter().map(|format| parse_names(format.print_format())).find(|names| !names.is_empty());
    let mut decoder = Decoder::new(GfpMap::new(&names.unwrap_or_default()), vec![0, 1, 2, 3, 4, 5]);
    for format in formats {
        decoder.add(format)?;
    }
    Ok(decoder)
}

fn recorded_pages(events: &Path, pages: &[String]) -> Result<Work, Box<dyn Error>> {
    let mut formats = Vec::new();
    for system in SYSTEMS {
        for entry in fs::read_dir(events.join(system))? {
            if let Ok(text) = fs::read_to_string(entry?.path().join("format")) {
                formats.push(EventFormat::parse(&text)?);
            }
        }
    }
    // The kernel returns data only for the first read of this file.
    let mut header = vec![0; 1 << 16];
    let length = File::open(events.join("header_page"))?.read(&mut header)?;
    let layout = PageLayout::parse(str::from_utf8(&header[..length])?)?;
    let mut bytes = Vec::new();
    for path in pages {
        bytes.extend(fs::read(path)?);
    }
    Ok(Work { layout, decoder: decoder(&formats)?, bytes })
}

/// Returns 64 MiB of pages with alternating allocations and frees.
fn own_pages() -> Result<Work, Box<dyn Error>> {
    let layout = PageLayout::parse(HEADER_PAGE)?;
    let formats = [EventFormat::parse(ALLOC)?, EventFormat::parse(FREE)?];
    let mut page = vec![0; 16];
    for format in formats.iter().cycle() {
        let words = if format.name == "mm_page_alloc" { 9 } else { 6 };
        if page.len() + 4 + 4 * words > layout.page_bytes() {
            break;
        }
        page.extend((words as u32 | 300 << 5).to_ne_bytes());
        page.extend(u64::from(format.id).to_ne_bytes());
        page.extend(0x1234_5678_u64.to_ne_bytes());
        page.resize(page.len() + 4 * (words - 4), 0);
    }
    let committed = page.len() as u64 - 16;
    page[8..16].copy_from_slice(&committed.to_ne_bytes());
    page.resize(layout.page_bytes(), 0);
    let bytes = page.repeat((64 << 20) / page.len());
    Ok(Work { layout, decoder: decoder(&formats)?, bytes })
}
