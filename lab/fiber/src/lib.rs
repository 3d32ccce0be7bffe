//! Fibers: code that runs on a stack of its own, and can be suspended in the middle of a call and resumed later.
//!
//! The engine calls its platform from deep inside: for a lock, to reclaim, or to let other tasks run. There the
//! platform suspends the code ([`suspend`]), and the driver of the fibers resumes another fiber. Stacks are reused, so
//! most of the stacks that a run needs were allocated by the run before.
//!
//! When hundreds of fibers take turns, a resumed fiber finds none of its data in the nearest caches. So the stacks
//! begin at different offsets within a page ([`stack`]), and the driver announces the fiber that it will resume next
//! ([`Fiber::expect`]).

mod stack;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr::NonNull;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use stack::StaggeredStack;

/// Handle with which the running fiber suspends itself.
type Running = NonNull<Yielder<(), ()>>;

thread_local! {
    static STACKS: RefCell<Vec<StaggeredStack>> = const { RefCell::new(Vec::new()) };
    /// Handle of the fiber that runs on this thread; `None` while its driver runs.
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
    /// First addresses for the fiber that runs or was suspended last.
    static FIRST: Cell<First> = const { Cell::new(First { depth: 0, noted: [0; NOTES], notes: 0 }) };
}

/// Maximum number of values that a fiber can note between two suspensions; older ones are overwritten.
const NOTES: usize = 4;

/// Addresses that a fiber accesses first when it is resumed.
#[derive(Clone, Copy)]
struct First {
    /// Address in the stack frame of [`suspend`], near the end of the used stack.
    depth: usize,
    noted: [usize; NOTES],
    notes: usize,
}

/// A fiber whose code lives for `'f`.
pub struct Fiber<'f> {
    coroutine: Option<Coroutine<(), (), (), StaggeredStack>>,
    /// Handle with which it suspends itself, once it has begun.
    running: Option<Running>,
    first: First,
    code: PhantomData<&'f ()>,
}

impl<'f> Fiber<'f> {
    /// Creates a fiber whose code begins when the fiber is first resumed.
    ///
    /// # Errors
    /// If the system has no memory for another stack.
    pub fn new(code: impl FnOnce() + 'f) -> std::io::Result<Fiber<'f>> {
        let stack = match STACKS.with_borrow_mut(Vec::pop) {
            Some(stack) => stack,
            None => StaggeredStack::new()?,
        };
        // SAFETY: data borrowed by `code` lives for `'f`, and the fiber, which owns the coroutine, is dropped before
        // `'f` ends. If the fiber is forgotten instead, the coroutine is never resumed or unwound, so the borrowed data
        // is not accessed again.
        let coroutine = unsafe {
            Coroutine::with_stack_unchecked(stack, move |yielder: &Yielder<(), ()>, ()| {
                RUNNING.set(Some(NonNull::from(yielder)));
                code();
            })
        };
        Ok(Fiber { coroutine: Some(coroutine), running: None, first: FIRST.get(), code: PhantomData })
    }

    /// Resumes the code until it suspends itself or ends. Returns whether it has ended. A panic of the code propagates
    /// to the caller.
    pub fn resume(&mut self) -> bool {
        let coroutine = self.coroutine.as_mut().expect("a fiber has a coroutine until it is dropped");
        let _outer = Outer(RUNNING.replace(self.running));
        let has_ended = matches!(coroutine.resume(()), CoroutineResult::Return(()));
        (self.running, self.first) = (RUNNING.get(), FIRST.get());
        has_ended
    }

    /// Announces that this fiber will be resumed soon: the processor prefetches the used end of its stack and the
    /// values that it [noted](note).
    #[inline]
    pub fn expect(&self) {
        self.first.noted.iter().for_each(|&address| stack::fetch(address));
        stack::prefetch(self.first.depth);
    }
}

impl Drop for Fiber<'_> {
    /// Keeps the stack for the next fiber. A suspended fiber is unwound, which drops its values.
    fn drop(&mut self) {
        if let Some(mut coroutine) = self.coroutine.take() {
            // A destructor that suspends panics: the driver of an unwound fiber does not resume it.
            let _outer = Outer(RUNNING.take());
            coroutine.force_unwind();
            STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
        }
    }
}

/// Handle that was current before a fiber was resumed. It is restored on drop, also when the fiber panics.
struct Outer(Option<Running>);

impl Drop for Outer {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// Suspends the running fiber: [`Fiber::resume`] returns. This function returns at the next call of `resume`.
///
/// # Panics
/// If no fiber runs on this thread.
pub fn suspend() {
    let running = RUNNING.get().expect("this code runs in a fiber");
    FIRST.set(First { depth: (&raw const running).addr(), ..FIRST.get() });
    // SAFETY: `RUNNING` points to the yielder of the coroutine that this code runs on, which lives as long as the
    // coroutine. A fiber stores its yielder when it begins, `resume` sets the stored one again, and `Outer` restores
    // the previous one as soon as the fiber stops.
    unsafe { running.as_ref() }.suspend(());
}

/// Notes that the running fiber accesses this value first after its next resumption. A hint, which costs a few stores.
#[inline]
pub fn note<T>(value: &T) {
    let mut first = FIRST.get();
    first.noted[first.notes % NOTES] = (&raw const *value).addr();
    first.notes = first.notes.wrapping_add(1);
    FIRST.set(first);
}

/// Returns whether a fiber runs on this thread.
pub fn is_running() -> bool {
    RUNNING.get().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fibers_nest_and_alternate() {
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
    fn dropped_fiber_drops_its_suspended_locals() {
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

    /// A fiber that is dropped by another fiber runs its destructors; these cannot suspend the other fiber.
    #[test]
    fn destructors_of_a_dropped_fiber_run_outside_fibers() {
        struct Look<'l>(&'l Cell<Option<bool>>);
        impl Drop for Look<'_> {
            fn drop(&mut self) {
                self.0.set(Some(is_running()));
            }
        }
        let seen = Cell::new(None);
        let mut outer = Fiber::new(|| {
            let mut inner = Fiber::new(|| {
                let _look = Look(&seen);
                suspend();
            })
            .unwrap();
            assert!(!inner.resume());
            drop(inner);
            assert!(is_running());
        })
        .unwrap();
        assert!(outer.resume());
        assert_eq!(seen.get(), Some(false));
    }
}
