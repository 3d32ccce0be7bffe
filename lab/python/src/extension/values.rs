//! Conversion of Python arguments to values without Python types.

use std::ffi::OsString;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple};

use super::errors;
use crate::keywords::{OF_EVERY_CALL as PROGRESS, Value};

/// Reads the positional arguments.
pub(super) fn read_positional(places: &Bound<'_, PyTuple>) -> PyResult<Vec<Value>> {
    places.iter().map(|value| read_value(&value)).collect()
}

/// Reads the keyword arguments, except the one that is not an option of the command.
pub(super) fn read_named(names: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, Value)>> {
    let mut keywords = Vec::new();
    for (key, value) in names.into_iter().flat_map(|names| names.iter()) {
        let name = key.extract::<String>()?;
        if name != PROGRESS {
            keywords.push((name, read_value(&value)?));
        }
    }
    Ok(keywords)
}

/// Most values of a list in a call. More values are a mistake, such as an endless iterator.
const VALUES_MAX: usize = 1 << 20;
/// Number of list values between two checks for signals.
const STRIDE: usize = 1 << 12;

/// Reads a value, or the values of a list. A list in a list is not a valid argument of any command.
fn read_value(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Some(single) = read_single(value)? {
        return Ok(single);
    }
    let Ok(values) = value.try_iter() else { return Ok(Value::Other(type_name(value))) };
    let mut list = Vec::new();
    for item in values {
        let member = item?;
        list.push(read_single(&member)?.unwrap_or_else(|| Value::Other(type_name(&member))));
        if list.len() > VALUES_MAX {
            return Err(errors::call(value.py(), &format!("more than {VALUES_MAX} values in a list are too many")));
        }
        if list.len().is_multiple_of(STRIDE) {
            value.py().check_signals()?;
        }
    }
    Ok(Value::List(list))
}

/// Reads a single value; returns `None` for a value that may be a list.
fn read_single(value: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    if let Some(number) = unwrap_numpy(value)? {
        return read_single(&number);
    }
    Ok(Some(if value.is_none() {
        Value::None
    } else if let Ok(value) = value.cast::<PyBool>() {
        Value::Bool(value.is_true())
    } else if value.is_instance_of::<PyInt>() {
        Value::Int(value.str()?.to_string())
    } else if let Ok(value) = value.cast::<PyFloat>() {
        Value::Float(value.value())
    } else if value.is_instance_of::<PyString>() {
        text(value)
    } else if value.hasattr("__fspath__")? {
        Value::Path(value.call_method0("__fspath__")?.extract()?)
    } else if value.hasattr("__index__")? {
        Value::Int(value.call_method0("__index__")?.str()?.to_string())
    } else if value.hasattr("__float__")? {
        Value::Float(value.call_method0("__float__")?.extract()?)
    } else if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyDict>() {
        Value::Other(type_name(value))
    } else {
        return Ok(None);
    }))
}

/// Converts a numpy number to a Python number. A numpy number has a `dtype` and zero dimensions.
fn unwrap_numpy<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let is_number = value.hasattr("dtype")? && value.getattr("ndim").is_ok_and(|ndim| ndim.eq(0).unwrap_or(false));
    let number = if is_number { Some(value.call_method0("item")?) } else { None };
    // If `item` returns the value itself or another numpy object, the value is not a plain number.
    Ok(number.filter(|number| !number.is(value) && !number.hasattr("dtype").unwrap_or(true)))
}

/// Reads a text. A file name that is not Unicode is a `str` with lone surrogates, which is read as a path. A `str` with
/// other lone surrogates is invalid.
fn text(value: &Bound<'_, PyAny>) -> Value {
    value.extract().map(Value::Text).unwrap_or_else(|_| {
        let name = value.extract::<OsString>().map(Value::Path);
        name.unwrap_or_else(|_| Value::Other("a str with a lone surrogate".to_owned()))
    })
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    let kind = value.get_type();
    kind.fully_qualified_name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}
