//! The integration tests: one binary that drives the real program.
