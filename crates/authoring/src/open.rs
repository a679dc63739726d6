//! Opens components and recordings.

use std::path::{Path, PathBuf};

use aetheel::cli::exit;
use aetheel::commands::kit::{KitError, read_cases};
use aetheel_model::limits::ResourceLimits;
use aetheel_model::plain::with_causes;
use aetheel_recording::case::Case;
use aetheel_settings::NAMES;
use aetheel_wasm::{AdmissionError, ComponentBackend, Engine, EngineError, Inspection};

pub(crate) struct OpenedComponent {
    pub(crate) inspection: Inspection,
    pub(crate) backend: ComponentBackend,
}

/// Makes the sandbox with the default limits. Compiled code is stored in `CACHE_DIR`, if that
/// folder can be used.
pub(crate) fn engine() -> Result<Engine, KitError> {
    cached(Engine::new)
}

/// Like [`engine`], but failures of guests name source lines.
pub(crate) fn explaining_engine() -> Result<Engine, KitError> {
    cached(Engine::explaining)
}

/// Like [`explaining_engine`], with these limits.
pub(crate) fn limited_engine(limits: &ResourceLimits) -> Result<Engine, KitError> {
    cached_with(limits, Engine::explaining)
}

/// Like [`engine`], for a profile.
pub(crate) fn profiling_engine() -> Result<Engine, KitError> {
    cached(Engine::profiling)
}

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
pub(crate) async fn component(engine: &Engine, path: &Path) -> Result<OpenedComponent, KitError> {
    match engine.open(path).await {
        Ok((inspection, backend)) => Ok(OpenedComponent { inspection, backend }),
        Err(error) => Err(refused(path, &error)),
    }
}

pub(crate) fn refused(path: &Path, error: &AdmissionError) -> KitError {
    let code = match error {
        AdmissionError::Read(_) | AdmissionError::NotAFile | AdmissionError::Changing => {
            exit::USAGE
        }
        _ => exit::FAILED,
    };
    let text = format!("{}: it {}", path.display(), with_causes(error));
    KitError { code, text, hint: Some(error.hint()) }
}

pub(crate) async fn case(path: PathBuf) -> Result<Case, KitError> {
    let mut found = read_cases(vec![path.clone()]).await?;
    match found.pop() {
        Some(case) if found.is_empty() => Ok(case),
        _ => Err(KitError::usage(format!("{}: name one recording", path.display()))),
    }
}

/// Returns the folders in which recordings are looked for by default: `X.cases` and `cases` beside
/// the component, and `cases` in the working directory.
pub(crate) fn default_case_folders(component: &Path) -> Vec<PathBuf> {
    let own = aetheel_recording::selftest::folder_of(component);
    let beside = component.parent().unwrap_or(Path::new("")).join("cases");
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in [own, beside, PathBuf::from("cases")] {
        let same = |known: &PathBuf| {
            std::fs::canonicalize(known).ok() == std::fs::canonicalize(&folder).ok()
        };
        if aetheel_recording::case::find(std::slice::from_ref(&folder)).is_ok()
            && !folders.iter().any(same)
        {
            folders.push(folder);
        }
    }
    folders
}

pub(crate) fn title(opened: &OpenedComponent) -> String {
    let descriptor = &opened.inspection.descriptor;
    format!("{} {}", descriptor.name, descriptor.version)
}
