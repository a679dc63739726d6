//! The program `aetheel-kit`, which `aetheel` starts for the commands of backend authors.

use std::process::ExitCode;

/// `Cargo.toml` of the workspace explains the choice of the allocator.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    aetheel::commands::main(aetheel_authoring::run)
}
