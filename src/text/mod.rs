//! Text that leaves the daemon: redaction of secrets, sanitising for terminals and logs, near names. Imports nothing
//! of this crate. Nothing here panics, whatever comes in.

mod nearest;
mod redact;
mod sanitize;
mod surrogates;

pub use nearest::nearest;
pub use redact::Redactor;
pub use sanitize::{one_line, sanitize, truncate};
pub use surrogates::repair_surrogates;
