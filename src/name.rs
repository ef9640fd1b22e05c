//! The three kinds of names, as types, so that an original name can never be used where an exposed one is meant.

use std::{borrow::Borrow, fmt, sync::Arc};

use serde::Serialize;

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a name as it is.
            pub fn new(name: impl Into<Arc<str>>) -> Self {
                Self(name.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self::new(name)
            }
        }
    };
}

name_type! {
    /// The key of a server under `mcp_servers`, exactly as the user wrote it.
    ServerName
}
name_type! {
    /// A tool's original name, as its server lists it. Filters match it and the wire to the server carries it.
    ToolName
}
name_type! {
    /// A tool's name in the merged list: `[A-Za-z0-9_]`, at most 64 bytes, unique in the catalog.
    ExposedName
}
