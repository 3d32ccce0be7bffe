//! Actions of the owners of blocks: they free them as a whole or in parts, share them, split them, and make mistakes.

use freehold::base::{Gfp, Order, Pfn, State};
use freehold::page::FreeError;

use crate::model::frame_model::Live;
use crate::model::reference::Block;
use crate::model::reference::map::{AllocatedBlock, Page};
use crate::model::runner::{self, Runner, Sabotage};

const MOVABLE: Gfp = Gfp::HIGHUSER_MOVABLE;

impl Runner<'_, '_> {
    /// Frees a block as its owner does.
    pub(super) fn free(&self, pick: u32) -> Result<(), String> {
        let Some(place) = self.frame_model.borrow().pick(pick) else { return Ok(()) };
        let live = self.frame_model.borrow().live[place].clone();
        self.turn.set(self.turn.get() + 1);
        let forgotten = self.sabotage == Sabotage::ForgetFree && self.turn.get().is_multiple_of(100);
        if !forgotten {
            let freed = match live.refs {
                0 => self.allocator.free_frozen_pages(live.head(), live.order()),
                _ => self.allocator.free_pages(live.head(), live.order()),
            };
            freed.map_err(|error| format!("block {live:?} was not freed: {error}"))?;
        }
        self.book_free(place, &live);
        Ok(())
    }

    /// Records a free by the owner in the frame model and in the reference.
    fn book_free(&self, place: usize, live: &Live) {
        let mut frame_model = self.frame_model.borrow_mut();
        if live.refs <= 1 {
            frame_model.live.swap_remove(place);
            let parts = frame_model.take_back(live.pfn, live.order);
            self.reference.borrow_mut().map.unhold(live.pfn);
            self.reference_frees((live.pfn, live.order), &parts);
        } else if live.compound {
            frame_model.live[place].refs -= 1;
        } else {
            frame_model.live[place].refs -= 1;
            frame_model.live[place].order = 0;
            self.reference.borrow_mut().map.change_held(live.pfn, |held| held.order = 0);
            for tail in (0..live.order).rev() {
                let chunk = (live.pfn + (1 << tail), tail);
                let parts = frame_model.take_back(chunk.0, chunk.1);
                self.reference_frees(chunk, &parts);
            }
        }
    }

    /// Frees the parts of a block without broken frames in the reference.
    fn reference_frees(&self, (pfn, order): Block, parts: &[Block]) {
        let mut reference = self.reference.borrow_mut();
        reference.map.paint(pfn, order, Page::Gone);
        parts.iter().for_each(|&(pfn, order)| reference.free(pfn, order));
    }

    pub(super) fn free_bulk(&self, pick: u32) -> Result<(), String> {
        let mut pages = Vec::new();
        for turn in 0..pick % 9 {
            let chosen = self.frame_model.borrow().pick(pick.rotate_left(turn));
            let Some(place) = chosen else { break };
            let live = self.frame_model.borrow().live[place].clone();
            if live.order == 0 && live.refs == 1 && !pages.contains(&live.head()) {
                pages.push(live.head());
            }
        }
        self.allocator.free_pages_bulk(&pages).map_err(|error| error.to_string())?;
        for pfn in pages {
            let place = self.frame_model.borrow().live.iter().position(|live| live.pfn == pfn.raw());
            let place = place.expect("the page was live");
            let live = self.frame_model.borrow().live[place].clone();
            self.book_free(place, &live);
        }
        Ok(())
    }

    pub(super) fn get(&self, pick: u32) -> Result<(), String> {
        let mut frame_model = self.frame_model.borrow_mut();
        let Some(place) = frame_model.pick(pick) else { return Ok(()) };
        let live = &mut frame_model.live[place];
        let got = self.allocator.get_page(live.head());
        if live.refs == 0 {
            return expect(got, Err(FreeError::Frozen { pfn: live.head(), state: live.state() }));
        }
        live.refs += 1;
        expect(got, Ok(()))
    }

