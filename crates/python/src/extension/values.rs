//! What a function is given, as values that know no Python.

use std::ffi::OsString;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple};

use super::wait::PROGRESS;
use crate::keywords::Value;

/// What is given by position.
pub fn all(places: &Bound<'_, PyTuple>) -> PyResult<Vec<Value>> {
    places.iter().map(|value| of(&value)).collect()
}

/// What is given by name, but for what is no option of the command.
pub fn named(names: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, Value)>> {
    let named = names.into_iter().flat_map(|names| names.iter());
    let named = named.map(|(name, value)| Ok((name.extract::<String>()?, value)));
    let of_command = named.filter(|named| !matches!(named, Ok((name, _)) if name == PROGRESS));
    of_command.map(|named| named.and_then(|(name, value)| Ok((name, of(&value)?)))).collect()
}

fn of(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::None);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Value::Bool(value.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Value::Int(value.str()?.to_string()));
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        return Ok(Value::Float(value.value()));
    }
    if value.is_instance_of::<PyString>() {
        // Names of files that are no Unicode are texts with halves of letters in them.
        return Ok(value
            .extract()
            .map_or_else(|_| Value::Path(value.extract::<OsString>().unwrap_or_default()), Value::Text));
    }
    if value.hasattr("__fspath__")? {
        return Ok(Value::Path(value.call_method0("__fspath__")?.extract()?));
    }
    // Whole numbers of other libraries.
    if value.hasattr("__index__")? {
        return Ok(Value::Int(value.call_method0("__index__")?.str()?.to_string()));
    }
    if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyDict>() {
        return Ok(Value::Other(type_name(value)));
    }
    match value.try_iter() {
        Ok(values) => Ok(Value::List(values.map(|value| of(&value?)).collect::<PyResult<_>>()?)),
        Err(_) => Ok(Value::Other(type_name(value))),
    }
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}
