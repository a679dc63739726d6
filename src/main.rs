//! The program: parses the command line, runs the command, and exits with its code.

use std::process::ExitCode;

/// `Cargo.toml` explains the choice of the allocator.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match aetheel::commands::complete() {
        Ok(false) => {}
        Ok(true) => return ExitCode::from(aetheel::cli::exit::OK),
        Err(error) => {
            // A failure cannot be reported without a terminal.
            let _ = error.print();
            return ExitCode::from(aetheel::cli::exit::USAGE);
        }
    }
    aetheel::commands::main(aetheel::commands::run)
}
