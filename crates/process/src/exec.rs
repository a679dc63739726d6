//! Replaces this program by another one in the same process, with the same terminal and
//! environment.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Executes a program with these arguments (execve(2)). Returns only if that fails, with the
/// system's error.
pub fn exec_program(program: &Path, arguments: &[OsString]) -> io::Error {
    Command::new(program).args(arguments).exec()
}
