//! The commands on an environment as a whole: create, delete, recreate, stop, start, restart, plan and
//! render.
//!
//! Entry points: [`create_env()`] and the other commands. `draft_plan.rs` decides on the steps, `run.rs`
//! and `teardown.rs` take them, and `vm.rs`, `disk.rs` and `snapshot.rs` implement single steps.

pub(crate) mod boot;
mod create_env;
mod delete_env;
pub(crate) mod disk;
mod draft_plan;
mod liveness;
mod mbus_certificate;
mod mbus_url;
mod plan_report;
mod reachable;
mod recreate;
mod render_job;
mod request;
mod restart;
mod run;
pub(crate) mod snapshot;
mod start_env;
mod step_timer;
mod stop_env;
mod teardown;
mod validate;
pub(crate) mod vm;

pub use crate::jobs::PackageCounts;
pub use crate::prepare::Overrides;
pub use create_env::create_env;
pub use delete_env::{Deletions, delete_env, find_deletions, records_only_failed_calls};
pub use plan_report::{PlanAction, PlanChange, PlanReport, plan_env};
pub use recreate::recreate;
pub(crate) use recreate::recreate_even_unfinished;
pub use render_job::{JobFile, RenderJobRequest, render_job};
pub use request::{CreateEnvRequest, DeleteEnvRequest, JobsRequest, StopOptions};
pub use restart::restart;
pub use snapshot::SnapshotPolicy;
pub use start_env::start_env;
pub use stop_env::stop_env;
