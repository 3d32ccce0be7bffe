//! Tests of the packing of words and of the transitions between them.

use super::*;

/// Returns whether a word has any flag of an allocated block.
fn has_flag(word: &Word) -> bool {
    word.is_movable() || word.is_compound() || word.is_slab() || word.is_ranged() || word.is_poisoned()
}

/// Adds a reference to a word of any state.
fn add_ref(word: Word) -> Word {
    Word(word.0 | 1 << REF_SHIFT)
}

#[test]
fn words_decode_to_their_state() {
    let order = Order::new(9);
    assert_eq!(
        Word::zone_free(order, MigrateType::Cma).state(),
        State::ZoneFree { order, migratetype: MigrateType::Cma }
    );
    let cached = Word::pcp_cached(order, 29, CpuId(511));
    assert_eq!(cached.state(), State::PcpCached { order, list: 29, cpu: CpuId(511) });
    assert_eq!(Word::remote_pending(order).state(), State::RemotePending { order });
    assert!(cached.is_cached_of(order, CpuId(511)) && !cached.is_cached_of(order, CpuId(510)));
    let leaving = Word::leaving(order, CpuId(511));
    assert_eq!(leaving.state(), State::Claimed { order });
    assert!(leaving.is_leaving_of(order, CpuId(511)) && !Word::claimed_of(order).is_leaving_of(order, CpuId(0)));
    let word = Word::allocated(order).movable().compound().with_refs(7).with_order(Order::ZERO);
    let allocated = [false, true].map(|slab| State::Allocated {
        order: Order::ZERO,
        refs: 7,
        movable: !slab,
        compound: true,
        poisoned: false,
        slab,
    });
    assert_eq!([word.state(), word.slab().state()], allocated);
    let listed = [cached, Word::pcp_cached(order, 31, CpuId(u16::MAX)), Word::zone_free(order, MigrateType::Isolate)];
    assert!(!listed.iter().any(has_flag) && !listed.iter().any(|word| word.is_broken()));
    assert_eq!((Word(0).state(), Word::RESERVED.state()), (State::Absent, State::Reserved));
}

#[test]
fn only_words_of_valid_states_are_sound() {
    let words =
        [Word::INTERIOR.broken(), Word::allocated(Order::MAX).slab().with_refs(REFS_MAX), Word(INTERIOR | 1 << 30)];
    assert!(words.into_iter().all(Word::is_sound));
    assert!(Word::leaving(Order::ZERO, CpuId(3)).is_sound() && Word::pcp_cached(Order::ZERO, 3, CpuId(9)).is_sound());
    assert!(!add_ref(Word::claimed_of(Order::ZERO)).is_sound() && !add_ref(Word::WITHHELD).is_sound());
    assert!(!Word(9).is_sound() && !Word(ZONE_FREE | 6 << LIST_SHIFT).is_sound());
    assert!(!Word(ALLOCATED | 11 << ORDER_SHIFT).is_sound());
}

#[test]
fn allocated_word_requires_a_claim_before_a_store() {
    let page = Word::allocated(Order::ZERO);
    assert!(!page.may_become(Word::INTERIOR) && page.ranged().may_become(Word::INTERIOR));
    assert!(page.ranged().is_sound() && !page.movable().ranged().is_sound());
    assert!(Word::claimed_of(Order::ZERO).may_become(page));
    assert!(Word::ABSENT.may_become(Word::RESERVED) && !Word::ABSENT.may_become(page));
    assert!(Word::RESERVED.may_become(Word::ABSENT) && !Word::WITHHELD.may_become(Word::INTERIOR));
}

#[test]
fn claimed_word_keeps_order_and_marks() {
    let word = Word::allocated(Order::new(4)).movable().with_refs(3).poisoned().broken();
    let claimed = word.claimed();
    assert_eq!(claimed.state(), State::Claimed { order: Order::new(4) });
    assert!(claimed.is_poisoned() && claimed.is_broken() && !claimed.is_movable() && claimed.refs() == 0);
}

#[test]
fn pinned_block_is_unmovable_until_unpinned() {
    let page = Word::allocated(Order::new(3)).with_refs(1);
    let pinned = page.movable().pinned();
    assert!(pinned.is_sound() && !pinned.is_movable() && pinned.is_of_movable_request());
    assert!(pinned.unpinned() == page.movable() && pinned.unpinned().is_movable());
    assert!(pinned.is_held_of(Order::new(3), 1), "its owner frees it as any other");
    assert_eq!(pinned.claimed(), page.claimed());
    assert!(!page.movable().slab().is_movable(), "a slab knows its pages by address");
    assert!(page.pinned().is_sound() && page.pinned().with_order(Order::ZERO).ranged().is_sound());
    assert!(!page.with_refs(0).pinned().is_sound(), "a handle has a reference");
    let leaving = Word::leaving(Order::ZERO, CpuId(3));
    assert_eq!(leaving.unpinned(), leaving, "the bit is another one there");
}

#[test]
fn only_a_plain_allocated_block_is_held() {
    let page = Word::allocated(Order::ZERO).with_refs(1);
    assert!(page.is_held_of(Order::ZERO, 1) && page.movable().compound().is_held_of(Order::ZERO, 1));
    let others = [page.slab(), page.poisoned(), page.with_refs(2), page.claimed(), Word::ABSENT, Word::RESERVED];
    assert!(!others.into_iter().any(|word| word.is_held_of(Order::ZERO, 1)));
    assert!(!page.is_held_of(Order::new(1), 1));
}

#[test]
fn only_a_healthy_single_page_is_a_ranged_page() {
    let page = Word::allocated(Order::ZERO).ranged().with_refs(1);
    assert!(page.is_ranged() && page.is_ranged_page_of(1) && page.with_refs(0).is_ranged_page_of(0));
    let others = [page.unranged(), page.slab(), page.poisoned(), page.with_refs(2), page.claimed(), Word::RESERVED];
    assert!(!others.into_iter().any(|word| word.is_ranged_page_of(1)));
    assert!(!page.is_held_of(Order::ZERO, 1), "it is given back under a lock");
    for order in Order::all().skip(1) {
        assert!(!page.with_order(order).is_ranged_page_of(1) && !page.with_order(order).is_sound());
        let block = page.unranged().with_order(order);
        assert!(
            block.is_held_of(order, 1) && !block.is_held_of(Order::ZERO, 1) && !page.unranged().is_held_of(order, 1)
        );
    }
}
