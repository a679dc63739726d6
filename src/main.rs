//! The program: reads the command line, runs it, exits with its code.

use std::io::Write as _;
use std::process::ExitCode;

use aetheel::config::LogFormat;

/// See `Cargo.toml`.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match aetheel::cli::parse() {
        Ok(cli) => ExitCode::from(aetheel::commands::run(cli)),
        Err(error) => {
            let wrong = error.use_stderr();
            if wrong && is_json() {
                let line = aetheel::telemetry::fault_line(
                    LogFormat::Json,
                    error.render().to_string().trim_end(),
                );
                let _ = std::io::stderr().write_all(line.as_bytes());
            } else {
                // Nothing is left to say when the terminal is gone.
                let _ = error.print();
            }
            ExitCode::from(if wrong { aetheel::cli::exit::USAGE } else { aetheel::cli::exit::OK })
        }
    }
}

/// Whether a wrong command line is reported as JSON: where `LOG_FORMAT` says so, and for commands
/// whose log would be JSON.
fn is_json() -> bool {
    let logs = std::env::args().nth(1).is_some_and(|command| aetheel::cli::has_log(&command));
    match std::env::var("LOG_FORMAT").as_deref().map(str::trim) {
        Ok("json") => true,
        Ok("human") => false,
        _ => logs && aetheel::telemetry::is_json(LogFormat::Auto),
    }
}