    pub(super) fn put(&self, pick: u32) -> Result<(), String> {
        let Some(place) = self.frame_model.borrow().pick(pick) else { return Ok(()) };
        let live = self.frame_model.borrow().live[place].clone();
        let put = self.allocator.put_page(live.head());
        match live.refs {
            0 => return expect(put, Err(FreeError::Frozen { pfn: live.head(), state: live.state() })),
            1 => self.book_free(place, &live),
            _ => self.frame_model.borrow_mut().live[place].refs -= 1,
        }
        expect(put, Ok(()))
    }

    pub(super) fn split(&self, pick: u32, to: u8) -> Result<(), String> {
        let mut frame_model = self.frame_model.borrow_mut();
        let Some(place) = frame_model.pick(pick) else { return Ok(()) };
        let live = frame_model.live[place].clone();
        let (pfn, order, piece) = (live.head(), live.order(), Order::new(to));
        let refusal = Err(FreeError::WrongOrder { pfn, given: piece, state: live.state() });
        if live.compound {
            expect(self.allocator.split_to(pfn, order, piece), refusal)?;
        }
        let split = match (live.compound, to) {
            (true, _) => self.allocator.split_compound(pfn, order, piece),
            (false, 0) => self.allocator.split_page(pfn, order),
            (false, _) => self.allocator.split_to(pfn, order, piece),
        };
        if to > live.order {
            return expect(split, refusal);
        }
        frame_model.live.swap_remove(place);
        let map = &mut self.reference.borrow_mut().map;
        map.unhold(live.pfn);
        for at in (live.pfn..live.pfn + (1 << live.order)).step_by(1 << to) {
            let refs = if at == live.pfn { live.refs } else { live.refs.min(1) };
            let poisoned = frame_model.has_broken(at, to);
            map.hold(at, AllocatedBlock { order: to, movable: live.movable, compound: live.compound, poisoned });
            frame_model.live.push(Live { pfn: at, order: to, refs, poisoned, ..live.clone() });
        }
        expect(split, Ok(()))
    }

    /// Makes invalid frees, and checks that each returns the right error.
    pub(super) fn misuse(&self, pfn: u32, order: u8) -> Result<(), String> {
        let frame_model = self.frame_model.borrow();
        let (frame, order) = (Pfn::new(pfn), Order::new(order));
        let refusal = match (frame_model.live_at(pfn), self.allocator.state(frame)) {
            (Some(live), _) if live.order() == order => return Ok(()),
            (Some(live), _) => FreeError::WrongOrder { pfn: frame, given: order, state: live.state() },
            (None, Some(state)) => FreeError::NotAllocated { pfn: frame, state },
            (None, None) => FreeError::OutOfRange { pfn: frame },
        };
        expect(self.allocator.free_pages(frame, order), Err(refusal))?;
        expect(self.allocator.free_frozen_pages(frame, order), Err(refusal))?;
        expect(self.allocator.split_page(frame, order), Err(refusal))?;
        if frame_model.live_at(pfn).is_none() {
            expect(self.allocator.get_page(frame), Err(refusal))?;
            expect(self.allocator.put_page(frame), Err(refusal))?;
        }
        Ok(())
    }

    pub(super) fn free_frozen_in_use(&self, pick: u32) -> Result<(), String> {
        let mut frame_model = self.frame_model.borrow_mut();
        let Some(place) = frame_model.pick(pick) else { return Ok(()) };
        let live = frame_model.live[place].clone();
        if live.refs == 0 || live.order > 3 {
            return Ok(());
        }
        frame_model.live.swap_remove(place);
        frame_model.withhold(live.pfn, live.order);
        self.reference.borrow_mut().map.unhold(live.pfn);
        let freed = self.allocator.free_frozen_pages(live.head(), live.order());
        expect(freed, Err(FreeError::Bad { pfn: live.head(), state: live.state() }))
    }

