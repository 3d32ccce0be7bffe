//! Sheaves of real kernels, as `/proc/slabinfo` and sysfs show them, beside the engine's rules for the same caches.

use std::path::Path;

use freehold::policy::slab::{SlabSizing, sheaf_capacity};
use freehold_report::number::count;
use freehold_stats::samples::Sample;
use freehold_trace::facts::CacheFacts;
use freehold_trace::recording::Recording;

use super::{SIZE, cell, with_spread};
use crate::error::Error;
use crate::judge::{judge, with_interval};
use crate::lab::{Load, Recordings};
use crate::table::NamedTable;

const WORKLOAD: &str = "slab-churn";
const KERNELS: [&str; 2] = ["6.12", "7.2"];
/// Number of caches in the table.
const SHOWN: usize = 12;

/// Returns the loads that the tables need.
pub(crate) fn loads() -> [Load; 2] {
    KERNELS.map(|kernel| Load::new(&cell(WORKLOAD, kernel)))
}

/// Returns the tables about sheaves, or the reason for which there are none.
///
/// # Errors
/// Returns an error if a recording cannot be read.
pub(crate) fn tables(recorded: &Recordings) -> Result<Result<[NamedTable; 3], String>, Error> {
    let [before, after] = match recorded.find_pair(&loads()) {
        Ok(files) => files,
        Err(reason) => return Ok(Err(reason)),
    };
    let (before, after) = (read_cache_facts(before)?, read_cache_facts(after)?);
    let Some(caches) = after.first().filter(|caches| !caches.is_empty()) else {
        return Ok(Err("the recordings have no slab caches".to_owned()));
    };
    Ok(Ok([totals(&before, &after), layouts(caches), largest(caches)]))
}

/// Reads the caches at the end of each run.
fn read_cache_facts(files: &[impl AsRef<Path>]) -> Result<Vec<Vec<CacheFacts>>, Error> {
    files.iter().map(|file| Ok(Recording::open(file.as_ref())?.reader.facts().caches_end.clone())).collect()
}

/// Figure of a cache that is summed over all caches of a run.
type Total = fn(&CacheFacts) -> u64;

const TOTALS: [(&str, Total); 3] = [
    ("pages in slabs", |cache| cache.slabs * u64::from(cache.pages_per_slab)),
    ("objects in use or held", |cache| cache.active),
    ("objects that slabs have room for", |cache| cache.objects),
];

/// Returns the table of the totals over all caches.
fn totals(before: &[Vec<CacheFacts>], after: &[Vec<CacheFacts>]) -> NamedTable {
    let rows = TOTALS.iter().map(|(name, total)| {
        let judged = judge(name, &sum_each_run(before, *total), &sum_each_run(after, *total), TOTALS.len());
        vec![(*name).to_owned(), with_spread(&judged.a), with_spread(&judged.b), with_interval(&judged)]
    });
    let [before, after] = KERNELS.map(|kernel| format!("Linux {kernel}"));
    NamedTable::new("slabs", ["at the end", &before, &after, "change, and its interval"], rows)
}

/// Returns the total of all caches, run by run.
fn sum_each_run(runs: &[Vec<CacheFacts>], total: Total) -> Sample {
    Sample::new(runs.iter().map(|caches| caches.iter().map(total).sum::<u64>() as f64).collect())
}

/// Returns the engine's layout of a cache with objects of this size on that machine: objects per slab, pages per slab,
/// and objects per sheaf.
fn layout(size: u32) -> Option<(u32, u32, u32)> {
    let order = SlabSizing::linux(u32::from(SIZE.0)).order(size, 4096)?;
    Some(((4096 << order.get()) / size, order.pages(), u32::from(sheaf_capacity(size, None))))
}

fn is_laid_out_alike(cache: &CacheFacts) -> bool {
    layout(cache.object_size)
        .is_some_and(|(objects, pages, _)| (objects, pages) == (cache.objects_per_slab, cache.pages_per_slab))
}

