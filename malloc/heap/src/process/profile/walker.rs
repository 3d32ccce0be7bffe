//! Walker of call stacks, which records its walks.
//!
//! Stacks are walked by `_Unwind_Backtrace` of `libgcc_s`. C++ programs have loaded this library already, and it needs
//! only the tables that exceptions need. It is loaded with `dlopen` when profiling starts, so nothing is linked against
//! it; without it stacks are empty. The unwinder may allocate and take the loader's lock. So stacks are taken outside
//! of slow paths, and a word of the thread prevents requests of the unwinder from being sampled.

use core::ffi::{CStr, c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::recall::Recall;
use super::stack::{CALLS, Stack};
use crate::os::thread::Thread;

type Context = c_void;
type Visit = extern "C" fn(*mut Context, *mut c_void) -> c_int;
type Backtrace = unsafe extern "C" fn(Visit, *mut c_void) -> c_int;
type Address = unsafe extern "C" fn(*mut Context) -> usize;

/// Return codes of a visitor: libgcc's `_URC_NO_REASON` and `_URC_NORMAL_STOP`, with the numbers in its unwind.h.
const GO_ON: c_int = 0;
const ENOUGH: c_int = 4;

/// Walker of call stacks.
#[derive(Debug)]
pub(super) struct Walker {
    functions: Option<Functions>,
    /// Address range of this library, whose own calls are dropped; empty if it is linked into the program.
    own: Range<usize>,
    recall: Recall,
}

/// Functions of the unwinder.
#[derive(Clone, Copy, Debug)]
struct Functions {
    backtrace: Backtrace,
    /// `address` returns the return address of a call, and `pointer` the stack pointer after the call.
    address: Address,
    pointer: Address,
}

struct Walk<'w> {
    walker: &'w Walker,
    functions: Functions,
    stack: Stack,
    /// Location of each return address, on processors that push it onto the stack.
    slots: [usize; CALLS],
}

impl Walker {
    /// Loads the unwinder. If it cannot be loaded, the walker returns empty stacks.
    ///
    /// # Errors
    /// If the address space has no room for the cache of stacks.
    pub(super) fn find() -> Result<Walker, Errno> {
        Ok(Walker { functions: Functions::find(), own: own_code(), recall: Recall::new()? })
    }

    pub(super) fn is_there(&self) -> bool {
        self.functions.is_some()
    }

    /// Returns the stack of the calling thread.
    #[inline(never)]
    pub(super) fn walk(&self, thread: &Thread) -> Stack {
        let Some(functions) = self.functions else { return Stack::EMPTY };
        let place = MaybeUninit::<usize>::uninit();
        let from = core::hint::black_box(&raw const place).addr();
        // SAFETY: `from` is the address of a variable in this frame, in which all walks begin.
        unsafe { self.recall.find(from) }.unwrap_or_else(|| self.walk_from(thread, functions, from))
    }

    /// Walks the stack with the unwinder, and records the walk.
    #[inline(always)]
    fn walk_from(&self, thread: &Thread, functions: Functions, from: usize) -> Stack {
        let mut walk = Walk { walker: self, functions, stack: Stack::EMPTY, slots: [0; CALLS] };
        thread.takes_stack.store(1, Relaxed);
        // SAFETY: `visit` expects a pointer to a `Walk`, and `walk` lives until the call returns.
        unsafe { (functions.backtrace)(visit, (&raw mut walk).cast()) };
        // SAFETY: `from` is an address in the caller's frame of this thread, and the walk was made just now.
        unsafe { self.recall.note(from, &walk.stack, &walk.slots) };
        thread.takes_stack.store(0, Relaxed);
        walk.stack
    }
}

impl Functions {
    fn find() -> Option<Functions> {
        // SAFETY: the name ends in a zero byte, and the library is never closed.
        let handle = unsafe { libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_NOW) };
        let library = NonNull::new(handle)?;
        let backtrace = find_function(library, c"_Unwind_Backtrace")?;
        let address = find_function(library, c"_Unwind_GetIP")?;
        let pointer = find_function(library, c"_Unwind_GetCFA")?;
        // SAFETY: `libgcc_s` exports functions of these types under these names.
        unsafe {
            Some(Functions {
                backtrace: transmute::<*mut c_void, Backtrace>(backtrace),
                address: transmute::<*mut c_void, Address>(address),
                pointer: transmute::<*mut c_void, Address>(pointer),
            })
        }
    }
}

