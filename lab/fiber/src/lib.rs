//! A fiber: code on a stack of its own, which can stop in the middle of a call and go on later.
//!
//! The engine calls its platform from deep inside: for a lock, to reclaim, to let others run. There the platform stops
//! the code ([`suspend`]), and whoever drives the fibers goes on with another one. Stacks are reused: what a run needs
//! was mostly allocated by the run before.
//!
//! Hundreds of fibers that take turns find nothing of their own in the nearest caches. So their stacks begin at
//! different places within a page ([`stack`]), and who drives them says which one is next ([`Fiber::expect`]).

mod stack;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr::NonNull;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use stack::StaggeredStack;

/// What the running fiber needs to suspend itself.
type Running = NonNull<Yielder<(), ()>>;

thread_local! {
    static STACKS: RefCell<Vec<StaggeredStack>> = const { RefCell::new(Vec::new()) };
    /// The fiber that runs on this thread; none while the code that drives them does.
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
    /// What the fiber that runs, or was suspended last, looks at first when it goes on.
    static FIRST: Cell<First> = const { Cell::new(First { depth: 0, noted: [0; NOTES], notes: 0 }) };
}

/// Values that a fiber may note down for each time it stops; of more, the last count.
const NOTES: usize = 4;

/// Addresses at which a fiber looks when it goes on.
#[derive(Clone, Copy)]
struct First {
    /// How far down its stack it is.
    depth: usize,
    noted: [usize; NOTES],
    notes: usize,
}

/// A fiber whose code lives for `'f`.
pub struct Fiber<'f> {
    coroutine: Option<Coroutine<(), (), (), StaggeredStack>>,
    /// What it needs to suspend itself, once it has begun.
    running: Option<Running>,
    first: First,
    code: PhantomData<&'f ()>,
}

impl<'f> Fiber<'f> {
    /// Code that begins when the fiber is first resumed.
    ///
    /// # Errors
    /// If the system has no memory for another stack.
    pub fn new(code: impl FnOnce() + 'f) -> std::io::Result<Fiber<'f>> {
        let stack = match STACKS.with_borrow_mut(Vec::pop) {
            Some(stack) => stack,
            None => StaggeredStack::new()?,
        };
        // SAFETY: the fiber is dropped before `'f` ends, and with it the coroutine; if it is forgotten instead, the
        // coroutine is never resumed, so nobody ever looks at what it borrowed.
        let coroutine = unsafe {
            Coroutine::with_stack_unchecked(stack, move |yielder: &Yielder<(), ()>, ()| {
                RUNNING.set(Some(NonNull::from(yielder)));
                code();
            })
        };
        Ok(Fiber { coroutine: Some(coroutine), running: None, first: FIRST.get(), code: PhantomData })
    }

    /// Goes on with the code until it suspends itself or ends; says whether it has ended. A panic of the code comes out
    /// here.
    pub fn resume(&mut self) -> bool {
        let coroutine = self.coroutine.as_mut().expect("present until it is dropped");
        let _outer = Outer(RUNNING.replace(self.running));
        let has_ended = matches!(coroutine.resume(()), CoroutineResult::Return(()));
        (self.running, self.first) = (RUNNING.get(), FIRST.get());
        has_ended
    }

    /// Says that this fiber is resumed soon: the processor fetches meanwhile what it looks at first, on its stack and
    /// of what it [noted](note).
    #[inline]
    pub fn expect(&self) {
        self.first.noted.iter().for_each(|&address| stack::fetch(address));
        stack::prefetch(self.first.depth);
    }
}

impl Drop for Fiber<'_> {
    /// Keeps the stack for the next fiber. What is suspended is unwound: its values are dropped.
    fn drop(&mut self) {
        if let Some(mut coroutine) = self.coroutine.take() {
            let _outer = Outer(RUNNING.get());
            coroutine.force_unwind();
            STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
        }
    }
}

/// What ran before a fiber was resumed, and runs again once it stopped, however that came about.
struct Outer(Option<Running>);

impl Drop for Outer {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// Suspends the fiber that runs: [`Fiber::resume`] returns, and the next one returns from here.
///
/// # Panics
/// If no fiber runs on this thread.
pub fn suspend() {
    let running = RUNNING.get().expect("a fiber runs");
    FIRST.set(First { depth: (&raw const running).addr(), ..FIRST.get() });
    // SAFETY: the yielder is on the stack that this very code runs on: who begins notes its own, who is resumed is
    // given it back, and who resumes restores what ran before as soon as it stops.
    unsafe { running.as_ref() }.suspend(());
}

/// Notes that the running fiber looks at this value as soon as it goes on after it has stopped. A hint, a few stores.
#[inline]
pub fn note<T>(value: &T) {
    let mut first = FIRST.get();
    first.noted[first.notes % NOTES] = (&raw const *value).addr();
    first.notes = first.notes.wrapping_add(1);
    FIRST.set(first);
}

/// Whether a fiber runs on this thread.
pub fn is_running() -> bool {
    RUNNING.get().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fibers_take_turns_and_nest() {
        let log = RefCell::new(Vec::new());
        let mut inner = Fiber::new(|| {
            log.borrow_mut().push("inner begins");
            suspend();
            log.borrow_mut().push("inner ends");
        })
        .unwrap();
        let mut outer = Fiber::new(|| {
            assert!(!inner.resume());
            suspend();
            assert!(inner.resume());
        })
        .unwrap();
        assert!(!outer.resume() && !is_running());
        log.borrow_mut().push("between");
        assert!(outer.resume());
        drop(outer);
        assert_eq!(*log.borrow(), ["inner begins", "between", "inner ends"]);
    }

    #[test]
    fn what_is_suspended_is_dropped_with_its_fiber() {
        struct Flag<'f>(&'f Cell<bool>);
        impl Drop for Flag<'_> {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let dropped = Cell::new(false);
        let mut fiber = Fiber::new(|| {
            let _flag = Flag(&dropped);
            suspend();
        })
        .unwrap();
        assert!(!fiber.resume() && !dropped.get());
        drop(fiber);
        assert!(dropped.get() && !is_running());
    }
}
