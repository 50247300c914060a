//! A state in a bucket: commands that work on it, its lease, and what goes wrong on the way there. That a run that was
//! killed is finished on another machine is in `crash::shared`.

mod lease;
mod place;
