//! Measures the speed of reading a recording, and the size of its events on disk: `cargo run --profile dist -p
//! freehold-trace --example read_speed -- FILE`
//!
//! Reads the whole file several times on one thread, checks every column and touches every row, and prints the fastest
//! time. The bytes of each column come from the file's own metadata.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::time::Instant;

use freehold_trace::Reader;
use parquet::file::reader::{FileReader, SerializedFileReader};

const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("no recording given; usage: read_speed FILE")?;
    let reader = Reader::open(&path)?;
    let rows = reader.row_count() as f64;
    let bytes = std::fs::metadata(&path)?.len() as f64;
    println!("{rows} rows, {bytes} bytes, {:.3} bytes a row", bytes / rows);
    print_columns(&path, rows)?;

    let mut batches_best = f64::INFINITY;
    let mut rows_best = f64::INFINITY;
    for _ in 0..ROUNDS {
        batches_best = batches_best.min(seconds(|| read_batches(&reader))?);
        rows_best = rows_best.min(seconds(|| read_rows(&reader))?);
    }
    println!("by batches: {:.1} million rows a second", rows / batches_best / 1e6);
    println!("row by row: {:.1} million rows a second", rows / rows_best / 1e6);
    Ok(())
}

fn seconds(work: impl FnOnce() -> Result<(), freehold_trace::Error>) -> Result<f64, freehold_trace::Error> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

fn read_batches(reader: &Reader) -> Result<(), freehold_trace::Error> {
    for batch in reader.batches() {
        black_box(batch?);
    }
    Ok(())
}

fn read_rows(reader: &Reader) -> Result<(), freehold_trace::Error> {
    for row in reader.rows() {
        black_box(row?);
    }
    Ok(())
}

fn print_columns(path: &str, rows: f64) -> Result<(), Box<dyn Error>> {
    let file = SerializedFileReader::new(File::open(path)?)?;
    let mut sizes = BTreeMap::new();
    for chunk in file.metadata().row_groups().iter().flat_map(|group| group.columns()) {
        *sizes.entry(chunk.column_path().string()).or_insert(0) += chunk.compressed_size();
    }
    for (column, bytes) in sizes {
        println!("  {column:<12} {:.3}", bytes as f64 / rows);
    }
    Ok(())
}
