//! x
use std::path::Path;
use crate::error::Error;
use crate::input::Input;
use crate::item::{Sink, Told};
pub(crate) const FORMAT: &str = "X";
pub(crate) fn is_text(_head: &[u8]) -> bool { false }
pub(crate) fn read(_path: &Path, _input: Input, _sink: Sink<'_>) -> Result<Told, Error> { Ok(Told::default()) }
