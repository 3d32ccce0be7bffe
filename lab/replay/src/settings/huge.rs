//! `transparent_hugepage.defrag`: the effort of a page fault to get a huge page.
//!
//! The setting and the madvise state of the area decide the flags of a request. A fault that may wait makes two
//! requests: the first only on its own node and without retries, the second on any node. khugepaged has its own
//! setting. It also uses one node only, but with retries, so the flags distinguish the three kinds of requests. Reads
//! of the page cache make one request, without these flags.
//!
//! linux: mm/huge_memory.c:vma_thp_gfp_mask, mm/mempolicy.c:alloc_pages_mpol_noprof, mm/khugepaged.c:alloc_charge_folio

use freehold::base::{Gfp, Order};
use freehold_trace::facts::Facts;

use super::super::HUGE;
use super::chosen;
use super::table::{DEFRAG, DEFRAG_WORDS};

/// Assumption that is reported if the setting changes.
pub(crate) const ASSUMPTION: &str = "The recording does not show whether a request for a huge page came from a \
    madvised area. If the recorded setting treats madvised areas differently, the requests that could wait came from \
    them; if it treats all areas alike, no area was madvised. A fault that waits only under the other setting makes its \
    second request too.";

/// The setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defrag {
    /// Every fault waits; faults in areas that were not madvised do not retry.
    Always,
    /// No fault waits; all wake kswapd.
    Defer,
    /// Faults in madvised areas wait, others wake kswapd.
    DeferOrMadvise,
    /// Faults in madvised areas wait, others neither wait nor wake kswapd.
    Madvise,
    /// No fault reclaims, compacts or wakes kswapd for a huge page.
    Never,
}

/// All values, in the order of [`DEFRAG_WORDS`].
const ALL: [Defrag; 5] = [Defrag::Always, Defrag::Defer, Defrag::DeferOrMadvise, Defrag::Madvise, Defrag::Never];

/// Flags that the setting decides.
const WAITING: Gfp = Gfp::DIRECT_RECLAIM.union(Gfp::KSWAPD_RECLAIM);

/// Flags that distinguish the first of two requests from the second.
const FIRST: Gfp = Gfp::THISNODE.union(Gfp::NORETRY);

/// Whether a program requested huge pages for an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Area {
    Madvised,
    Other,
}

/// Translation of requests for huge pages from the recorded setting to another one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HugeRequests {
    /// The recorded setting and the other one, if they differ.
    change: Option<(Defrag, Defrag)>,
    /// The setting of the replay, if it is known.
    now: Option<Defrag>,
}

impl HugeRequests {
    /// Returns the translation from one machine's setting to another's. It changes nothing if either setting is not
    /// known.
    pub(crate) fn between(recorded: &Facts, facts: &Facts) -> HugeRequests {
        let [before, now] = [recorded, facts].map(Defrag::from_facts);
        let change = Option::zip(before, now).filter(|(before, after)| before != after);
        HugeRequests { change, now }
    }

    /// Returns the flags of a recorded request under the new setting.
    #[inline]
    pub(crate) fn adjust(&self, gfp: Gfp, order: Order) -> Gfp {
        match self.change {
            Some((before, after)) if is_fault(gfp, order) => after.flags(gfp, before.area(gfp)),
            _ => gfp,
        }
    }

    /// Returns the flags of the second request that a fault makes after the first was refused: any node, with reclaim.
    /// `gfp` are the recorded flags of the first request, which gives up early and stays on one node. Returns `None`
    /// for all other requests, and for faults that may not wait under the new setting, which make no second request.
    ///
    /// The flags of a first request do not show whether its area was madvised. Under `always` it is taken not to be,
    /// and then the second request does not retry either, unless the recorded setting lets only madvised areas wait.
    /// linux: mm/mempolicy.c:alloc_pages_mpol_noprof, mm/huge_memory.c:vma_thp_gfp_mask
    pub(crate) fn second_request(&self, gfp: Gfp, order: Order) -> Option<Gfp> {
        let first = self.adjust(gfp, order);
        let is_first = order.get() == HUGE && is_fault(gfp, order) && first.contains(FIRST | Gfp::DIRECT_RECLAIM);
        let before = self.change.map_or(self.now, |(before, _)| Some(before));
        let is_madvised = before.is_some_and(|before| before.area(gfp) == Area::Madvised);
        let gives_up_early = self.now == Some(Defrag::Always) && !is_madvised;
        let retry = if gives_up_early { Gfp::NORETRY } else { Gfp::empty() };
        is_first.then_some((first - FIRST) | retry)
    }
}

