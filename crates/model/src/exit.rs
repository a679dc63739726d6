//! Exit codes, after sysexits.h.

/// The command succeeded.
pub const OK: u8 = 0;
/// The command failed: for example, a prompt of a scripted console got no answer, a comparison of recordings
/// showed differences, or an upgrade was not done.
pub const FAILED: u8 = 1;
/// `aetheel doctor` found warnings only.
pub const WARNINGS: u8 = 1;
/// `aetheel doctor` found faults.
pub const FAULTS: u8 = 2;
/// `aetheel status` found no gateway. The same code as that of `systemctl status`.
pub const NOT_RUNNING: u8 = 3;
/// The command line is wrong.
pub const USAGE: u8 = 64;
/// A backend, an agent or another resource is missing or unusable.
pub const UNAVAILABLE: u8 = 69;
/// A bug in this program.
pub const SOFTWARE: u8 = 70;
/// Another gateway serves the same CONFIG_DIR.
pub const LOCKED: u8 = 73;
/// Discord, an agent's service or the database of a cluster could not be reached for too long.
/// Another start may succeed.
pub const TEMPORARY: u8 = 75;
/// Discord refused the token.
pub const NO_PERMISSION: u8 = 77;
/// The configuration is wrong.
pub const CONFIG: u8 = 78;
