//! The running program: clock, lease, supervision of tasks, metrics, log and safe reads of files.
//!
//! Both programs, the gateway and the holder, use this crate. Unlike the data model below it, it
//! reads the clock, starts tasks and writes to stderr. Must not depend on files of the operator.

pub mod clock;
pub mod figures;
pub mod lease;
pub mod log;
pub mod ordinary;
pub mod supervisor;
