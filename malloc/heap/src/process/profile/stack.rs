//! The calls that led to a request: return addresses, the latest first.
//!
//! They are found by `_Unwind_Backtrace` of `libgcc_s`, which C++ programs have loaded already, and which needs no more
//! than the tables that exceptions need. It is looked for once, when profiling starts, so that nothing is linked for
//! it; without it stacks are empty. It may allocate and take the loader's lock: so stacks are taken outside of slow
//! paths, and a word of the thread says that what is asked for meanwhile is not sampled.

use core::ffi::{CStr, c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::recall::Recall;
use crate::os::thread::Thread;

/// Calls of a stack at most; those further out are left away.
pub(super) const FRAMES: usize = 64;
/// The same with this library's own, which are left away, too.
pub(super) const CALLS: usize = FRAMES + 8;

type Context = c_void;
type Visit = extern "C" fn(*mut Context, *mut c_void) -> c_int;
type Backtrace = unsafe extern "C" fn(Visit, *mut c_void) -> c_int;
type Address = unsafe extern "C" fn(*mut Context) -> usize;

/// linux: libgcc's `_URC_NO_REASON` and `_URC_NORMAL_STOP`, as unwind.h numbers them.
const GO_ON: c_int = 0;
const ENOUGH: c_int = 4;

/// Who walks stacks.
#[derive(Debug)]
pub(super) struct Walker {
    functions: Option<Functions>,
    /// The code of this library, whose own calls are not the program's; nothing if it is a part of the program.
    own: Range<usize>,
    recall: Recall,
}

/// What the unwinder has.
#[derive(Clone, Copy, Debug)]
struct Functions {
    backtrace: Backtrace,
    /// The return address of a call, and the stack pointer after it.
    address: Address,
    pointer: Address,
}

/// Return addresses, the latest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    /// Of these, those of this library.
    own: usize,
    count: usize,
    calls: [usize; CALLS],
}

impl Stack {
    pub(super) const EMPTY: Stack = Stack { own: 0, count: 0, calls: [0; CALLS] };

    /// The program's.
    pub(super) fn frames(&self) -> &[usize] {
        &self.calls[self.own..self.count]
    }

    /// All of them.
    pub(super) fn calls(&self) -> &[usize] {
        &self.calls[..self.count]
    }
}

struct Walk<'w> {
    walker: &'w Walker,
    functions: Functions,
    stack: Stack,
    /// Where each return address lies, on processors that leave it there.
    slots: [usize; CALLS],
}

impl Walker {
    /// Loads what walks stacks; without functions if there is nothing.
    ///
    /// # Errors
    /// If the address space has no room for what is recalled.
    pub(super) fn find() -> Result<Walker, Errno> {
        Ok(Walker { functions: Functions::find(), own: own_code(), recall: Recall::new()? })
    }

    pub(super) fn is_there(&self) -> bool {
        self.functions.is_some()
    }

    /// The stack of the calling thread.
    #[inline(never)]
    pub(super) fn walk(&self, thread: &Thread) -> Stack {
        let Some(functions) = self.functions else { return Stack::EMPTY };
        let place = MaybeUninit::<usize>::uninit();
        let from = core::hint::black_box(&raw const place).addr();
        // SAFETY: a place of this frame, with which walks begin.
        unsafe { self.recall.find(from) }.unwrap_or_else(|| self.walk_from(thread, functions, from))
    }

    /// As the unwinder finds it.
    #[inline(always)]
    fn walk_from(&self, thread: &Thread, functions: Functions, from: usize) -> Stack {
        let mut walk = Walk { walker: self, functions, stack: Stack::EMPTY, slots: [0; CALLS] };
        thread.takes_stack.store(1, Relaxed);
        // SAFETY: the function gets the walk that it is called for, which lives until it returns.
        unsafe { (functions.backtrace)(visit, (&raw mut walk).cast()) };
        // SAFETY: the walk was made just now, from that place.
        unsafe { self.recall.note(from, &walk.stack, &walk.slots) };
        thread.takes_stack.store(0, Relaxed);
        walk.stack
    }
}

