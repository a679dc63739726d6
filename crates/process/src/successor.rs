//! Becoming another program: what this one was is gone, and its process, terminal and environment
//! go on.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Becomes a program with these arguments. Returns only where that fails, with what the system says.
pub fn become_program(program: &Path, arguments: &[OsString]) -> io::Error {
    Command::new(program).args(arguments).exec()
}
