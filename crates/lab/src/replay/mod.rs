//! Replay: a recording through the engine.
