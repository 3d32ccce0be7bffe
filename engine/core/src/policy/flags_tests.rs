//! Tests of the conversions on every input, against a table that states the rules a second time.
//!
//! The conversions read four of the GFP bits and must ignore all others. The table has a row for each combination of
//! the four. All 2^24 values that Linux numbers the same in every configuration are tested with orders 0 and 1 and one
//! migratetype. All orders and migratetypes, and the eight higher bits, are tested with each combination of the four on
//! backgrounds of other bits. Everything is tested in both defrag modes. Finally, the two alternatives are compared
//! with each other, without the table.
//!
//! Deliberately wrong conversions, down to a single wrong result among 2^24, show that the tests detect errors.

extern crate std;

use core::array;
use core::ops::Range;
use std::format;
use std::string::String;
use std::vec::Vec;

use super::*;

/// GFP bits that matter, by Linux's numbers instead of [`Gfp`]'s names.
const HIGH: u32 = 0x20;
const DIRECT_RECLAIM: u32 = 0x400;
const KSWAPD_RECLAIM: u32 = 0x800;
const NOMEMALLOC: u32 = 0x8_0000;
const MATTER: [u32; 4] = [HIGH, DIRECT_RECLAIM, NOMEMALLOC, KSWAPD_RECLAIM];
/// All values of the bits that do not depend on the kernel's configuration.
const ALL: Range<u32> = 0..1 << 24;

/// Expected flags of the slow path. Rows: combinations of HIGH, DIRECT_RECLAIM and NOMEMALLOC, in binary order.
/// Columns: an ordinary task at order 0 and above, a real-time task at order 0 and above. Letters are those of
/// [`flags_of`].
const SLOW: [[&str; 4]; 8] = [
    // None: the request cannot wait, but may not use the reserve.
    ["C N", "C N", "C N", "C N"],
    // HIGH: the request may use the reserve, and above order 0 the high-atomic reserve.
    ["R N", "R N H", "R N", "R N H"],
    // DIRECT_RECLAIM: the request can wait; only a real-time task may use the reserve.
    ["C", "C", "C R", "C R"],
    // DIRECT_RECLAIM | HIGH
    ["C R", "C R", "C R", "C R"],
    // NOMEMALLOC: not even the part that other requests that cannot wait may use.
    ["C", "C", "C", "C"],
    // NOMEMALLOC | HIGH
    ["R", "R", "R", "R"],
    // NOMEMALLOC | DIRECT_RECLAIM
    ["C", "C", "C R", "C R"],
    // NOMEMALLOC | DIRECT_RECLAIM | HIGH
    ["C R", "C R", "C R", "C R"],
];

fn flags_of(letters: &str) -> AllocFlags {
    letters.split(' ').map(parse_flag).collect()
}

/// Returns the flag of a letter in the table.
fn parse_flag(letter: &str) -> AllocFlags {
    match letter {
        "C" => AllocFlags::CPUSET,
        "N" => AllocFlags::NON_BLOCK,
        "R" => AllocFlags::MIN_RESERVE,
        "H" => AllocFlags::HIGHATOMIC,
        _ => panic!("{letter} stands for no flag"),
    }
}

/// Returns the combination of the bits that matter; bit `n` is the `n`th of [`MATTER`].
fn combination(gfp: u32) -> usize {
    MATTER.into_iter().enumerate().map(|(n, mask)| usize::from(gfp & mask != 0) << n).sum()
}

/// Defrag mode off and on.
const MODES: [DefragMode; 2] = [DefragMode::Off, DefragMode::On];

/// Inputs of a slow conversion besides the GFP flags.
#[derive(Clone, Copy, Debug)]
struct Case {
    order: Order,
    migratetype: MigrateType,
    facts: SlowFacts,
}

impl Case {
    /// Returns all combinations of these orders and migratetypes with each defrag mode and kind of task.
    fn combine(orders: &[Order], migratetypes: &[MigrateType]) -> Vec<Case> {
        let mut cases = Vec::new();
        for &order in orders {
            for &migratetype in migratetypes {
                for defrag_mode in MODES {
                    let facts = [false, true].map(|realtime| SlowFacts { realtime, defrag_mode });
                    cases.extend(facts.map(|facts| Case { order, migratetype, facts }));
                }
            }
        }
        cases
    }

    /// Returns the expected flags for each combination of the bits, by the table.
    fn expected(self) -> [AllocFlags; 16] {
        let column = usize::from(self.facts.realtime) * 2 + usize::from(self.order.get() > 0);
        let spared =
            if self.facts.defrag_mode == DefragMode::On { AllocFlags::NOFRAGMENT } else { AllocFlags::empty() };
        array::from_fn(|combination| {
            flags_of(SLOW[combination % 8][column]) | more(combination, self.migratetype) | spared
        })
    }
}

