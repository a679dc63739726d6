//! `aetheel backend mirror`: copies backends from registries into a folder, for machines without a
//! network. Tested by `tests/artifacts`.

use std::path::Path;

use super::artifacts::ArtifactAccess;
use super::locked;
use super::open::KitError;
use crate::cli::exit;
use crate::oci::{ArtifactReference, LayoutFolder};
use crate::startup::settings::OperatorSettings;
use crate::terminal;

pub(in crate::commands) async fn run(
    settings: &OperatorSettings,
    folder: &Path,
    references: Vec<ArtifactReference>,
) -> u8 {
    match mirror(settings, folder, references).await {
        Ok(()) => exit::OK,
        Err(error) => {
            let text = settings.redactor.redact(error.text);
            KitError { text, ..error }.report()
        }
    }
}

async fn mirror(
    settings: &OperatorSettings,
    folder: &Path,
    mut references: Vec<ArtifactReference>,
) -> Result<(), KitError> {
    if references.is_empty() {
        let lock = locked::read(&settings.config)?;
        references = lock.entries().iter().map(locked::reference_of).collect::<Result<_, _>>()?;
    }
    if references.is_empty() {
        let nothing = "backends.lock.md names no backend; name references (`oci://HOST/NAME:TAG`)";
        return Err(KitError::usage(nothing));
    }
    let access = ArtifactAccess::new(settings, None);
    let mut mirrored = LayoutFolder::open_or_create(folder)?;
    for reference in &references {
        let artifact = access.fetch(reference).await?;
        mirrored.add(reference, &artifact)?;
        terminal::line(&format!("copied {}", reference.with_digest(artifact.digest().clone())));
    }
    Ok(())
}
