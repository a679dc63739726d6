//! How a link goes over to a newer generation of its backend.

use std::sync::Arc;

use super::Task;
use crate::turn::recording::What;
use crate::turn::{Backend, GuestFailure};

impl Task {
    /// Goes over to a newer generation: its guest takes over what the present one saved.
    pub(super) async fn renew(&mut self, backend: Arc<dyn Backend>) -> bool {
        if !self.turns.is_empty() || !self.inputs.is_empty() || self.closing.is_ending() {
            return false;
        }
        let Ok(guest) = self.guest.as_mut() else { return false };
        let saved_by = self.parts.backend.descriptor().version.clone();
        let state = match guest.save().await {
            Ok(Some(state)) => state,
            Ok(None) => return false,
            Err(failure) => {
                self.fail(failure);
                return false;
            }
        };
        let loaded = async {
            let mut guest = backend.open().await?;
            guest.load(&state, &saved_by).await?;
            Ok::<_, GuestFailure>(guest)
        };
        match loaded.await {
            Ok(guest) => {
                let (from, to) =
                    (self.parts.backend.generation().clone(), backend.generation().clone());
                tracing::info!(%from, %to, "link moved to the new generation");
                self.recording.host(What::Moved {
                    generation: to.number,
                    digest: to.digest.clone(),
                    saved_by,
                    state,
                });
                self.guest = Ok(guest);
                self.parts.backend = backend;
                self.state.renewed(&to);
                self.renew_span();
                true
            }
            Err(failure) => {
                tracing::info!(%failure, "link stays on its generation until it is idle");
                false
            }
        }
    }
}
