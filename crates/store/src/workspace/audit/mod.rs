//! `state/audit/`: the audit log, an append-only chain of entries in a file for each month (UTC).
//!
//! Each entry contains a hash over itself and the entry before, so that a changed, removed or moved
//! entry is found ([`verify_audit`]). `state/audit-head.md` contains the number and hash of the newest
//! entry, so that entries missing at the end are found too. A thread writes ([`AuditLog`]), and
//! nothing waits for it. `docs/audit.md` explains what the chain proves. Tested here and in
//! `tests/gateway/audit.rs`.

mod chain;
mod files;
mod line;
mod reader;
mod verify;
mod writer;

use std::io;
use std::path::Path;

use self::files::AuditFiles;
pub use self::line::{AuditHead, AuditRecord};
pub use self::reader::{AuditCheck, AuditPosition, AuditQuery, AuditReader, AuditRow, AuditSlice};
pub use self::verify::{AuditFault, AuditReport};
pub use self::writer::AuditLog;

/// Checks the audit log of a configuration folder. `anchor` is an entry that somebody stored
/// elsewhere. Blocks.
///
/// # Errors
/// The files cannot be read.
pub fn verify_audit(config_dir: &Path, anchor: Option<&AuditHead>) -> io::Result<AuditReport> {
    verify::verify(&AuditFiles::new(config_dir), anchor)
}

/// Passes the entries of a configuration folder to `take`, in order, without a check of the chain.
/// Blocks.
///
/// # Errors
/// The files cannot be read.
pub fn read_audit(config_dir: &Path, take: impl FnMut(AuditRecord)) -> io::Result<()> {
    verify::read(&AuditFiles::new(config_dir), take)
}

#[cfg(test)]
mod tests;
