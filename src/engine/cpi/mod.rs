//! One CPI: requests and answers, the process of a call, and the installation of its packages.
//!
//! A CPI is an executable that gets one JSON request on standard input and writes one JSON document to
//! standard output, with a new process for each call. Its log goes to standard error, and its exit status
//! means nothing. Source of the formats: `cpi-api-rpc.md` and `cpi-api-v1.md` to `cpi-api-v3.md` of the BOSH
//! documentation.
//!
//! Entry points: [`Cpi`], which makes calls; [`Method`], with the facts of each method; [`install`], which
//! compiles the packages of a CPI; [`userland`], the root file system in which a CPI runs.

mod answer;
mod answer_envelope;
mod client;
mod directory;
mod error;
pub mod install;
mod log;
mod methods;
mod process;
mod request_envelope;
pub mod userland;

pub use answer::{Answer, CheckedAnswer, CreatedVm, Info, ResultShape};
pub use answer_envelope::{MAX_ANSWER_BYTES, parse_answer};
pub use client::{CallObserver, Cpi, CpiRequest, CpiSettings, StopCause, read_answer};
pub(crate) use directory::create_private_directory;
pub use error::{CpiError, CpiErrorKind};
pub(crate) use error::{
    FAULTY_ANSWER_HINT, INTERPRETER_HINT, RERUN_WAITS_HINT, describe_missing_interpreter,
    message_or_placeholder,
};
pub(crate) use log::CallLog;
pub use methods::{Argument, ArgumentKind, Method, MethodFacts, MissingMethodConsequence, UnknownMethod};
pub use process::{Executable, OutputFiles};
pub(crate) use process::{read_kept_end, truncate_oversized_answer};
pub use request_envelope::RequestEnvelope;