    /// Takes the given block off the free lists, if it is there.
    pub(super) fn isolate(&self, pfn: u32, order: u8) -> Result<(), String> {
        let (frame, before) = (Pfn::new(pfn), self.allocator.state(Pfn::new(pfn)));
        let isolated = self.allocator.isolate_free_page(frame, Order::new(order), MOVABLE);
        let expected = match before {
            None => Err(FreeError::OutOfRange { pfn: frame }),
            Some(state @ State::Reserved) => Err(FreeError::NotAllocated { pfn: frame, state }),
            Some(state) if pfn & ((1 << order) - 1) != 0 => Err(FreeError::NotAllocated { pfn: frame, state }),
            Some(_) => Ok(self.reference.borrow_mut().cut_out(pfn, order)),
        };
        if isolated != expected {
            return Err(format!("the answer was {isolated:?}, expected {expected:?}"));
        }
        if isolated == Ok(true) { self.own_isolated(pfn, order) } else { Ok(()) }
    }

    /// Takes any movable block in the zone of a frame off the free lists.
    pub(super) fn isolate_near(&self, pfn: u32, order: u8) -> Result<(), String> {
        let isolated = self.allocator.isolate_free_page_near(Pfn::new(pfn), Order::new(order), MOVABLE);
        let is_known = !matches!(self.allocator.state(Pfn::new(pfn)), None | Some(State::Reserved));
        let expected = if is_known { self.reference.borrow_mut().take_near(pfn, order) } else { None };
        if isolated.map(Pfn::raw) != expected {
            return Err(format!("the answer was {isolated:?}, expected {expected:x?}"));
        }
        isolated.map_or(Ok(()), |pfn| self.own_isolated(pfn.raw(), order))
    }

    fn own_isolated(&self, pfn: u32, order: u8) -> Result<(), String> {
        let held = AllocatedBlock { order, movable: true, compound: false, poisoned: false };
        self.reference.borrow_mut().map.hold(pfn, held);
        self.frame_model.borrow_mut().give(pfn, order, MOVABLE, 0, 1)
    }

    /// Allocates an aligned part of a pageblock by its frames, all of which are free. In half of the calls the
    /// pageblock is one that a CPU owns.
    pub(super) fn take_range(&self, pick: u32, order: u8) -> Result<(), String> {
        let order = order.min(self.world.block.get());
        let mut parts = self.reference.borrow().vacant(order);
        if pick.is_multiple_of(2) {
            parts.retain(|&pfn| self.reference.borrow().map.owner(pfn).is_some());
        }
        let Some(&first) = parts.get(pick as usize / 2 % parts.len().max(1)) else { return Ok(()) };
        let part = (first, order);
        let frames = part.0..part.0 + (1 << order);
        let taken = self.allocator.alloc_contig_range(Pfn::new(frames.start)..Pfn::new(frames.end), MOVABLE);
        taken.map_err(|error| format!("frames {frames:x?} were not taken: {error}"))?;
        let reference = &mut *self.reference.borrow_mut();
        reference.script = self.log.take().into();
        reference.take_range(part);
        runner::settle(reference)?;
        let mut frame_model = self.frame_model.borrow_mut();
        frames.into_iter().try_for_each(|pfn| {
            reference.map.hold(pfn, AllocatedBlock { order: 0, movable: true, compound: false, poisoned: false });
            frame_model.give(pfn, 0, MOVABLE, 0, 1)
        })
    }

    pub(super) fn poison(&self, pfn: u32) -> Result<(), String> {
        let frame = Pfn::new(pfn);
        let before = self.allocator.state(frame);
        let was_withheld = before == Some(State::Withheld);
        let poisoned = self.allocator.poison(frame);
        let Some(was_free) = self.frame_model.borrow_mut().poison(pfn) else {
            return match before {
                Some(state) => expect(poisoned, Err(FreeError::NotAllocated { pfn: frame, state })),
                None => expect(poisoned, Err(FreeError::OutOfRange { pfn: frame })),
            };
        };
        let mut reference = self.reference.borrow_mut();
        if !was_withheld {
            reference.drain_all_pages();
            if let Some(head) = reference.map.held_around(pfn) {
                reference.map.change_held(head, |held| held.poisoned = true);
            }
            if was_free {
                assert!(reference.cut_out(pfn, 0), "a frame that is free after a drain must be in a free block");
            }
        }
        expect(poisoned, Ok(()))
    }
}

fn expect(found: Result<(), FreeError>, expected: Result<(), FreeError>) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("the answer was {found:?}, expected {expected:?}")) }
}
