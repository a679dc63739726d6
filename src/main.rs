//! The program: parses the command line, runs the command, and exits with its code.

use std::io::Write as _;
use std::process::ExitCode;

use aetheel_model::choice::LogFormat;

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
    match aetheel::cli::parse() {
        Ok(cli) => ExitCode::from(aetheel::commands::run(cli)),
        Err(error) => {
            let wrong = error.use_stderr();
            if wrong && is_json() {
                let line = aetheel_runtime::log::fault_line(
                    LogFormat::Json,
                    error.render().to_string().trim_end(),
                );
                let _ = std::io::stderr().write_all(line.as_bytes());
            } else {
                // A failure cannot be reported without a terminal.
                let _ = error.print();
            }
            ExitCode::from(if wrong { aetheel::cli::exit::USAGE } else { aetheel::cli::exit::OK })
        }
    }
}

/// Returns whether a wrong command line is reported as JSON: if `LOG_FORMAT` is `json`, or if the
/// log of the command would be JSON.
fn is_json() -> bool {
    let logs = std::env::args().nth(1).is_some_and(|command| aetheel::cli::has_log(&command));
    match aetheel_runtime::log::format_from_environment() {
        LogFormat::Auto => logs && aetheel_runtime::log::is_json(LogFormat::Auto),
        format => format == LogFormat::Json,
    }
}
