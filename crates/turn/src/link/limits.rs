//! The limits of a link, which the errors of its actions name.

/// Maximum number of secrets of a link.
pub(super) const SECRETS: usize = 8;
/// How often a guest may send the contents of one file. Each time they are copied in memory.
pub(super) const DELIVERIES: u8 = 4;
/// Maximum number of files that a link may put, and the maximum size of each in bytes.
pub(super) const FILES: usize = 8;
pub(super) const FILE_SIZE: usize = 1 << 20;
/// Maximum number of processes that a link may start between the beginnings of two turns.
pub(super) const STARTS: u32 = 8;
/// Maximum number of processes that a link may have at the same time. Two are typical: one that
/// exits and one that starts.
pub(super) const AT_ONCE: usize = 4;