/// Returns the flags outside the table: KSWAPD by the fourth bit, CMA by the migratetype.
fn more(combination: usize, migratetype: MigrateType) -> AllocFlags {
    let kswapd = if combination >= 8 { AllocFlags::KSWAPD } else { AllocFlags::empty() };
    let cma = if matches!(migratetype, MigrateType::Movable) { AllocFlags::CMA } else { AllocFlags::empty() };
    kswapd | cma
}

/// Returns a message for the first of `gfps` for which `convert` differs from the `expected` flags of its combination.
fn first_wrong(
    gfps: impl Iterator<Item = u32>,
    expected: [AllocFlags; 16],
    convert: impl Fn(Gfp) -> AllocFlags,
) -> Option<String> {
    let mut wrong = gfps.map(|gfp| (gfp, convert(Gfp::from_bits_retain(gfp)), expected[combination(gfp)]));
    let (gfp, given, expected) = wrong.find(|(_, given, expected)| given != expected)?;
    Some(format!("{gfp:#x} gives {given:?} and not {expected:?}"))
}

/// A conversion of GFP flags for the slow path.
type Slow = fn(Gfp, Order, MigrateType, SlowFacts) -> AllocFlags;

/// Returns a message for the first wrong result for `gfps` in any of `cases`.
fn first_wrong_slow<I: Iterator<Item = u32>>(convert: Slow, cases: &[Case], gfps: impl Fn() -> I) -> Option<String> {
    cases.iter().find_map(|case| {
        let wrong = first_wrong(gfps(), case.expected(), |gfp| convert(gfp, case.order, case.migratetype, case.facts))?;
        Some(format!("{case:?}: {wrong}"))
    })
}

/// Returns the bits of one combination.
fn bits_of(combination: u32) -> u32 {
    (0..4).filter(|bit| combination >> bit & 1 == 1).map(|bit| MATTER[bit as usize]).sum()
}

/// Returns backgrounds of the bits that do not matter: none, each bit alone, and all.
fn backgrounds() -> impl Iterator<Item = u32> {
    (0..32).map(|bit| 1 << bit).chain([0, u32::MAX]).map(|bits: u32| bits & !bits_of(0xf))
}

/// Returns each combination of the bits that matter on each background.
fn before_backgrounds() -> impl Iterator<Item = u32> {
    (0..16).flat_map(|n| backgrounds().map(move |background| background | bits_of(n)))
}

/// Returns orders on both sides of the only limit between orders, with one migratetype.
fn representatives() -> Vec<Case> {
    Case::combine(&[Order::ZERO, Order::new(1)], &[MigrateType::Movable])
}

fn every_case() -> Vec<Case> {
    let orders: Vec<_> = Order::all().collect();
    Case::combine(&orders, &MigrateType::ALL)
}

#[test]
fn slow_coupled_matches_the_table_for_every_gfp_value() {
    assert_eq!(first_wrong_slow(slow_coupled, &representatives(), || ALL), None);
}

#[test]
fn slow_plain_matches_the_table_for_every_gfp_value() {
    assert_eq!(first_wrong_slow(slow_plain, &representatives(), || ALL), None);
}

#[test]
fn slow_conversions_match_the_table_in_every_case() {
    for convert in [slow_coupled, slow_plain] {
        assert_eq!(first_wrong_slow(convert, &every_case(), before_backgrounds), None);
    }
}

/// All inputs of the no-fragment conversion, and the expected flag of each.
const OTHER_ZONE: [(NoFragmentFacts, AllocFlags); 4] = [
    (NoFragmentFacts { has_other_zone: false, defrag_mode: DefragMode::Off }, AllocFlags::empty()),
    (NoFragmentFacts { has_other_zone: true, defrag_mode: DefragMode::Off }, AllocFlags::NOFRAGMENT),
    (NoFragmentFacts { has_other_zone: false, defrag_mode: DefragMode::On }, AllocFlags::NOFRAGMENT),
    (NoFragmentFacts { has_other_zone: true, defrag_mode: DefragMode::On }, AllocFlags::NOFRAGMENT),
];

#[test]
fn nofragment_matches_its_rule_for_every_gfp_value() {
    for (facts, flag) in OTHER_ZONE {
        let expected = array::from_fn(|combination| flag | more(combination, MigrateType::Unmovable));
        for convert in [nofragment_coupled, nofragment_plain] {
            assert_eq!(first_wrong(ALL.chain(before_backgrounds()), expected, |gfp| convert(gfp, facts)), None);
        }
    }
}

/// Compares the two alternatives on all inputs, without the table.
#[test]
fn coupled_and_plain_agree_on_every_gfp_value() {
    let cases = representatives();
    for gfp in ALL.chain(before_backgrounds()).map(Gfp::from_bits_retain) {
        for (facts, _) in OTHER_ZONE {
            assert_eq!(nofragment_coupled(gfp, facts), nofragment_plain(gfp, facts), "{gfp:?}, {facts:?}");
        }
        for &case in &cases {
            let [coupled, plain] =
                [slow_coupled, slow_plain].map(|way| way(gfp, case.order, case.migratetype, case.facts));
            assert_eq!(coupled, plain, "{gfp:?}, {case:?}");
        }
    }
}