impl Functions {
    fn find() -> Option<Functions> {
        // SAFETY: a name that ends in zero; the library stays.
        let handle = unsafe { libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_NOW) };
        let library = NonNull::new(handle)?;
        let backtrace = find_function(library, c"_Unwind_Backtrace")?;
        let address = find_function(library, c"_Unwind_GetIP")?;
        let pointer = find_function(library, c"_Unwind_GetCFA")?;
        // SAFETY: the library has functions of these types by these names.
        unsafe {
            Some(Functions {
                backtrace: transmute::<*mut c_void, Backtrace>(backtrace),
                address: transmute::<*mut c_void, Address>(address),
                pointer: transmute::<*mut c_void, Address>(pointer),
            })
        }
    }
}

/// The address of a function of a library that the loader has loaded.
fn find_function(library: NonNull<c_void>, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in zero, and the library is loaded.
    let address = unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

extern "C" fn visit(context: *mut Context, walk: *mut c_void) -> c_int {
    // SAFETY: `walk` above passes a walk, which nobody else uses meanwhile; the context is the unwinder's.
    let (walk, address, pointer) = unsafe {
        let walk = &mut *walk.cast::<Walk<'_>>();
        let address = (walk.functions.address)(context);
        let pointer = (walk.functions.pointer)(context);
        (walk, address, pointer)
    };
    let stack = &mut walk.stack;
    if address == 0 || stack.count == CALLS || stack.count - stack.own == FRAMES {
        return ENOUGH;
    }
    if stack.own == stack.count && walk.walker.own.contains(&address) {
        stack.own += 1;
    }
    walk.slots[stack.count] = pointer.wrapping_sub(size_of::<usize>());
    stack.calls[stack.count] = address;
    stack.count += 1;
    GO_ON
}

/// The segments of the library that this function is in, unless that is the program itself.
fn own_code() -> Range<usize> {
    extern "C" fn visit_object(object: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader describes an object; `found` is the range below, which nobody else uses meanwhile.
        let (object, found) = unsafe { (&*object, &mut *found.cast::<Range<usize>>()) };
        let segments = (0..usize::from(object.dlpi_phnum)).map(|index| {
            // SAFETY: the loader says that there are so many.
            unsafe { &*object.dlpi_phdr.add(index) }
        });
        let loaded = segments.filter(|segment| segment.p_type == libc::PT_LOAD).map(|segment| {
            let start = (object.dlpi_addr as usize).wrapping_add(segment.p_vaddr as usize);
            start..start + segment.p_memsz as usize
        });
        let span = loaded.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end)).unwrap_or(0..0);
        // SAFETY: the loader gives a name that ends in zero, or none.
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
    // SAFETY: the function takes what it is given, and the range lives until it returns.
    unsafe { libc::dl_iterate_phdr(Some(visit_object), (&raw mut found).cast()) };
    found
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::os::thread;

    #[inline(never)]
    fn outer(walker: &Walker) -> Stack {
        core::hint::black_box(walker.walk(thread::current()))
    }

    #[test]
    fn a_stack_goes_through_its_caller() {
        let walker = Walker::find().unwrap();
        assert!(walker.is_there(), "what tests are made with has an unwinder");
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
    fn a_deep_stack_ends_at_the_latest_calls() {
        assert_eq!(deep(&Walker::find().unwrap(), 100).frames().len(), FRAMES);
        let without = Walker { functions: None, own: 0..0, recall: Recall::new().unwrap() };
        assert!(deep(&without, 3).frames().is_empty());
    }

    #[test]
    fn what_is_recalled_is_what_would_be_found() {
        let recalling = Walker::find().unwrap();
        let mut taken = std::vec::Vec::new();
        for calls in [3, 9, 3, 20, 100].into_iter().cycle().take(20) {
            // From the same places of the stack, by the same way and by another one.
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
