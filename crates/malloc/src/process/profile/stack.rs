//! The calls that led to a request: return addresses, the latest first.
//!
//! They are found by `_Unwind_Backtrace` of `libgcc_s`, which C++ programs have loaded already, and which needs no more
//! than the tables that exceptions need. It is looked for once, when profiling starts, so that nothing is linked for it;
//! without it stacks are empty. It may allocate and take the loader's lock: so stacks are taken outside of slow paths, and
//! a word of the thread says that what is asked for meanwhile is not sampled.

use core::ffi::{c_int, c_void};
use core::mem::{size_of, transmute};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use crate::os::thread::Thread;

/// Calls of a stack at most; those further out are left away.
pub(super) const FRAMES: usize = 64;

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
    functions: Option<(Backtrace, Address)>,
    /// The code of this library, whose own calls are not the program's; nothing if it is a part of the program.
    own: Range<usize>,
}

/// Return addresses, the latest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    count: usize,
    frames: [usize; FRAMES],
}

impl Stack {
    pub const EMPTY: Stack = Stack { count: 0, frames: [0; FRAMES] };

    pub fn frames(&self) -> &[usize] {
        &self.frames[..self.count]
    }
}

struct Walk<'w> {
    walker: &'w Walker,
    address: Address,
    stack: Stack,
}

impl Walker {
    /// Loads what walks stacks; without functions if there is nothing.
    pub fn find() -> Walker {
        // SAFETY: names that end in zero; the library has the functions by these names, of these types.
        let functions = unsafe {
            let library = libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_NOW);
            let function = |name: &core::ffi::CStr| libc::dlsym(library, name.as_ptr());
            let found = [c"_Unwind_Backtrace", c"_Unwind_GetIP"]
                .map(|name| if library.is_null() { core::ptr::null_mut() } else { function(name) });
            let all = found.iter().all(|address| !address.is_null());
            all.then(|| (transmute::<*mut c_void, Backtrace>(found[0]), transmute::<*mut c_void, Address>(found[1])))
        };
        Walker { functions, own: own_code() }
    }

    pub fn is_there(&self) -> bool {
        self.functions.is_some()
    }

    /// The stack of the calling thread.
    #[inline(never)]
    pub fn walk(&self, thread: &Thread) -> Stack {
        let Some((backtrace, address)) = self.functions else { return Stack::EMPTY };
        let mut walk = Walk { walker: self, address, stack: Stack::EMPTY };
        thread.takes_stack.store(1, Relaxed);
        // SAFETY: the function gets the walk that it is called for, which lives until it returns.
        unsafe { backtrace(visit, (&raw mut walk).cast()) };
        thread.takes_stack.store(0, Relaxed);
        walk.stack
    }
}

extern "C" fn visit(context: *mut Context, walk: *mut c_void) -> c_int {
    // SAFETY: `walk` above passes a walk, which nobody else uses meanwhile; the context is the unwinder's.
    let (walk, address) = unsafe {
        let walk = &mut *walk.cast::<Walk<'_>>();
        let address = (walk.address)(context);
        (walk, address)
    };
    let stack = &mut walk.stack;
    if address == 0 {
        return ENOUGH;
    }
    if stack.count == 0 && walk.walker.own.contains(&address) {
        return GO_ON;
    }
    stack.frames[stack.count] = address;
    stack.count += 1;
    if stack.count == FRAMES { ENOUGH } else { GO_ON }
}

/// The segments of the library that this function is in, unless that is the program itself.
fn own_code() -> Range<usize> {
    extern "C" fn look(object: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
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
    const { assert!(size_of::<usize>() >= size_of::<libc::Elf64_Addr>(), "addresses of objects are addresses") };
    // SAFETY: the function takes what it is given, and the range lives until it returns.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::thread;

    #[inline(never)]
    fn outer(walker: &Walker) -> Stack {
        core::hint::black_box(walker.walk(thread::current()))
    }

    #[test]
    fn a_stack_goes_through_its_caller() {
        let walker = Walker::find();
        assert!(walker.is_there(), "what tests are made with has an unwinder");
        let stack = outer(&walker);
        let start = (outer as *const ()).addr();
        assert!(stack.frames().iter().any(|frame| (start..start + 4096).contains(frame)), "{stack:?}");
        assert_eq!(thread::current().takes_stack.load(Relaxed), 0);
    }

    #[test]
    fn a_deep_stack_ends_at_the_latest_calls() {
        fn deep(walker: &Walker, calls: u32) -> Stack {
            let stack = if calls == 0 { outer(walker) } else { deep(walker, calls - 1) };
            core::hint::black_box(stack)
        }
        assert_eq!(deep(&Walker::find(), 100).frames().len(), FRAMES);
        assert!(deep(&Walker { functions: None, own: 0..0 }, 3).frames().is_empty());
    }
}