/// Returns the fast path's expected flags for each combination, if the no-fragment conversion gives `flag`.
fn expect_fast(flag: AllocFlags, migratetype: MigrateType) -> [AllocFlags; 16] {
    array::from_fn(|combination| AllocFlags::WMARK_LOW | flag | more(combination, migratetype))
}

#[test]
fn fast_adds_watermark_and_cma_flags_for_every_gfp_value() {
    for (facts, flag) in OTHER_ZONE {
        for policy in [FlagsPolicy::Coupled, FlagsPolicy::Plain] {
            for migratetype in MigrateType::ALL {
                let expected = expect_fast(flag, migratetype);
                let wrong = first_wrong(before_backgrounds(), expected, |gfp| fast(policy, gfp, migratetype, facts));
                assert_eq!(wrong, None);
            }
            let expected = expect_fast(flag, MigrateType::Movable);
            assert_eq!(first_wrong(ALL, expected, |gfp| fast(policy, gfp, MigrateType::Movable, facts)), None);
        }
    }
}

#[test]
fn slow_uses_the_conversion_of_the_policy() {
    for case in representatives() {
        for policy in [FlagsPolicy::Coupled, FlagsPolicy::Plain] {
            let wrong = first_wrong(before_backgrounds(), case.expected(), |gfp| {
                slow(policy, gfp, case.order, case.migratetype, case.facts)
            });
            assert_eq!(wrong, None);
        }
    }
}

#[test]
fn single_conversion_faults_are_found() {
    let faults: [Slow; 8] = [
        |gfp, order, migratetype, facts| slow_plain(gfp, order, migratetype, facts) | AllocFlags::CPUSET,
        |gfp, order, migratetype, facts| slow_plain(gfp, order, migratetype, facts) - AllocFlags::KSWAPD,
        |gfp, _, migratetype, facts| slow_plain(gfp, Order::new(1), migratetype, facts),
        |gfp, order, _, facts| slow_plain(gfp, order, MigrateType::Unmovable, facts),
        |gfp, order, migratetype, facts| slow_plain(gfp, order, migratetype, SlowFacts { realtime: false, ..facts }),
        |gfp, order, migratetype, facts| slow_plain(gfp, order, migratetype, facts) - AllocFlags::NOFRAGMENT,
        |gfp, order, migratetype, facts| slow_plain(gfp, order, migratetype, facts) | AllocFlags::NOFRAGMENT,
        |gfp, order, migratetype, facts| slow_plain(gfp & !Gfp::NOMEMALLOC, order, migratetype, facts),
    ];
    for (index, convert) in faults.into_iter().enumerate() {
        assert!(first_wrong_slow(convert, &representatives(), before_backgrounds).is_some(), "fault {index}");
    }
}

/// Conversions with a bit that is not ignored, an order that is treated differently, and one wrong result among all.
#[test]
fn rare_conversion_faults_are_found() {
    let listens: Slow = |gfp, order, migratetype, facts| {
        slow_plain(gfp, order, migratetype, facts) | only_if(gfp.bits() >> 31 == 1, AllocFlags::OOM)
    };
    let tenth: Slow = |gfp, order, migratetype, facts| {
        slow_plain(gfp, order, migratetype, facts) | only_if(order == Order::MAX, AllocFlags::OOM)
    };
    let once: Slow = |gfp, order, migratetype, facts| {
        slow_plain(gfp, order, migratetype, facts) | only_if(gfp.bits() == 0x5a_5a5a, AllocFlags::OOM)
    };
    for (convert, name) in [(listens, "listens"), (tenth, "tenth")] {
        assert!(first_wrong_slow(convert, &every_case(), before_backgrounds).is_some(), "{name}");
    }
    let said = first_wrong_slow(once, &representatives(), || ALL).expect("one wrong answer is one too many");
    assert!(said.contains("0x5a5a5a"), "{said}");
}

/// The algorithm of *coupled*, compiled in every build. It is right only as long as the values coincide.
#[test]
fn copied_bits_are_right_only_if_the_values_coincide() {
    let copies: Slow = |gfp, order, migratetype, facts| {
        let copied = AllocFlags::from_bits_retain(gfp.bits() & (HIGH | KSWAPD_RECLAIM));
        finish_slow(copied, gfp, order, migratetype, facts)
    };
    let wrong = first_wrong_slow(copies, &representatives(), before_backgrounds);
    assert_eq!(wrong.is_some(), cfg!(freehold_uncoupled), "{wrong:?}");
}
