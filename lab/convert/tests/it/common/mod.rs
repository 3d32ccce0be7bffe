//! Samples, and a machine whose memory is all free, so that no test depends on the simulation.

use std::fs;
use std::path::{Path, PathBuf};

use freehold_convert::{Error, Import, ImportSummary, MachineOverrides, SyntheticStart};
use freehold_trace::facts::ZoneFacts;
use freehold_trace::{Facts, Kind, Reader, Row};

/// Returns the path of a file made by a real tool; see tests/samples/README.md.
pub(crate) fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name)
}

/// Returns a machine of this many pageblocks, all of them free.
pub(crate) fn all_free(pageblocks: u64, cpus: u16) -> SyntheticStart {
    let pages = pageblocks << 9;
    let zone = ZoneFacts {
        name: "Normal".to_owned(),
        spanned: pages,
        present: pages,
        managed: pages,
        min: 100,
        low: 200,
        high: 300,
        ..ZoneFacts::default()
    };
    let facts = Facts { cpus, pageblock_order: 9, page_size: 4096, zones_start: vec![zone], ..Facts::default() };
    let free = Row { order: 9, migratetype: 1, ..Row::new(Kind::StartFree) };
    let rows = (0..pageblocks).map(|block| Row { pfn: block << 9, ..free }).collect();
    SyntheticStart { how: "all free".to_owned(), facts, rows }
}

/// Imports a file to `out`, with the start state of that machine if `start` is `None`.
pub(crate) fn import(
    file: &Path,
    out: &Path,
    overrides: &MachineOverrides,
    start: Option<&Path>,
) -> Result<ImportSummary, Error> {
    let incoming = Import::read(file, out, overrides, start)?;
    let drawn = incoming.needs_synthetic_start().then(|| all_free(incoming.pageblocks(), incoming.cpus()));
    incoming.write(out, drawn)
}

/// Returns the events of a recording and its facts, after all checks that a command makes.
pub(crate) fn events(path: &Path) -> (Vec<Row>, Facts) {
    let reader = Reader::open(path).unwrap().admitted().unwrap();
    let rows = reader.rows().map(|row| row.unwrap());
    (rows.filter(|row| (row.kind as u8) < 64).collect(), reader.facts().clone())
}

/// Writes a text and imports it.
pub(crate) fn import_text(folder: &Path, text: &str) -> Result<ImportSummary, Error> {
    let file = folder.join("events.txt");
    fs::write(&file, text).unwrap();
    import(&file, &folder.join("r.parquet"), &MachineOverrides::default(), None)
}
