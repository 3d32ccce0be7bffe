//! Shortening of a failing list of steps: leaves out parts as long as the rest still fails.

use std::panic::{self, AssertUnwindSafe};

/// Maximum number of runs for shortening.
const ATTEMPTS_MAX: u32 = 600;

/// Returns the result of a run. A panic of the engine becomes an error.
pub(crate) fn outcome<R>(run: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.into()));
        Err(format!("the engine panicked: {}", text.unwrap_or_default()))
    })
}

/// Returns a shorter list of steps that fails too, and the failure.
pub(crate) fn shrink<S: Clone, R>(steps: &[S], run: impl Fn(&[S]) -> Result<R, String>) -> (Vec<S>, String) {
    let mut steps = steps.to_vec();
    let mut problem = String::new();
    let mut attempts = 0;
    let mut chunk = steps.len() / 2;
    while chunk > 0 {
        let mut start = 0;
        while start < steps.len() && attempts < ATTEMPTS_MAX {
            attempts += 1;
            let rest = [&steps[..start], &steps[(start + chunk).min(steps.len())..]].concat();
            match outcome(|| run(&rest)) {
                Ok(_) => start += chunk,
                Err(still) => (steps, problem) = (rest, still),
            }
        }
        chunk /= 2;
    }
    (steps, problem)
}
