//! The running program: clock, lease, supervision of tasks, metrics, log and safe reads of files.
//!
//! Both programs, the gateway and the holder, use this crate. Unlike the data model below it, it
//! reads the clock, starts tasks and writes to stderr. Must not depend on files of the operator.
//!
//! | module | content |
//! |---|---|
//! | [`clock`] | the clock of the use cases, which tests can set |
//! | [`lease`] | how long this gateway may write to Discord and its agents may run |
//! | [`supervisor`] | tasks and threads that must run as long as the program |
//! | [`figures`], [`log`] | metrics, and the log |
//! | [`ordinary`] | reads regular files only |

pub mod clock;
pub mod figures;
pub mod lease;
pub mod log;
pub mod ordinary;
pub mod supervisor;