fn has_same_sheaf(cache: &CacheFacts) -> bool {
    layout(cache.object_size).is_some_and(|(.., sheaf)| Some(sheaf) == cache.sheaf_capacity)
}

/// Counts the caches whose slabs and sheaves are the same in the kernel and in the engine.
fn layouts(caches: &[CacheFacts]) -> NamedTable {
    let with_sheaves = || caches.iter().filter(|cache| cache.sheaf_capacity.is_some_and(|room| room > 0));
    let (same_slabs, other_slabs): (Vec<_>, Vec<_>) = caches.iter().partition(|cache| is_laid_out_alike(cache));
    let (same_sheaves, other_sheaves): (Vec<_>, Vec<_>) = with_sheaves().partition(|cache| has_same_sheaf(cache));
    let rows = [
        ("all", caches.len(), String::new()),
        ("with sheaves", with_sheaves().count(), String::new()),
        ("with the same slabs in the engine", same_slabs.len(), String::new()),
        ("with the same sheaves in the engine", same_sheaves.len(), String::new()),
        ("with other slabs in the engine", other_slabs.len(), join_names(&other_slabs)),
        ("with other sheaves in the engine", other_sheaves.len(), join_names(&other_sheaves)),
    ];
    let head = [format!("caches of Linux {}", KERNELS[1]), "count".to_owned(), "names".to_owned()];
    NamedTable::new(
        "layouts",
        head,
        rows.map(|(caches, count, names)| vec![caches.to_owned(), count.to_string(), names]),
    )
}

fn join_names(caches: &[&CacheFacts]) -> String {
    caches.iter().map(|cache| cache.name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Returns the table of the caches with the most pages.
fn largest(caches: &[CacheFacts]) -> NamedTable {
    let mut caches: Vec<&CacheFacts> = caches.iter().collect();
    caches.sort_by_key(|cache| std::cmp::Reverse(cache.slabs * u64::from(cache.pages_per_slab)));
    let rows = caches.into_iter().take(SHOWN).map(|cache| {
        let engine = layout(cache.object_size);
        vec![
            cache.name.clone(),
            cache.object_size.to_string(),
            count(cache.objects),
            format_both(cache.objects_per_slab, engine.map(|(objects, ..)| objects)),
            format_both(cache.pages_per_slab, engine.map(|(_, pages, _)| pages)),
            match cache.sheaf_capacity {
                None | Some(0) => "-".to_owned(),
                Some(room) => format_both(room, engine.map(|(.., sheaf)| sheaf)),
            },
        ]
    });
    let head = [
        "cache",
        "bytes an object",
        "objects",
        "objects in a slab, kernel / engine",
        "pages in a slab, kernel / engine",
        "objects in a sheaf, kernel / engine",
    ];
    NamedTable::new("caches", head, rows)
}

/// Formats the kernel's number and the engine's number.
fn format_both(kernel: u32, engine: Option<u32>) -> String {
    format!("{kernel} / {}", engine.map_or("-".to_owned(), |engine| engine.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(name: &str, size: u32, objects: u32, pages: u32, sheaf: u32) -> CacheFacts {
        CacheFacts {
            name: name.to_owned(),
            object_size: size,
            objects_per_slab: objects,
            pages_per_slab: pages,
            sheaf_capacity: Some(sheaf),
            ..CacheFacts::default()
        }
    }

    #[test]
    fn caches_with_another_layout_are_named() {
        let caches = [cache("dentry", 192, 21, 1, 60), cache("odd", 192, 42, 2, 12), cache("none", 8192, 4, 8, 0)];
        let rows = [
            ["all", "3", ""],
            ["with sheaves", "2", ""],
            ["with the same slabs in the engine", "2", ""],
            ["with the same sheaves in the engine", "1", ""],
            ["with other slabs in the engine", "1", "odd"],
            ["with other sheaves in the engine", "1", "odd"],
        ];
        let expected = NamedTable::new(
            "layouts",
            ["caches of Linux 7.2", "count", "names"],
            rows.map(|row| row.map(str::to_owned).to_vec()),
        );
        assert_eq!(layouts(&caches), expected);
    }
}
