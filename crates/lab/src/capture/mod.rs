//! Capture: reading a live kernel through tracefs and procfs.
