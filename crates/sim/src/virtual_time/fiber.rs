//! A fiber: code on a stack of its own, which can stop in the middle of a call and go on later.
//!
//! The engine calls a lock from deep inside; the lock stops the CPU there, and the scheduler goes on with another. Stacks
//! are reused: what a run needs was mostly allocated by the run before.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::clock;

/// Address space of a stack. What is never touched costs no memory.
const STACK_BYTES: usize = 256 << 10;

thread_local! {
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// What a fiber needs to suspend itself.
#[derive(Clone, Copy, Debug)]
pub struct Handle(NonNull<Yielder<(), ()>>);

/// A fiber whose code lives for `'f`.
pub struct Fiber<'f> {
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
    code: PhantomData<&'f ()>,
}

impl<'f> Fiber<'f> {
    /// Code of a CPU, which begins when the fiber is first resumed. A CPU has one fiber.
    ///
    /// # Errors
    /// If the system has no memory for another stack.
    pub fn new(cpu: u16, code: impl FnOnce() + 'f) -> std::io::Result<Fiber<'f>> {
        let stack = match STACKS.with_borrow_mut(Vec::pop) {
            Some(stack) => stack,
            None => DefaultStack::new(STACK_BYTES)?,
        };
        let body = move |yielder: &Yielder<(), ()>, ()| {
            clock::with(|clock| clock.fiber(cpu).set(Some(Handle(NonNull::from(yielder)))));
            code();
            clock::with(|clock| clock.fiber(cpu).set(None));
        };
        // SAFETY: the fiber is dropped before `'f` ends, and with it the coroutine; if it is forgotten instead, the
        // coroutine is never resumed, so nobody ever looks at what it borrowed.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, body) };
        Ok(Fiber { coroutine: Some(coroutine), code: PhantomData })
    }

    /// Goes on with the code until it suspends itself or ends; says whether it has ended. A panic of the code comes out
    /// here.
    pub fn resume(&mut self) -> bool {
        let coroutine = self.coroutine.as_mut().expect("present until it is dropped");
        matches!(coroutine.resume(()), CoroutineResult::Return(()))
    }
}

impl Drop for Fiber<'_> {
    /// Keeps the stack for the next fiber. What is suspended is unwound: its values are dropped.
    fn drop(&mut self) {
        if let Some(mut coroutine) = self.coroutine.take() {
            coroutine.force_unwind();
            STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
        }
    }
}

/// Suspends the fiber that runs: [`Fiber::resume`] returns, and the next one returns from here.
pub(super) fn suspend(running: Handle) {
    // SAFETY: the clock keeps the handle of a CPU's fiber from its first step to its last, and only the CPU that runs is
    // asked for it: the yielder is on the stack that this very code runs on.
    unsafe { running.0.as_ref() }.suspend(());
}
