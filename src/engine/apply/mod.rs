//! Runs a plan: step, effect, state. The only place that sees `cpi`, `agent` and `state` together.
//!
//! [`create_env`], [`delete_env`], [`stop_env`] and [`start_env`] are the operations; `prepare` turns a request into what a plan needs,
//! `run` takes the steps, and the other files each know one part of the world: the CPIs (`cloud`, `cpis`), the VM and its
//! agent (`vm`), disks, jobs.

mod alive;
mod check;
mod cloud;
mod compiled;
mod connect;
mod connection;
mod cpi_names;
mod cpi_source;
mod cpis;
mod create_env;
mod delete_env;
mod deletion;
mod disk;
mod draft_plan;
mod effect;
mod environment;
mod existing;
mod formats;
mod identity;
pub mod inspect;
mod jobs;
mod lifecycle;
mod lock;
mod log_archive;
mod logs;
mod obtain;
mod open_call_errors;
mod open_cpi;
mod packages;
mod plan_report;
mod prepare;
pub mod records;
mod recreate;
mod registry;
mod render;
mod render_job;
mod request;
pub mod resources;
mod restart;
mod resume;
mod run;
mod signals;
mod start_env;
mod step_timer;
mod stop_env;
mod suspects;
mod vm;

pub use check::{CloudCheck, CloudChecked, Problem, ProblemKind, Repair, Treated, Tried, cloud_check};
pub use create_env::create_env;
pub use delete_env::delete_env;
pub use environment::{Ask, Confirm, Environment, Paths};
pub use open_cpi::{LifeOf, OpenCpi, OpenedCpi, open_cpi, open_stemcell};
pub use packages::Supply;
pub use plan_report::{Action, PlanChange, PlanReport, plan_env};
pub use recreate::recreate;
pub use render_job::{File, RenderJob, render_job};
pub use request::{CreateEnv, DeleteEnv, OnJobs, Stopping};
pub use restart::restart;
pub use start_env::start_env;
pub use stop_env::stop_env;
