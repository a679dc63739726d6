//! Tests a component with its own recordings (`X.cases` beside `X.wasm`), which it must pass before
//! it serves.

use std::path::Path;
use std::sync::Arc;

use super::component::ComponentBackend;
use super::error::AdmissionError;
use super::instance::Blueprint;
use aetheel_model::agent::Descriptor;
use aetheel_recording::selftest;

/// Replays the recordings beside a component, and returns its descriptor and blueprint.
///
/// # Errors
/// [`AdmissionError::Case`] names the file, the line and the reason.
pub(super) async fn run_own_cases(
    path: &Path,
    descriptor: Descriptor,
    blueprint: Arc<Blueprint>,
) -> Result<(Descriptor, Arc<Blueprint>), AdmissionError> {
    let folder = selftest::folder_of(path);
    let cases = tokio::task::spawn_blocking(move || selftest::read(&folder));
    let cases = cases
        .await
        .map_err(|error| AdmissionError::Read(std::io::Error::other(error)))?
        .map_err(AdmissionError::Case)?;
    if cases.is_empty() {
        return Ok((descriptor, blueprint));
    }
    let candidate = ComponentBackend::on_trial(descriptor, String::new(), blueprint);
    selftest::run(&candidate, &cases).await.map_err(AdmissionError::Case)?;
    Ok(candidate.into_parts())
}
