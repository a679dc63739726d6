//! Errors and recordings of the commands of `aetheel-kit`, which `aetheel backend install` uses too.

use std::path::PathBuf;

use crate::cli::exit;
use crate::terminal::print_stderr;
use aetheel_recording::case::{Case, CaseError};

/// The reason why a trial could not be run or failed at once.
#[derive(Debug)]
pub struct KitError {
    /// The exit code of the program.
    pub code: u8,
    /// The message, without `error: `.
    pub text: String,
    /// The next step.
    pub hint: Option<&'static str>,
}

impl KitError {
    /// Makes an error about the command's arguments, for example a missing file.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { code: exit::USAGE, text: text.into(), hint: None }
    }

    /// Makes an error about a trial that failed.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { code: exit::FAILED, text: text.into(), hint: None }
    }

    /// Prints the error to stderr and returns the exit code.
    pub fn report(&self) -> u8 {
        print_stderr(&format!("error: {}", self.text));
        if let Some(hint) = self.hint {
            print_stderr(&format!("hint: {hint}"));
        }
        self.code
    }
}

/// Reads recordings, including all recordings in folders.
///
/// # Errors
/// A recording cannot be read.
pub async fn read_cases(paths: Vec<PathBuf>) -> Result<Vec<Case>, KitError> {
    let read = move || -> Result<Vec<Case>, CaseError> {
        aetheel_recording::case::find(&paths)?.iter().map(|path| Case::read(path)).collect()
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(cases) => cases.map_err(|error| KitError::usage(error.to_string())),
        Err(error) => Err(KitError::usage(error.to_string())),
    }
}
