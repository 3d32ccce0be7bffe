//! Compares the number of free pages by the rows of a recording with the kernel's own count at every sample: `cargo run
//! --profile dist -p freehold-trace --example free_pages -- FILE...`
//!
//! A start state that takes free pages for allocated ones, or the reverse, causes a constant difference from the start
//! on. A difference at a single sample is caused by pages that the kernel holds for a short time without an event:
//! free-page reporting takes up to 32 blocks at a time.

use std::error::Error;
use std::path::Path;

use freehold_trace::event::NO_PFN;
use freehold_trace::state::fits_percpu_lists;
use freehold_trace::{Facts, Kind, Reader, Row};

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        println!("{path}");
        compare(&Reader::open(Path::new(&path))?)?;
    }
    Ok(())
}

/// Frames that are on the free lists.
#[derive(Default)]
struct FreeLists {
    frames: Vec<bool>,
    pages: u64,
    pageblock_order: u8,
}

impl FreeLists {
    fn apply(&mut self, row: &Row) {
        let is_listed = !fits_percpu_lists(row.order, self.pageblock_order);
        match row.kind {
            Kind::StartFree | Kind::PcpuDrain => self.enter(row),
            Kind::Free if is_listed => self.enter(row),
            Kind::Free => self.leave(row),
            Kind::Alloc | Kind::ZoneLocked | Kind::ExtFrag if row.pfn != NO_PFN => self.leave(row),
            _ => {}
        }
    }

    fn enter(&mut self, row: &Row) {
        self.leave(row);
        self.block(row).fill(true);
        self.pages += 1 << row.order;
    }

    fn leave(&mut self, row: &Row) {
        let block = self.block(row);
        let pages = block.iter().filter(|&&is_free| is_free).count() as u64;
        block.fill(false);
        self.pages -= pages;
    }

    fn block(&mut self, row: &Row) -> &mut [bool] {
        let (first, end) = (row.pfn as usize, row.pfn as usize + (1 << row.order));
        if self.frames.len() < end {
            self.frames.resize(end, false);
        }
        &mut self.frames[first..end]
    }
}

fn compare(reader: &Reader) -> Result<(), Box<dyn Error>> {
    let facts = reader.facts();
    let mut samples = kernel_counts(facts).into_iter().peekable();
    let mut lists = FreeLists { pageblock_order: facts.pageblock_order, ..FreeLists::default() };
    for row in reader.rows() {
        let row = row?;
        let is_event = (row.kind as u8) < Kind::StartFree as u8;
        while let Some((time, kernel)) = samples.next_if(|&(time, _)| is_event && time <= row.time) {
            print(time, lists.pages, kernel);
        }
        lists.apply(&row);
    }
    samples.for_each(|(time, kernel)| print(time, lists.pages, kernel));
    Ok(())
}

/// Returns the times of the samples and the kernel's counts of free pages.
fn kernel_counts(facts: &Facts) -> Vec<(u64, u64)> {
    let Some(at) = facts.vmstat_names.iter().position(|name| name == "nr_free_pages") else { return Vec::new() };
    facts.samples.iter().filter_map(|sample| Some((sample.time, *sample.vmstat.get(at)?))).collect()
}

fn print(time: u64, rows: u64, kernel: u64) {
    let error = rows as f64 / kernel.max(1) as f64 - 1.0;
    println!("{:9.3} s  rows {rows:>10}  kernel {kernel:>10}  {:+.3} %", time as f64 / 1e9, error * 100.0);
}
