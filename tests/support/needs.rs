//! The programs and kernel features that tests need.
//!
//! A test that cannot run fails. `AETHEEL_TEST_WITHOUT` lists, separated by commas, the names of
//! the needs that this machine cannot meet: their tests are left out.

use std::process::{Command, Stdio};

use aetheel_model::choice::SandboxMode;
use aetheel_process::Sandbox;

const LEFT_OUT: &str = "AETHEEL_TEST_WITHOUT";

/// Returns whether a test has what it needs, or `false` if its need is left out.
///
/// # Panics
/// The need is not met, and not left out.
pub fn met(name: &str, found: Result<(), String>, hint: &str) -> bool {
    let Err(reason) = found else { return true };
    let left_out = std::env::var(LEFT_OUT).unwrap_or_default();
    assert!(
        left_out.split(',').any(|left_out| left_out == name),
        "{name}: {reason}\nhint: {hint}; or {LEFT_OUT}={name} leaves these tests out"
    );
    eprintln!("LEFT OUT: {name}: {reason}");
    false
}

/// Returns whether a program can be started. See [`met`].
pub fn program(name: &str, package: &str) -> bool {
    let mut command = Command::new(name);
    command.arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let found = command.status().map(drop).map_err(|error| error.to_string());
    met(name, found, &format!("install the package {package}"))
}

/// Returns whether the kernel supports the default sandbox. See [`met`].
pub fn landlock() -> bool {
    let found = Sandbox::probe(SandboxMode::Landlock).map(drop).map_err(|why| why.to_string());
    met("landlock", found, "use Linux 6.2 or later")
}
