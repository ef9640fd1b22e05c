//! The parameters of a method.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::{Code, RpcError};

/// Reads `params`; absent and null are `{}`.
pub(super) fn read<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<T, RpcError> {
    let text = params
        .map(RawValue::get)
        .filter(|text| *text != "null")
        .unwrap_or("{}");
    if !text.starts_with('{') {
        // serde would take a list for a struct as well, by position.
        return Err(RpcError::new(Code::InvalidParams, "params: expected an object"));
    }
    serde_json::from_str(text).map_err(|error| RpcError::new(Code::InvalidParams, format!("params: {error}")))
}
