//! Components that are tried rather than served: no breaker, nothing in the log, their use of
//! limits measured; and the recordings a component brings along to be tried with.

use std::path::Path;
use std::sync::Arc;

use super::admission::{AdmissionError, Inspection};
use super::component::ComponentBackend;
use super::engine::Engine;
use super::instance::Blueprint;
use super::source;
use crate::agent::Descriptor;
use crate::kit;

impl Engine {
    /// Admits a component as loading does, its own recordings included, and opens it to be tried.
    ///
    /// # Errors
    /// [`AdmissionError`], the reason why it could not serve.
    pub async fn open(
        &self,
        path: &Path,
    ) -> Result<(Inspection, ComponentBackend), AdmissionError> {
        let source = source::read(path.to_owned(), self.limits().component).await?;
        let size = source.bytes.len() as u64;
        let admitted = self.admit(source.bytes, path).await?;
        let inspection = Inspection {
            descriptor: admitted.descriptor.clone(),
            contract: admitted.contract,
            imports: admitted.imports,
            size,
            digest: source.digest.clone(),
        };
        Ok((
            inspection,
            ComponentBackend::on_trial(admitted.descriptor, source.digest, admitted.blueprint),
        ))
    }
}

/// Replays the recordings beside a component (`X.cases` beside `X.wasm`) and gives back what was
/// lent.
///
/// # Errors
/// [`AdmissionError::Case`] names the file, the line and the reason.
pub(super) async fn own_recordings(
    path: &Path,
    descriptor: Descriptor,
    blueprint: Arc<Blueprint>,
) -> Result<(Descriptor, Arc<Blueprint>), AdmissionError> {
    let folder = kit::selftest::folder_of(path);
    let cases = tokio::task::spawn_blocking(move || kit::selftest::read(&folder));
    let cases = cases
        .await
        .map_err(|error| AdmissionError::Read(std::io::Error::other(error)))?
        .map_err(AdmissionError::Case)?;
    if cases.is_empty() {
        return Ok((descriptor, blueprint));
    }
    let candidate = ComponentBackend::on_trial(descriptor, String::new(), blueprint);
    kit::selftest::run(&candidate, &cases).await.map_err(AdmissionError::Case)?;
    Ok(candidate.into_parts())
}
