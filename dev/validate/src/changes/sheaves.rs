//! Sheaves of real kernels, as `/proc/slabinfo` and sysfs show them, beside the engine's rules for the same caches.

use std::path::Path;

use freehold::policy::slab::{SlabSizing, sheaf_capacity};
use freehold_report::markdown;
use freehold_report::number::count;
use freehold_stats::samples::Sample;
use freehold_trace::facts::CacheFacts;
use freehold_trace::recording::Recording;

use super::{SIZE, cell, recipe, with_spread};
use crate::error::Error;
use crate::judge::{judge, with_interval};
use crate::lab::{Load, Recordings};

const WORKLOAD: &str = "slab-churn";
const KERNELS: [&str; 2] = ["6.12", "7.2"];
/// Number of caches in the table.
const SHOWN: usize = 12;

const ABOUT: &str = "Since 7.0, each CPU keeps arrays of objects for each cache, from any slabs, and nodes keep full \
    and empty arrays. `freehold bench slab` measures the effect on speed. The effect on memory is that arrays keep \
    free objects, which `slabinfo` counts as in use. The capacity of an array follows from the object's size. A \
    recording contains no objects, so the engine replays none here. The section compares the layout of the same caches \
    by the engine's rules.";

/// Returns the loads that the section needs.
pub(crate) fn loads() -> [Load; 2] {
    KERNELS.map(|kernel| Load::new(&cell(WORKLOAD, kernel)))
}

/// Returns the section about sheaves.
///
/// # Errors
/// Returns an error if a recording cannot be read.
pub(crate) fn section(recorded: &Recordings) -> Result<String, Error> {
    let findings = match recorded.find_pair(&loads()) {
        Ok([before, after]) => findings(&read_cache_facts(before)?, &read_cache_facts(after)?),
        Err(sentence) => sentence,
    };
    let recipe = format!("`{}`.", recipe(KERNELS, WORKLOAD));
    Ok(format!("## CPUs keep arrays of objects (7.0)\n\n{ABOUT}\n\n{recipe}\n\n{findings}"))
}

/// Reads the caches at the end of each run.
fn read_cache_facts(files: &[impl AsRef<Path>]) -> Result<Vec<Vec<CacheFacts>>, Error> {
    files.iter().map(|file| Ok(Recording::open(file.as_ref())?.reader.facts().caches_end.clone())).collect()
}

fn findings(before: &[Vec<CacheFacts>], after: &[Vec<CacheFacts>]) -> String {
    let Some(caches) = after.first().filter(|caches| !caches.is_empty()) else {
        return "The recordings show no slab caches.\n".to_owned();
    };
    format!("{}\n\n{}\n\n{}", totals(before, after), in_short(caches), layouts(caches))
}

/// Figure of a cache that is summed over all caches of a run.
type Total = fn(&CacheFacts) -> u64;

const TOTALS: [(&str, Total); 3] = [
    ("pages in slabs", |cache| cache.slabs * u64::from(cache.pages_per_slab)),
    ("objects in use or in sheaves", |cache| cache.active),
    ("objects that slabs can hold", |cache| cache.objects),
];

fn totals(before: &[Vec<CacheFacts>], after: &[Vec<CacheFacts>]) -> String {
    let rows = TOTALS.iter().map(|(name, total)| {
        let judged = judge(name, &sum_each_run(before, *total), &sum_each_run(after, *total), TOTALS.len());
        vec![(*name).to_owned(), with_spread(&judged.a), with_spread(&judged.b), with_interval(&judged)]
    });
    let [before, after] = KERNELS.map(|kernel| format!("Linux {kernel}"));
    markdown::table(&["at the end", &before, &after, "change of Linux, and its interval"], rows)
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

fn in_short(caches: &[CacheFacts]) -> String {
    let with_sheaves: Vec<&CacheFacts> =
        caches.iter().filter(|cache| cache.sheaf_capacity.is_some_and(|room| room > 0)).collect();
    format!(
        "Linux {} has {} caches, {} of them with sheaves. Caches whose slabs have the same size and number of objects \
         in the engine: {}{}. Caches whose sheaves have the same capacity in the engine: {}{}. The largest caches at \
         the end of the first boot:",
        KERNELS[1],
        caches.len(),
        with_sheaves.len(),
        caches.iter().filter(|cache| is_laid_out_alike(cache)).count(),
        format_exceptions(caches.iter().filter(|cache| !is_laid_out_alike(cache))),
        with_sheaves.iter().filter(|cache| has_same_sheaf(cache)).count(),
        format_exceptions(with_sheaves.iter().copied().filter(|cache| !has_same_sheaf(cache))),
    )
}

/// Formats the names of caches in brackets, if there are any.
fn format_exceptions<'c>(caches: impl Iterator<Item = &'c CacheFacts>) -> String {
    let names: Vec<&str> = caches.map(|cache| cache.name.as_str()).collect();
    if names.is_empty() { String::new() } else { format!(" (not {})", names.join(", ")) }
}

fn layouts(caches: &[CacheFacts]) -> String {
    let mut largest: Vec<&CacheFacts> = caches.iter().collect();
    largest.sort_by_key(|cache| std::cmp::Reverse(cache.slabs * u64::from(cache.pages_per_slab)));
    let rows = largest.into_iter().take(SHOWN).map(|cache| {
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
        "bytes per object",
        "objects",
        "objects in a slab, kernel / engine",
        "pages in a slab, kernel / engine",
        "objects in a sheaf, kernel / engine",
    ];
    markdown::table(&head, rows)
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
    fn caches_with_different_layouts_are_listed() {
        let caches = [cache("dentry", 192, 21, 1, 60), cache("odd", 192, 42, 2, 12), cache("none", 8192, 4, 8, 0)];
        let text = in_short(&caches);
        assert!(text.contains("has 3 caches, 2 of them with sheaves"), "{text}");
        assert!(text.contains("same size and number of objects in the engine: 2 (not odd)"), "{text}");
        assert!(text.contains("the same capacity in the engine: 1 (not odd)"), "{text}");
    }
}
