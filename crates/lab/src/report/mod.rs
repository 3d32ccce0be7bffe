//! Reports: what commands found, as values.
