//! `transparent_hugepage.defrag`: how hard a fault tries for a huge page.
//!
//! The setting decides the flags of a request, together with whether its area was madvised. A fault asks twice where it
//! may wait: first on its own node and without retries, then anywhere. khugepaged has a setting of its own; it asks on
//! one node, too, but with retries. So flags tell the three apart.
//!
//! linux: mm/huge_memory.c:vma_thp_gfp_mask, mm/mempolicy.c:alloc_pages_mpol, mm/khugepaged.c:alloc_charge_folio

use freehold::base::{Gfp, Order};
use freehold_trace::facts::Facts;

use super::DEFRAG;

/// What the setting can be, in the order of [`Defrag`].
pub(crate) const WORDS: [&str; 5] = ["always", "defer", "defer+madvise", "madvise", "never"];

/// What is inferred where the setting changes.
pub(crate) const ASSUMPTION: &str = "Whether a request for a huge page came from a madvised area is not recorded: it did if it could wait for \
    memory where the recorded setting grants that to madvised areas alone; where the recorded setting treats all areas alike, none was \
    madvised. Requests that the other setting would have added are not there: a fault that now may wait asks once.";

/// The setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defrag {
    /// Every fault waits; those of areas that were not madvised do not retry.
    Always,
    /// No fault waits; all wake kswapd.
    Defer,
    /// Madvised areas wait, others wake kswapd.
    DeferOrMadvise,
    /// Madvised areas wait, others do nothing.
    Madvise,
    /// No fault does anything for its huge page.
    Never,
}

const ALL: [Defrag; 5] = [Defrag::Always, Defrag::Defer, Defrag::DeferOrMadvise, Defrag::Madvise, Defrag::Never];

/// Flags that the setting decides.
const WAITING: Gfp = Gfp::DIRECT_RECLAIM.union(Gfp::KSWAPD_RECLAIM);

/// Whether a program asked for huge pages in an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Area {
    Madvised,
    Other,
}

/// The word that is chosen: as the kernel shows it, `always defer [madvise] never`, or as it was set, `madvise`.
pub(crate) fn chosen(facts: &Facts) -> Option<&'static str> {
    let text = facts.settings.get(DEFRAG)?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text.trim(), |(word, _)| word);
    WORDS.into_iter().find(|word| *word == chosen)
}

/// How requests for huge pages are made: as recorded, or under another setting.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HugeRequests {
    /// The recorded setting, and the other one.
    change: Option<(Defrag, Defrag)>,
}

impl HugeRequests {
    /// What changes in them from one machine to the other. Nothing, where either does not say how it is set.
    pub(crate) fn between(recorded: &Facts, facts: &Facts) -> HugeRequests {
        let change = Option::zip(Defrag::from_facts(recorded), Defrag::from_facts(facts));
        HugeRequests { change: change.filter(|(before, after)| before != after) }
    }

    /// The flags of a recorded request, as it is made here.
    #[inline]
    pub(crate) fn adjust(&self, gfp: Gfp, order: Order) -> Gfp {
        match self.change {
            Some((before, after)) if is_fault(gfp, order) => after.flags(gfp, before.area(gfp)),
            _ => gfp,
        }
    }
}

/// Whether these are the flags of a fault that asks for a huge page.
fn is_fault(gfp: Gfp, order: Order) -> bool {
    let light = (Gfp::HIGHUSER_MOVABLE - WAITING) | Gfp::COMP | Gfp::NOMEMALLOC | Gfp::NOWARN;
    order > Order::ZERO && gfp.contains(light) && (!gfp.contains(Gfp::THISNODE) || gfp.contains(Gfp::NORETRY))
}

impl Defrag {
    fn from_facts(facts: &Facts) -> Option<Defrag> {
        let chosen = chosen(facts)?;
        WORDS.iter().position(|word| *word == chosen).map(|at| ALL[at])
    }

    /// The area that a request came from under this setting, as far as its flags tell.
    fn area(self, gfp: Gfp) -> Area {
        let is_madvised = match self {
            Defrag::Madvise | Defrag::DeferOrMadvise => gfp.contains(Gfp::DIRECT_RECLAIM),
            Defrag::Always => !gfp.contains(Gfp::NORETRY),
            Defrag::Defer | Defrag::Never => false,
        };
        if is_madvised { Area::Madvised } else { Area::Other }
    }

    /// The flags of a request from such an area under this setting.
    fn flags(self, gfp: Gfp, area: Area) -> Gfp {
        let bits = match (self, area) {
            (Defrag::Always, Area::Other) => Gfp::DIRECT_RECLAIM | Gfp::NORETRY,
            (Defrag::Always | Defrag::DeferOrMadvise | Defrag::Madvise, Area::Madvised) => Gfp::DIRECT_RECLAIM,
            (Defrag::Defer, _) | (Defrag::DeferOrMadvise, Area::Other) => Gfp::KSWAPD_RECLAIM,
            (Defrag::Madvise, Area::Other) | (Defrag::Never, _) => Gfp::empty(),
        };
        // The first of two requests does not retry, whatever the setting.
        let retry = if gfp.contains(Gfp::THISNODE) { Gfp::empty() } else { Gfp::NORETRY };
        (gfp - (WAITING | retry)) | bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: Order = Order::new(9);
    /// Flags that all have.
    const LIGHT: u32 = 0x1c_20ca;
    const FIRST: u32 = 0x20_0000 | 0x1_0000;

    fn facts_with(text: &str) -> Facts {
        let mut facts = Facts::default();
        facts.settings.insert(DEFRAG.to_owned(), text.to_owned());
        facts
    }

    fn adjusted(recorded: &str, now: &str, bits: u32) -> u32 {
        HugeRequests::between(&facts_with(recorded), &facts_with(now)).adjust(Gfp::from_bits_retain(bits), HUGE).bits()
    }

    #[test]
    fn an_area_keeps_what_its_flags_tell_of_it() {
        let shown = "always defer defer+madvise [madvise] never";
        assert_eq!(adjusted(shown, "always", LIGHT | FIRST), LIGHT | FIRST | 0x400, "not madvised: it waits now");
        assert_eq!(adjusted(shown, "always", LIGHT), LIGHT | 0x1_0400, "and does not retry");
        assert_eq!(adjusted(shown, "always", LIGHT | 0x400), LIGHT | 0x400, "madvised: as before");
        assert_eq!(adjusted(shown, "never", LIGHT | 0x400), LIGHT);
        assert_eq!(adjusted(shown, "never", LIGHT | FIRST | 0x400), LIGHT | FIRST);
        assert_eq!(adjusted(shown, "defer", LIGHT | 0x400), LIGHT | 0x800);
        assert_eq!(adjusted("always", "defer+madvise", LIGHT | 0x400), LIGHT | 0x400);
        assert_eq!(adjusted("always", "defer+madvise", LIGHT | 0x1_0400), LIGHT | 0x800);
        assert_eq!(adjusted("defer", "madvise", LIGHT | 0x800), LIGHT);
    }

    #[test]
    fn others_are_left_alone() {
        let khugepaged = LIGHT | 0x20_0400;
        assert_eq!(adjusted("madvise", "never", khugepaged), khugepaged);
        assert_eq!(adjusted("madvise", "never", 0x10_0cca), 0x10_0cca, "no huge page");
        assert_eq!(adjusted("madvise", "madvise", LIGHT | 0x400), LIGHT | 0x400);
        assert_eq!(adjusted("?", "never", LIGHT | 0x400), LIGHT | 0x400, "nobody knows how it was set");
    }
}
