//! The panic hook of the process, shared by all tests. It records the file in which each thread panicked last, and
//! prints nothing about planned panics.

use std::cell::RefCell;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::{Once, PoisonError, RwLock};

/// Returns whether a test planned the panic.
type Filter = fn(&PanicHookInfo<'_>) -> bool;

static PLANNED: RwLock<Vec<Filter>> = RwLock::new(Vec::new());

thread_local! {
    static PANICKED_IN: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Installs the hook, once for the process.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |panic| {
            let file = panic.location().map_or_else(String::new, |location| location.file().to_owned());
            PANICKED_IN.with_borrow_mut(|panicked_in| *panicked_in = file);
            let filters = PLANNED.read().unwrap_or_else(PoisonError::into_inner);
            if !filters.iter().any(|is_planned| is_planned(panic)) {
                previous(panic);
            }
        }));
    });
}

/// Suppresses the output of panics for which `is_planned` returns true, on any thread, from now on.
pub(crate) fn silence(is_planned: Filter) {
    install();
    PLANNED.write().unwrap_or_else(PoisonError::into_inner).push(is_planned);
}

/// Suppresses the output of panics with a payload of type `T`, on any thread, from now on.
pub(crate) fn silence_payload<T: 'static>() {
    silence(|panic| panic.payload().is::<T>());
}

/// Returns the file in which this thread last panicked since the hook was installed.
pub(crate) fn last_panic_file() -> String {
    PANICKED_IN.with_borrow(String::clone)
}
