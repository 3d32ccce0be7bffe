//! GFP flags from their printed names, joined by `|`, or from a number, and the name of the set that flags belong to.
//!
//! The kernel prints sets of flags by the name of the set (`GFP_KERNEL`), and the rest one by one. Flags without a name
//! are printed as a number at the end. Tools that print raw values write all flags as one number. linux:
//! include/trace/events/mmflags.h:gfpflag_string, include/linux/gfp_types.h
//!
//! Numbers are those of Linux 5.0 to 7.x, which are all kernels that an import accepts. In these kernels the bits 0 to
//! 22 have one meaning, except bit 9, which is `__GFP_ATOMIC` before 6.3 and unused since. Bits 23 to 28 depend on the
//! kernel's configuration and are for debugging, so they are left out. No kernel has a flag above these.

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
    // Before 6.8 the set lacks __GFP_NOWARN, which only affects printing.
    ("GFP_NOWAIT", KSWAPD_RECLAIM | NOWARN),
    ("GFP_DMA", DMA),
    ("GFP_DMA32", DMA32),
    ("__GFP_RECLAIM", RECLAIM),
    ("GFP_TEMPORARY", KERNEL | 1 << 4),
    ("none", 0),
];

/// Names of flags that [`freehold_trace::GFP_BITS`] lacks and that kernels between 5.0 and 6.3 print. None of them
/// affects how a request is served.
const WITHOUT_BIT: [&str; 3] = ["__GFP_SKIP_KASAN_POISON", "__GFP_SKIP_KASAN_UNPOISON", "__GFP_NOTRACK"];

/// Bits that have one meaning in all supported kernels.
const FIXED_BITS: u64 = (1 << 23) - 1;
/// Bits for which some kernel has a flag.
const KNOWN_BITS: u64 = (1 << 29) - 1;

/// Parses names and numbers of flags; `None` if one of them is not known.
pub(crate) fn flags(text: &[u8]) -> Option<u32> {
    let names = text.split(|byte| *byte == b'|');
    names.map(|name| flag_named(name.trim_ascii())).try_fold(0, |sum, flags| Some(sum | flags?))
}

/// Returns the name of the largest set that these flags contain; `other flags` if they contain none.
pub(crate) fn class(flags: u32) -> &'static str {
    let within = SETS.iter().filter(|(_, set)| flags & set == *set && (*set != 0 || flags == 0));
    within.max_by_key(|(_, set)| set.count_ones()).map_or("other flags", |(name, _)| name)
}

fn flag_named(name: &[u8]) -> Option<u32> {
    if name.first().is_some_and(u8::is_ascii_digit) {
        return number(str::from_utf8(name).ok()?);
    }
    let found = SETS.iter().chain(&GFP_BITS).find(|(known, _)| known.as_bytes() == name);
    let is_without_bit = WITHOUT_BIT.iter().any(|known| known.as_bytes() == name);
    found.map(|(_, flags)| *flags).or(is_without_bit.then_some(0))
}

/// Parses flags given as a number: hexadecimal after `0x`, else decimal.
fn number(text: &str) -> Option<u32> {
    let flags = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    (flags & !KNOWN_BITS == 0).then_some((flags & FIXED_BITS) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_sets_and_flags_are_combined() {
        assert_eq!(flags(b"GFP_KERNEL|__GFP_ZERO|__GFP_COMP"), Some(0xc00 | 0xc0 | 1 << 8 | 1 << 18));
        assert_eq!(flags(b"GFP_HIGHUSER_MOVABLE"), Some(0xc00 | 0xc0 | 1 << 20 | 1 << 1 | 1 << 3));
        let (light, zeroed) = (flags(b"GFP_TRANSHUGE_LIGHT").unwrap(), flags(b"GFP_KERNEL|__GFP_ZERO").unwrap());
        assert_eq!(light & RECLAIM, 0);
        assert_eq!(
            [zeroed, light, 0, 1 << 11].map(class),
            ["GFP_KERNEL", "GFP_TRANSHUGE_LIGHT", "none", "other flags"]
        );
        assert_eq!((flags(b"none"), flags(b"__GFP_SKIP_KASAN_POISON")), (Some(0), Some(0)));
    }

    #[test]
    fn numeric_flags_are_decoded() {
        for (text, expected) in [
            ("0x440dc0", "GFP_KERNEL_ACCOUNT|__GFP_ZERO|__GFP_COMP"),
            ("0x140dca", "GFP_HIGHUSER_MOVABLE|__GFP_ZERO|__GFP_COMP"),
            ("3264", "GFP_KERNEL"),
            ("0", "none"),
            ("GFP_KERNEL|0x2000000", "GFP_KERNEL"),
        ] {
            assert_eq!(flags(text.as_bytes()), flags(expected.as_bytes()), "{text}");
        }
        for text in ["", "0x", "GFP_KERNE", "GFP_KERNEL|", "0x80000000", "-1", "99999999999999999999"] {
            assert_eq!(flags(text.as_bytes()), None, "{text}");
        }
    }
}
