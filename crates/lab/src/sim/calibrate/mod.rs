//! Calibration: this machine's cost table, and whether the simulation is to be believed with it.

mod lines;
