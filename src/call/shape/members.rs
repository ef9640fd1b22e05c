//! Reading what a server sent without losing the whole for a part: a member of the wrong type is only itself lost.

use std::{borrow::Cow, collections::HashMap};

use serde_json::value::RawValue;

/// The members of an object. Of a key that comes twice the last value counts; null is as good as absent.
#[derive(Default)]
pub(super) struct Members<'a>(HashMap<Cow<'a, str>, &'a RawValue>);

impl<'a> Members<'a> {
    /// `None` when it is no object.
    pub(super) fn of(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok().map(Self)
    }

    pub(super) fn raw(&self, key: &str) -> Option<&'a RawValue> {
        self.0.get(key).copied().filter(|raw| raw.get() != "null")
    }

    /// A member that is a text.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.raw(key).and_then(as_text)
    }

    /// A member that should be a text: any other value as JSON.
    pub(super) fn any_text(&self, key: &str) -> Option<String> {
        let raw = self.raw(key)?;
        Some(as_text(raw).unwrap_or_else(|| raw.get().to_owned()))
    }

    /// A member that should be a list: anything else is its only element.
    pub(super) fn list(&self, key: &str) -> Vec<&'a RawValue> {
        let Some(raw) = self.raw(key) else {
            return Vec::new();
        };
        serde_json::from_str(raw.get()).unwrap_or_else(|_| vec![raw])
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.raw(key).is_some_and(|raw| raw.get() == "true")
    }
}

pub(super) fn as_text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}
