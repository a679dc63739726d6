//! Opens components and recordings, and reports errors with an exit code.

use std::path::{Path, PathBuf};

use crate::cli::exit;
use crate::terminal::print_stderr;
use aetheel_kit::{Case, CaseError};
use aetheel_model::limits::ResourceLimits;
use aetheel_model::plain::with_causes;
use aetheel_settings::NAMES;
use aetheel_wasm::{AdmissionError, ComponentBackend, Engine, EngineError, Inspection};

/// An admitted component.
pub(super) struct OpenedComponent {
    pub(super) inspection: Inspection,
    pub(super) backend: ComponentBackend,
}

/// The reason why a trial could not be run or failed at once.
#[derive(Debug)]
pub(in crate::commands) struct KitError {
    /// The exit code of the program.
    pub(in crate::commands) code: u8,
    pub(in crate::commands) text: String,
    pub(in crate::commands) hint: Option<&'static str>,
}

impl KitError {
    /// Makes an error about the command's arguments, for example a missing file.
    pub(in crate::commands) fn usage(text: impl Into<String>) -> Self {
        Self { code: exit::USAGE, text: text.into(), hint: None }
    }

    pub(in crate::commands) fn failed(text: impl Into<String>) -> Self {
        Self { code: exit::FAILED, text: text.into(), hint: None }
    }

    /// Prints the error to stderr and returns the exit code.
    pub(in crate::commands) fn report(&self) -> u8 {
        print_stderr(&format!("error: {}", self.text));
        if let Some(hint) = self.hint {
            print_stderr(&format!("hint: {hint}"));
        }
        self.code
    }
}

/// Makes the sandbox with the default limits. Compiled code is stored in `CACHE_DIR`, if that
/// folder can be used.
pub(in crate::commands) fn engine() -> Result<Engine, KitError> {
    cached(Engine::new)
}

/// Like [`engine`], but failures of guests name source lines.
pub(super) fn explaining_engine() -> Result<Engine, KitError> {
    cached(Engine::explaining)
}

/// Like [`explaining_engine`], with these limits.
pub(super) fn limited_engine(limits: &ResourceLimits) -> Result<Engine, KitError> {
    cached_with(limits, Engine::explaining)
}

/// Like [`engine`], for a profile.
pub(super) fn profiling_engine() -> Result<Engine, KitError> {
    cached(Engine::profiling)
}

/// A constructor of [`Engine`].
type MakeEngine =
    fn(&ResourceLimits, Option<&Path>, &'static [&'static str]) -> Result<Engine, EngineError>;

fn cached(make: MakeEngine) -> Result<Engine, KitError> {
    cached_with(&ResourceLimits::default(), make)
}

fn cached_with(limits: &ResourceLimits, make: MakeEngine) -> Result<Engine, KitError> {
    let folder = aetheel_settings::cache_dir(|name| std::env::var(name).ok());
    let engine = make(limits, Some(&folder), NAMES).or_else(|_| make(limits, None, NAMES));
    engine.map_err(|error| KitError::usage(with_causes(&error)))
}

/// Loads a component with the same checks as the gateway.
pub(super) async fn component(engine: &Engine, path: &Path) -> Result<OpenedComponent, KitError> {
    match engine.open(path).await {
        Ok((inspection, backend)) => Ok(OpenedComponent { inspection, backend }),
        Err(error) => Err(refused(path, &error)),
    }
}

/// Returns the error of a component that is not admitted.
pub(in crate::commands) fn refused(path: &Path, error: &AdmissionError) -> KitError {
    let code = match error {
        AdmissionError::Read(_) | AdmissionError::NotAFile | AdmissionError::Changing => {
            exit::USAGE
        }
        _ => exit::FAILED,
    };
    let text = format!("{}: it {}", path.display(), with_causes(error));
    KitError { code, text, hint: Some(error.hint()) }
}

/// Reads recordings, including all recordings in folders.
pub(super) async fn cases(paths: Vec<PathBuf>) -> Result<Vec<Case>, KitError> {
    let read = move || -> Result<Vec<Case>, CaseError> {
        aetheel_kit::find(&paths)?.iter().map(|path| Case::read(path)).collect()
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(cases) => cases.map_err(|error| KitError::usage(error.to_string())),
        Err(error) => Err(KitError::usage(error.to_string())),
    }
}

/// Reads one recording.
pub(super) async fn case(path: PathBuf) -> Result<Case, KitError> {
    let mut found = cases(vec![path.clone()]).await?;
    match found.pop() {
        Some(case) if found.is_empty() => Ok(case),
        _ => Err(KitError::usage(format!("{}: name one recording", path.display()))),
    }
}

/// Returns the folders in which recordings are looked for by default: `X.cases` and `cases` beside
/// the component, and `cases` in the working directory.
pub(super) fn default_case_folders(component: &Path) -> Vec<PathBuf> {
    let own = aetheel_kit::selftest::folder_of(component);
    let beside = component.parent().unwrap_or(Path::new("")).join("cases");
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in [own, beside, PathBuf::from("cases")] {
        let same = |known: &PathBuf| {
            std::fs::canonicalize(known).ok() == std::fs::canonicalize(&folder).ok()
        };
        if aetheel_kit::find(std::slice::from_ref(&folder)).is_ok() && !folders.iter().any(same) {
            folders.push(folder);
        }
    }
    folders
}

/// Returns the name and version of a component.
pub(super) fn title(opened: &OpenedComponent) -> String {
    let descriptor = &opened.inspection.descriptor;
    format!("{} {}", descriptor.name, descriptor.version)
}
