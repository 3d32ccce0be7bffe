//! Names of GFP masks.
//!
//! A mask consists of its *class*, the first of Linux's named masks that it contains, and modifiers. Linux tries the
//! named masks in a fixed order, larger ones mostly first. The bits are those of `FORMAT.md`, to which the recorder
//! translates the recorded kernel's bits by name.

use crate::gfp::GFP_BITS;

/// Named masks, in the order in which Linux tries them when it prints a mask. linux:
/// include/trace/events/mmflags.h:show_gfp_flags
const CLASSES: [(u32, &str); 13] = [
    (0x1c_24ca, "GFP_TRANSHUGE"),
    (0x1c_20ca, "GFP_TRANSHUGE_LIGHT"),
    (0x10_0cca, "GFP_HIGHUSER_MOVABLE"),
    (0x10_0cc2, "GFP_HIGHUSER"),
    (0x10_0cc0, "GFP_USER"),
    (0x40_0cc0, "GFP_KERNEL_ACCOUNT"),
    (0xcc0, "GFP_KERNEL"),
    (0xc40, "GFP_NOFS"),
    (0x820, "GFP_ATOMIC"),
    (0xc00, "GFP_NOIO"),
    (0x2800, "GFP_NOWAIT"),
    (0x1, "GFP_DMA"),
    (0x4, "GFP_DMA32"),
];

/// Returns the class of a mask: `GFP_KERNEL`, `GFP_HIGHUSER_MOVABLE`, ...; `other` if the mask contains none.
pub fn class(mask: u32) -> &'static str {
    split(mask).map_or("other", |(_, name)| name)
}

/// Returns the mask as Linux prints it: its class, then the modifiers, joined by `|`.
pub fn name(mask: u32) -> String {
    let (class_bits, class_name) = split(mask).unwrap_or((0, ""));
    let mut parts: Vec<String> = Vec::new();
    if !class_name.is_empty() {
        parts.push(class_name.to_owned());
    }
    let mut rest = mask & !class_bits;
    for (name, bit) in GFP_BITS {
        if rest & bit != 0 {
            parts.push(name.to_owned());
            rest &= !bit;
        }
    }
    if rest != 0 || parts.is_empty() {
        parts.push(format!("{rest:#x}"));
    }
    parts.join("|")
}

fn split(mask: u32) -> Option<(u32, &'static str)> {
    CLASSES.into_iter().find(|(bits, _)| mask & bits == *bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gfp_masks_have_linux_names() {
        assert_eq!(name(0xcc0), "GFP_KERNEL");
        assert_eq!(name(0xdc0), "GFP_KERNEL|__GFP_ZERO");
        assert_eq!(name(0x14_0cca), "GFP_HIGHUSER_MOVABLE|__GFP_COMP");
        assert_eq!(name(0x820 | 0x2000), "GFP_ATOMIC|__GFP_NOWARN");
        assert_eq!(name(0x1c_28ca), "GFP_TRANSHUGE_LIGHT|__GFP_KSWAPD_RECLAIM");
    }

    #[test]
    fn every_gfp_bit_is_named_exactly() {
        assert_eq!(name(0), "0x0");
        assert_eq!(name(0x100), "__GFP_ZERO");
        assert_eq!(name(0x8000_0000), "0x80000000");
        assert_eq!(class(0x100), "other");
        assert_eq!(class(0x1c_24ca), "GFP_TRANSHUGE");
    }
}
