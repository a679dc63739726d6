//! A cache for the models and sessions that agents list.
//!
//! Autocompletion would otherwise ask the agent at each key press.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use aetheel_model::agent::descriptor::{Feature, LinkSharing};
use aetheel_model::agent::{QueryKind, QueryResult};
use aetheel_recording::Backend;
use aetheel_turn::Links;

/// The time limit for an agent's answer. Some agents take seconds to start.
const LISTING_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an answer is cached, including a failed one.
const CACHE_LIFETIME: Duration = Duration::from_secs(60);

/// A list that an agent can provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ListingKind {
    Models,
    Sessions,
}

/// Asks agents for their lists, and caches the answers.
pub(crate) struct Listings {
    links: Links,
    /// Answers by generation of the backend and kind of list. A receiver has no value until the
    /// answer arrives.
    cached: Mutex<HashMap<(String, ListingKind), CachedListing>>,
}

struct CachedListing {
    asked: Instant,
    answer: watch::Receiver<Option<Arc<QueryResult>>>,
}

impl Listings {
    pub(crate) fn new(links: Links) -> Self {
        Self { links, cached: Mutex::default() }
    }

    /// Returns an agent's list if it arrives within `wait`. The request continues after that.
    /// Returns `None` if the agent cannot list this.
    pub(super) async fn ask(
        &self,
        backend: &Arc<dyn Backend>,
        listing: ListingKind,
        wait: Duration,
    ) -> Option<Arc<QueryResult>> {
        let (feature, kind) = match listing {
            ListingKind::Models => (Feature::Models, QueryKind::Models),
            ListingKind::Sessions => (Feature::Sessions, QueryKind::Sessions),
        };
        let descriptor = backend.descriptor();
        if !descriptor.has(feature) || descriptor.sharing == LinkSharing::Turn {
            return None;
        }
        let key = (format!("{} {}", descriptor.name, backend.generation()), listing);
        let mut answer = {
            let mut known = self.cached.lock();
            known.retain(|_, known| known.asked.elapsed() < CACHE_LIFETIME);
            known
                .entry(key)
                .or_insert_with(|| CachedListing {
                    asked: Instant::now(),
                    answer: self.ask_for(backend, kind),
                })
                .answer
                .clone()
        };
        let listed = tokio::time::timeout(wait, answer.wait_for(Option::is_some)).await;
        listed.ok()?.ok()?.clone()
    }

    fn ask_for(
        &self,
        backend: &Arc<dyn Backend>,
        kind: QueryKind,
    ) -> watch::Receiver<Option<Arc<QueryResult>>> {
        let (sender, answer) = watch::channel(None);
        let (links, backend) = (self.links.clone(), Arc::clone(backend));
        tokio::spawn(async move {
            match links.query(&backend, kind, LISTING_TIMEOUT).await {
                Ok(result) => drop(sender.send(Some(Arc::new(result)))),
                Err(error) => tracing::info!(
                    backend = backend.descriptor().name,
                    %error,
                    "the agent did not return the requested list"
                ),
            }
        });
        answer
    }
}