/// Returns the address of a function in a loaded library, or `None` if the library has no such function.
fn find_function(library: NonNull<c_void>, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in a zero byte, and the handle is that of a loaded library.
    let address = unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

extern "C" fn visit(context: *mut Context, walk: *mut c_void) -> c_int {
    // SAFETY: `walk_from` passes a `Walk` that has no other user during the call, and the unwinder passes a valid
    // context.
    let (walk, address, pointer) = unsafe {
        let walk = &mut *walk.cast::<Walk<'_>>();
        let address = (walk.functions.address)(context);
        let pointer = (walk.functions.pointer)(context);
        (walk, address, pointer)
    };
    let stack = &mut walk.stack;
    if address == 0 || stack.is_full() {
        return ENOUGH;
    }
    walk.slots[stack.calls().len()] = pointer.wrapping_sub(size_of::<usize>());
    stack.push(address, walk.walker.own.contains(&address));
    GO_ON
}

/// Returns the address range of the library that contains this function; an empty range if that is the program itself.
fn own_code() -> Range<usize> {
    extern "C" fn visit_object(object: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description of an object, and `found` is the range below, which has no
        // other user during the call.
        let (object, found) = unsafe { (&*object, &mut *found.cast::<Range<usize>>()) };
        let segments = (0..usize::from(object.dlpi_phnum)).map(|index| {
            // SAFETY: the index is below the number of headers that the loader passes.
            unsafe { &*object.dlpi_phdr.add(index) }
        });
        let loaded = segments.filter(|segment| segment.p_type == libc::PT_LOAD).map(|segment| {
            let start = (object.dlpi_addr as usize).wrapping_add(segment.p_vaddr as usize);
            start..start + segment.p_memsz as usize
        });
        let span = loaded.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end)).unwrap_or(0..0);
        // SAFETY: the loader passes null or a string that ends in a zero byte, so its first byte can be read.
        let is_program = object.dlpi_name.is_null() || unsafe { *object.dlpi_name } == 0;
        if !span.contains(&(own_code as *const ()).addr()) {
            return 0;
        }
        if !is_program {
            *found = span;
        }
        1
    }
    let mut found = 0..0;
    // SAFETY: `visit_object` expects a pointer to a `Range`, and `found` lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(visit_object), (&raw mut found).cast()) };
    found
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::super::stack::FRAMES;
    use super::*;
    use crate::os::thread;

    #[inline(never)]
    fn outer(walker: &Walker) -> Stack {
        core::hint::black_box(walker.walk(thread::current()))
    }

    #[test]
    fn captured_stack_contains_the_caller() {
        let walker = Walker::find().unwrap();
        assert!(walker.is_there(), "the test program has an unwinder");
        let stack = outer(&walker);
        let start = (outer as *const ()).addr();
        assert!(stack.frames().iter().any(|frame| (start..start + 4096).contains(frame)), "{stack:?}");
        assert_eq!(thread::current().takes_stack.load(Relaxed), 0);
    }

    #[inline(never)]
    fn deep(walker: &Walker, calls: u32) -> Stack {
        let stack = if calls == 0 { outer(walker) } else { deep(walker, calls - 1) };
        core::hint::black_box(stack)
    }

    #[test]
    fn deep_stack_is_cut_to_the_innermost_frames() {
        assert_eq!(deep(&Walker::find().unwrap(), 100).frames().len(), FRAMES);
        let without = Walker { functions: None, own: 0..0, recall: Recall::new().unwrap() };
        assert!(deep(&without, 3).frames().is_empty());
    }

    #[test]
    fn recalled_stack_walk_equals_a_new_walk() {
        let recalling = Walker::find().unwrap();
        let mut taken = std::vec::Vec::new();
        for calls in [3, 9, 3, 20, 100].into_iter().cycle().take(20) {
            // Both walkers begin at the same positions of the stack; one recalls walks, and the other one is new.
            for walker in [&recalling, &Walker::find().unwrap()] {
                taken.push(core::hint::black_box(deep(walker, calls)));
            }
            for walker in [&recalling, &Walker::find().unwrap()] {
                taken.push(core::hint::black_box(outer(walker)));
            }
        }
        assert!(taken.chunks(2).all(|pair| pair[0].frames() == pair[1].frames()), "{taken:?}");
    }
}
