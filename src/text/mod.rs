//! Text that leaves the daemon: redaction of secrets, sanitising for terminals and logs, near names.
