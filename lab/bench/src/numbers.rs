//! Times and ratios as text, with the number of digits that is significant.

use freehold_report::number;

/// Formats nanoseconds or ticks.
pub(crate) fn format_time(time: f64) -> String {
    if time < 10.0 { format!("{time:.2}") } else { number::decimal(time) }
}

/// Formats a ratio.
pub(crate) fn format_ratio(ratio: f64) -> String {
    match ratio {
        ..0.1 => format!("{ratio:.4}"),
        ..10.0 => format!("{ratio:.3}"),
        _ => format!("{ratio:.1}"),
    }
}
