//! GFP flags by their printed names, joined by `|`, and the name of the set that flags belong to.
//!
//! The kernel prints sets of flags by the name of the set (`GFP_KERNEL`), and the rest one by one; what has no name
//! stands as a number at the end, which is of another numbering in every kernel, and dropped. linux:
//! include/trace/events/mmflags.h:gfpflag_string, include/linux/gfp_types.h

use freehold_trace::GFP_BITS;

const DMA: u32 = 1 << 0;
const HIGHMEM: u32 = 1 << 1;
const DMA32: u32 = 1 << 2;
const MOVABLE: u32 = 1 << 3;
const HIGH: u32 = 1 << 5;
const IO: u32 = 1 << 6;
const FS: u32 = 1 << 7;
const DIRECT_RECLAIM: u32 = 1 << 10;
const KSWAPD_RECLAIM: u32 = 1 << 11;
const NOWARN: u32 = 1 << 13;
const COMP: u32 = 1 << 18;
const NOMEMALLOC: u32 = 1 << 19;
const HARDWALL: u32 = 1 << 20;
const ACCOUNT: u32 = 1 << 22;

const RECLAIM: u32 = DIRECT_RECLAIM | KSWAPD_RECLAIM;
const KERNEL: u32 = RECLAIM | IO | FS;
const HIGHUSER: u32 = KERNEL | HARDWALL | HIGHMEM;
const HUGE: u32 = (HIGHUSER | MOVABLE | COMP | NOMEMALLOC | NOWARN) & !RECLAIM;

/// Sets of flags.
const SETS: [(&str, u32); 16] = [
    ("GFP_TRANSHUGE", HUGE | DIRECT_RECLAIM),
    ("GFP_TRANSHUGE_LIGHT", HUGE),
    ("GFP_HIGHUSER_MOVABLE", HIGHUSER | MOVABLE),
    ("GFP_HIGHUSER", HIGHUSER),
    ("GFP_USER", KERNEL | HARDWALL),
    ("GFP_KERNEL_ACCOUNT", KERNEL | ACCOUNT),
    ("GFP_KERNEL", KERNEL),
    ("GFP_NOFS", RECLAIM | IO),
    ("GFP_ATOMIC", HIGH | KSWAPD_RECLAIM),
    ("GFP_NOIO", RECLAIM),
    // Before 6.8 without __GFP_NOWARN, which decides nothing but what is printed.
    ("GFP_NOWAIT", KSWAPD_RECLAIM | NOWARN),
    ("GFP_DMA", DMA),
    ("GFP_DMA32", DMA32),
    ("__GFP_RECLAIM", RECLAIM),
    ("GFP_TEMPORARY", KERNEL | 1 << 4),
    ("none", 0),
];

/// The flags that these names stand for.
pub(crate) fn flags(text: &[u8]) -> u32 {
    let names = text.split(|byte| *byte == b'|');
    names.map(|name| flag_named(name.trim_ascii()).unwrap_or(0)).fold(0, |sum, flags| sum | flags)
}

/// The name of the largest set that is within these flags.
pub(crate) fn class(flags: u32) -> &'static str {
    let within = SETS.iter().filter(|(_, set)| flags & set == *set && (*set != 0 || flags == 0));
    within.max_by_key(|(_, set)| set.count_ones()).map_or("other flags", |(name, _)| name)
}

fn flag_named(name: &[u8]) -> Option<u32> {
    let found = SETS.iter().chain(&GFP_BITS).find(|(known, _)| known.as_bytes() == name);
    found.map(|(_, flags)| *flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_flags_are_joined() {
        assert_eq!(flags(b"GFP_KERNEL|__GFP_ZERO|__GFP_COMP"), 0xc00 | 0xc0 | 1 << 8 | 1 << 18);
        assert_eq!(flags(b"GFP_HIGHUSER_MOVABLE"), 0xc00 | 0xc0 | 1 << 20 | 1 << 1 | 1 << 3);
        assert_eq!(flags(b"GFP_TRANSHUGE_LIGHT") & RECLAIM, 0);
        assert_eq!(class(flags(b"GFP_KERNEL|__GFP_ZERO")), "GFP_KERNEL");
        assert_eq!(
            (class(flags(b"GFP_TRANSHUGE_LIGHT")), class(0), class(1 << 11)),
            ("GFP_TRANSHUGE_LIGHT", "none", "other flags")
        );
        assert_eq!((flags(b"none"), flags(b"0x4000000"), flags(b"")), (0, 0, 0));
    }
}
