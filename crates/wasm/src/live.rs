//! Serves versions in development, each in one channel ([`LiveFolder`](aetheel_store::workspace::LiveFolder)).
//!
//! Such a version passes the same checks as any other, but is not in the backends folder. It serves
//! its channel as long as the program runs that handed it over.

use std::path::PathBuf;
use std::sync::Arc;

use super::admitter::Admitter;
use super::candidates::{Candidates, ServingBackend};
use super::component::ComponentBackend;
use super::error::AdmissionError;
use super::keeper::ComponentKeeper;
use super::live_versions::{LiveLoader, LiveVersion};
use super::source::ComponentSource;
use super::version_error::short;
use aetheel_model::plain::with_causes;
use aetheel_recording::{Backend as _, Generation};
use aetheel_store::disk::Stamp;
use aetheel_store::workspace::{LiveAnswer, LiveVersionFile};

/// The reason why a version in development does not serve. The texts are for its author.
#[derive(Debug, thiserror::Error)]
enum LiveRefusal {
    /// A version in development replaces another one in its channel.
    #[error(
        "no other version of `{0}` serves; hint: `aetheel backend install` installs the first one"
    )]
    NothingServes(String),
    /// The component has another name than the file.
    #[error("it is a version of `{0}`")]
    OtherBackend(String),
    /// The component is not trusted or not admitted.
    #[error("it {}; hint: {}", with_causes(.0), .0.hint())]
    NotAdmitted(#[from] AdmissionError),
}

impl LiveLoader {
    /// Loads versions that were handed over, and drops those whose programs have ended.
    pub(super) async fn follow(
        &mut self,
        candidates: &Candidates,
        admitter: &Admitter,
        keeper: &ComponentKeeper,
    ) {
        let Some(folder) = self.folder.clone() else { return };
        let found = tokio::task::spawn_blocking(move || folder.versions()).await;
        let found = found.unwrap_or_default();
        let gone = |path: &&PathBuf| !found.iter().any(|file| file.path == **path);
        let gone: Vec<PathBuf> = self.checked.keys().filter(gone).cloned().collect();
        for path in gone {
            self.checked.remove(&path);
            if let Some(version) = self.versions.load().iter().find(|it| it.path == path) {
                tracing::info!(backend = version.name, channel = %version.channel, generation = %version.backend.generation(), "a version in development was withdrawn");
            }
            self.replace(&path, None);
        }
        for file in found {
            let Some(stamp) = Stamp::of(&file.path) else { continue };
            if self.checked.get(&file.path) != Some(&stamp) {
                self.checked.insert(file.path.clone(), stamp);
                self.load(file, candidates, admitter, keeper).await;
            }
        }
    }

    async fn load(
        &self,
        file: LiveVersionFile,
        candidates: &Candidates,
        admitter: &Admitter,
        keeper: &ComponentKeeper,
    ) {
        let LiveVersionFile { backend: name, channel, path } = &file;
        // Otherwise it is replaced or removed at this moment.
        let Ok(source) = admitter.read(path).await else { return };
        let (digest, bytes) = (source.digest.clone(), Arc::clone(&source.bytes));
        let admitted = admit(&file, source, candidates.serving(name), admitter).await;
        if admitted.is_ok() {
            keeper.keep_partial(name, path, &digest, Some(bytes)).await;
        }
        let answer = match admitted {
            Ok(version) => {
                let generation = version.backend.generation();
                tracing::warn!(backend = name, %channel, %generation, "a version in development serves this channel; hint: `aetheel backend promote {name}` installs it");
                self.replace(path, Some(version));
                LiveAnswer::Serves
            }
            Err(refusal) => {
                tracing::warn!(backend = name, %channel, digest = short(&digest), "a version in development is refused: {refusal}");
                LiveAnswer::Refused(refusal.to_string())
            }
        };
        let saved = tokio::task::spawn_blocking(move || file.answer(&digest, &answer)).await;
        if let Ok(Err(error)) = saved {
            tracing::warn!("{}", with_causes(&error));
        }
    }
}

/// Checks and admits a version in development, which must replace one that serves.
async fn admit(
    file: &LiveVersionFile,
    source: ComponentSource,
    serving: Option<ServingBackend>,
    admitter: &Admitter,
) -> Result<LiveVersion, LiveRefusal> {
    let LiveVersionFile { backend: name, channel, path } = file;
    let serving = serving.ok_or_else(|| LiveRefusal::NothingServes(name.clone()))?;
    let candidate = admitter.admit(path, source).await?;
    if candidate.descriptor.name != *name {
        return Err(LiveRefusal::OtherBackend(candidate.descriptor.name));
    }
    let number = serving.backend.generation().number + 1;
    let generation = Generation { number, digest: candidate.digest };
    let backend = ComponentBackend::new(candidate.descriptor, generation, candidate.blueprint);
    Ok(LiveVersion {
        name: name.clone(),
        channel: *channel,
        backend: Arc::new(backend.on_rollout()),
        path: path.clone(),
    })
}
