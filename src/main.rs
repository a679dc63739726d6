//! The program: reads the command line, runs it, exits with its code.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match aetheel::cli::Cli::try_parse() {
        Ok(cli) => ExitCode::from(aetheel::app::run(cli)),
        Err(error) => {
            let wrong = error.use_stderr();
            // Nothing is left to say when the terminal is gone.
            let _ = error.print();
            ExitCode::from(if wrong { aetheel::cli::exit::USAGE } else { aetheel::cli::exit::OK })
        }
    }
}
