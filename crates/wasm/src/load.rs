//! Loads a component that was read: checks its trust, admits it, and selects the component that
//! serves.

use std::path::{Path, PathBuf};

use tokio::time::Instant;

use super::candidates::Candidate;
use super::error::AdmissionError;
use super::loader::Loader;
use super::report::LoadReport;
use super::source::ComponentSource;
use aetheel_recording::Backend as _;
use aetheel_store::disk::Stamp;

impl Loader {
    /// Loads a component that was read from a file, and makes the best component of its name serve.
    pub(super) async fn load(
        &mut self,
        path: &Path,
        source: ComponentSource,
        start: Instant,
    ) -> Result<LoadReport, AdmissionError> {
        self.candidates.drop_changed_successor(path, Some(&source.digest));
        if let Some(successor) = self.candidates.successor_of_file(path) {
            let name = successor.descriptor.name;
            return Ok(LoadReport::Unchanged { name, path: path.to_owned() });
        }
        let known = self
            .candidates
            .of_file(path)
            .filter(|known| known.digest == source.digest && !known.is_fallback)
            .map(|known| known.descriptor.name.clone());
        let serving = known
            .as_ref()
            .and_then(|name| self.candidates.serving(name))
            .filter(|serving| serving.info.path == path);
        if let (Some(name), Some(serving)) = (known, serving)
            && serving.backend.generation().digest == source.digest
        {
            return Ok(LoadReport::Unchanged { name, path: path.to_owned() });
        }
        let candidate = self.admitter.admit(path, source).await?;
        let name = candidate.descriptor.name.clone();
        self.check_name_conflicts(&candidate)?;
        let (path, digest) = (path.to_owned(), candidate.digest.clone());
        if self.is_held_back(&candidate).await {
            let report = self.candidates.hold_back(candidate);
            self.keeper.keep_partial(&name, &path, &digest, None).await;
            return Ok(report);
        }
        let before = self
            .candidates
            .insert(candidate)
            .map(|before| before.descriptor.name)
            .filter(|before| *before != name);
        if let Some(before) = before {
            // The file contained another backend, of which there may be other files.
            self.serve_best(&before).await;
        }
        match self.candidates.serve_best(&name) {
            Some(generation) if generation.digest == digest => {
                let took = start.elapsed();
                let trust =
                    self.candidates.of_file(&path).and_then(|candidate| candidate.trust.label());
                tracing::info!(backend = %name, %generation, path = %path.display(), standing = trust, took_ms = took.as_millis() as u64, "backend loaded");
                Ok(LoadReport::Loaded { name, generation, path, took })
            }
            // Another file serves now: the previous content of this file was better than the new
            // one.
            Some(generation) => {
                let path = self
                    .candidates
                    .serving(&name)
                    .map_or(path, |serving| serving.info.path.clone());
                tracing::info!(backend = %name, %generation, path = %path.display(), "backend serves from another file");
                Ok(LoadReport::Loaded { name, generation, path, took: start.elapsed() })
            }
            None if self
                .candidates
                .serving(&name)
                .is_some_and(|serving| serving.info.path != path) =>
            {
                tracing::info!(backend = %name, path = %path.display(), "backend file is on standby: another file of its name serves");
                Ok(LoadReport::Standby { name, path })
            }
            // The file was renamed, or an old version existed only briefly.
            None => Ok(LoadReport::Unchanged { name, path }),
        }
    }

    /// Forgets a file that does not exist any more. Its last version continues to serve if no other
    /// file can replace it.
    pub(super) async fn vanished(&mut self, path: &Path) {
        let Some(seen) = self.files.remove(path) else { return };
        self.note_waiting();
        self.candidates.drop_changed_successor(path, None);
        let gone = self.candidates.remove(path);
        let Some(name) = seen.name.or_else(|| gone.map(|gone| gone.descriptor.name)) else {
            return;
        };
        let served = self.candidates.serving(&name).filter(|serving| serving.info.path == path);
        let left = self.candidates.of(&name).count();
        match served.map(|serving| format!("{:?}", serving.backend)) {
            Some(serving) if left == 0 => {
                tracing::warn!(path = %path.display(), serving, "backend file is gone, its last version continues to serve; hint: put it back, or restart to remove the backend");
            }
            Some(serving) => {
                tracing::warn!(path = %path.display(), served = serving, "backend file is gone, another file of its name takes over; hint: put it back if you want it to serve");
            }
            None => {
                tracing::info!(path = %path.display(), backend = name, "backend file is gone, another file of its name serves")
            }
        }
        // A file that was refused because of this one may be its successor.
        for (path, _) in self
            .files
            .iter()
            .filter(|(_, seen)| seen.name.is_none() && seen.pending_decision.is_none())
        {
            self.watch.settling.touch(path.clone(), true, Instant::now());
        }
        self.report(LoadReport::Vanished { name: name.clone(), path: path.to_owned() });
        self.serve_best(&name).await;
    }

    /// Checks that a candidate can exist beside other files with its name: all of them must declare
    /// the agent versions they are made for. Removes candidates whose files are gone or refused.
    fn check_name_conflicts(&mut self, candidate: &Candidate) -> Result<(), AdmissionError> {
        let name = &candidate.descriptor.name;
        let declares = |of: &Candidate| !of.descriptor.understands.is_empty();
        let rivals: Vec<(PathBuf, bool)> = self
            .candidates
            .of(name)
            .filter(|rival| rival.path != candidate.path)
            .map(|rival| (rival.path.clone(), declares(rival)))
            .collect();
        for (rival, declared) in rivals {
            if Stamp::of(&rival).is_none() {
                self.candidates.remove(&rival);
            } else if declared && declares(candidate) {
                continue;
            } else if self.files.get(&rival).is_some_and(|seen| seen.name.as_ref() == Some(name)) {
                return Err(AdmissionError::NameTaken { name: name.clone(), owner: rival });
            } else {
                self.candidates.remove(&rival);
            }
        }
        Ok(())
    }
}
