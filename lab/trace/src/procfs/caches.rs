//! Parser of `/proc/slabinfo`: the slab caches and their contents.
//!
//! No text is an error: lines that cannot be parsed are skipped.

use crate::facts::CacheFacts;

/// Parses the text of `/proc/slabinfo` and returns the caches in its order.
pub fn caches(text: &str) -> Vec<CacheFacts> {
    text.lines().filter_map(cache).collect()
}

/// Parses a line: the name, five numbers, then `tunables` and `slabdata`, each after a colon.
fn cache(line: &str) -> Option<CacheFacts> {
    let mut parts = line.split(" : ");
    let mut words = parts.next()?.split_whitespace();
    let name = words.next()?.to_owned();
    let numbers: Vec<u64> = words.take(5).map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [active, objects, object_size, objects_per_slab, pages_per_slab] = numbers[..] else { return None };
    let data = parts.find_map(|part| part.strip_prefix("slabdata"))?;
    let [_, slabs, _] = data.split_whitespace().collect::<Vec<_>>()[..] else { return None };
    let slabs = slabs.parse().ok()?;
    Some(CacheFacts {
        name,
        active,
        objects,
        object_size: u32::try_from(object_size).ok()?,
        objects_per_slab: u32::try_from(objects_per_slab).ok()?,
        pages_per_slab: u32::try_from(pages_per_slab).ok()?,
        slabs,
        sheaf_capacity: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>
dentry              1230   1260    192   21    1 : tunables    0    0    0 : slabdata     59     60      0
kmalloc-8k            12     16   8192    4    8 : tunables    0    0    0 : slabdata      4      4      0
";

    #[test]
    fn slabinfo_lines_are_parsed_without_headers() {
        let found = caches(TEXT);
        assert_eq!(found.iter().map(|cache| &*cache.name).collect::<Vec<_>>(), ["dentry", "kmalloc-8k"]);
        let dentry = &found[0];
        assert_eq!((dentry.active, dentry.objects, dentry.slabs), (1230, 1260, 60));
        assert_eq!((dentry.object_size, dentry.objects_per_slab, dentry.pages_per_slab), (192, 21, 1));
    }

    #[test]
    fn truncated_slabinfo_lines_are_skipped() {
        let whole = caches(TEXT);
        for end in 0..TEXT.len() {
            let found = caches(&TEXT[..end]);
            assert_eq!(found[..], whole[..found.len()], "{:?}", &TEXT[..end]);
        }
        assert!(caches("dentry 1 2 3 4 : slabdata 1 1 1\n").is_empty());
    }
}
