//! What agents tell of their models and sessions, remembered for a while: people type, and each key
//! would ask again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Dispatcher;
use crate::agent::descriptor::{Choice, Feature, Sharing};
use crate::agent::{QueryKind, QueryResult};
use crate::event::Lane;
use crate::plain::one_line;
use crate::turn::Backend;

/// How long an agent may take; some take seconds to start.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long an answer counts; one that failed, too.
const FRESH: Duration = Duration::from_secs(60);

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Listing {
    Models,
    Sessions,
}

/// Answers by generation and what was asked. None is inside until the first answer is there.
#[derive(Default)]
pub(super) struct Listings(Mutex<HashMap<(String, Listing), Known>>);

struct Known {
    asked: Instant,
    answer: watch::Receiver<Option<Arc<QueryResult>>>,
}

impl Dispatcher {
    /// What an agent lists, as far as it is known within `wait`. It goes on being asked after that.
    /// None: it lists nothing.
    pub(super) async fn listing(
        &self,
        backend: &Arc<dyn Backend>,
        listing: Listing,
        wait: Duration,
    ) -> Option<Arc<QueryResult>> {
        let (feature, kind) = match listing {
            Listing::Models => (Feature::Models, QueryKind::Models),
            Listing::Sessions => (Feature::Sessions, QueryKind::Sessions),
        };
        let descriptor = backend.descriptor();
        if !descriptor.has(feature) || descriptor.sharing == Sharing::Turn {
            return None;
        }
        let key = (format!("{} {}", descriptor.name, backend.generation()), listing);
        let mut answer = {
            let mut known = self.inner.listings.0.lock();
            known.retain(|_, known| known.asked.elapsed() < FRESH);
            known
                .entry(key)
                .or_insert_with(|| Known {
                    asked: Instant::now(),
                    answer: self.ask_for(backend, kind),
                })
                .answer
                .clone()
        };
        let told = tokio::time::timeout(wait, answer.wait_for(Option::is_some)).await;
        told.ok()?.ok()?.clone()
    }

    fn ask_for(
        &self,
        backend: &Arc<dyn Backend>,
        kind: QueryKind,
    ) -> watch::Receiver<Option<Arc<QueryResult>>> {
        let (sender, answer) = watch::channel(None);
        let (inner, backend) = (Arc::clone(&self.inner), Arc::clone(backend));
        tokio::spawn(async move {
            match inner.links.query(&backend, kind, PATIENCE).await {
                Ok(result) => drop(sender.send(Some(Arc::new(result)))),
                Err(error) => tracing::info!(
                    backend = backend.descriptor().name,
                    error,
                    "the agent does not list what it was asked for"
                ),
            }
        });
        answer
    }

    /// The models to choose from in a lane: those the backend lists, and those its agent tells of
    /// within `wait`.
    pub async fn models(&self, lane: &Lane, wait: Duration) -> Vec<Choice> {
        let (name, _) = self.inner.backend_of(lane).await;
        let Some(backend) = self.inner.parts.backends.get(&name) else { return Vec::new() };
        let descriptor = backend.descriptor();
        if !descriptor.has(Feature::Model) {
            return Vec::new();
        }
        let mut models = descriptor.models.clone();
        if let Some(QueryResult::Models(told)) =
            self.listing(&backend, Listing::Models, wait).await.as_deref()
        {
            for model in told.iter().filter(|model| crate::workspace::is_plain_model(&model.id)) {
                if !models.iter().any(|known| known.id == model.id) {
                    models.push(Choice { id: model.id.clone(), label: one_line(&model.label) });
                }
            }
        }
        models
    }
}
