//! The state file, its lock and its journal.