/// Returns whether these are the flags of a fault that requests a huge page.
fn is_fault(gfp: Gfp, order: Order) -> bool {
    let light = (Gfp::HIGHUSER_MOVABLE - WAITING) | Gfp::COMP | Gfp::NOMEMALLOC | Gfp::NOWARN;
    order > Order::ZERO && gfp.contains(light) && (!gfp.contains(Gfp::THISNODE) || gfp.contains(Gfp::NORETRY))
}

impl Defrag {
    fn from_facts(facts: &Facts) -> Option<Defrag> {
        let chosen = chosen(facts.settings.get(DEFRAG)?);
        DEFRAG_WORDS.iter().position(|word| *word == chosen).map(|at| ALL[at])
    }

    /// Infers the area of a request under this setting, as far as its flags show it.
    fn area(self, gfp: Gfp) -> Area {
        let is_madvised = match self {
            Defrag::Madvise | Defrag::DeferOrMadvise => gfp.contains(Gfp::DIRECT_RECLAIM),
            Defrag::Always => !gfp.contains(Gfp::NORETRY),
            Defrag::Defer | Defrag::Never => false,
        };
        if is_madvised { Area::Madvised } else { Area::Other }
    }

    /// Returns the flags of a request from such an area under this setting.
    fn flags(self, gfp: Gfp, area: Area) -> Gfp {
        let bits = match (self, area) {
            (Defrag::Always, Area::Other) => Gfp::DIRECT_RECLAIM | Gfp::NORETRY,
            (Defrag::Always | Defrag::DeferOrMadvise | Defrag::Madvise, Area::Madvised) => Gfp::DIRECT_RECLAIM,
            (Defrag::Defer, _) | (Defrag::DeferOrMadvise, Area::Other) => Gfp::KSWAPD_RECLAIM,
            (Defrag::Madvise, Area::Other) | (Defrag::Never, _) => Gfp::empty(),
        };
        // The first of two requests does not retry, whatever the setting is.
        let retry = if gfp.contains(Gfp::THISNODE) { Gfp::empty() } else { Gfp::NORETRY };
        (gfp - (WAITING | retry)) | bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: Order = Order::new(9);
    /// Flags that all these requests have.
    const LIGHT: u32 = 0x1c_20ca;
    const FIRST: u32 = 0x21_0000;

    fn facts_with(text: &str) -> Facts {
        let mut facts = Facts::default();
        facts.settings.insert(DEFRAG.to_owned(), text.to_owned());
        facts
    }

    fn adjusted(recorded: &str, now: &str, bits: u32) -> u32 {
        HugeRequests::between(&facts_with(recorded), &facts_with(now)).adjust(Gfp::from_bits_retain(bits), ORDER).bits()
    }

    #[test]
    fn thp_flags_follow_the_setting_and_madvise() {
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

    fn second(recorded: &str, now: &str, bits: u32, order: u8) -> Option<u32> {
        let requests = HugeRequests::between(&facts_with(recorded), &facts_with(now));
        requests.second_request(Gfp::from_bits_retain(bits), Order::new(order)).map(|gfp| gfp.bits())
    }

    #[test]
    fn second_request_may_use_any_node() {
        let waits = LIGHT | FIRST | 0x400;
        assert_eq!(second("madvise", "madvise", waits, 9), Some(LIGHT | 0x400));
        assert_eq!(second("?", "?", waits, 9), Some(LIGHT | 0x400));
        assert_eq!(second("always", "always", waits, 9), Some(LIGHT | 0x1_0400), "not known to be madvised");
        assert_eq!(second("madvise", "always", waits, 9), Some(LIGHT | 0x400), "madvised");
        assert_eq!(second("madvise", "always", LIGHT | FIRST, 9), Some(LIGHT | 0x1_0400), "it waits now");
        assert_eq!(second("madvise", "never", waits, 9), None, "it does not wait now");
    }

    #[test]
    fn other_requests_have_no_second_request() {
        let khugepaged = LIGHT | 0x20_0400;
        let readahead = 0x15_2c4a;
        for (bits, order) in [
            (LIGHT | FIRST, 9),
            (LIGHT | 0x400, 9),
            (LIGHT | 0x1_0400, 9),
            (khugepaged, 9),
            (readahead, 9),
            (LIGHT | FIRST | 0x400, 4),
        ] {
            assert_eq!(second("madvise", "madvise", bits, order), None, "{bits:#x}");
        }
    }

    #[test]
    fn other_requests_keep_their_flags() {
        let khugepaged = LIGHT | 0x20_0400;
        assert_eq!(adjusted("madvise", "never", khugepaged), khugepaged);
        assert_eq!(adjusted("madvise", "never", 0x10_0cca), 0x10_0cca, "no huge page");
        assert_eq!(adjusted("madvise", "madvise", LIGHT | 0x400), LIGHT | 0x400);
        assert_eq!(adjusted("?", "never", LIGHT | 0x400), LIGHT | 0x400, "nobody knows how it was set");
    }
}
