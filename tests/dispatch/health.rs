//! Tests of the check whether a backend is available, which can be made at any time.

use std::sync::Arc;

use aetheel::startup::turn_parts;
use aetheel_dispatch::Dispatcher;
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::Lane;
use aetheel_model::queue::QueueLimits;
use aetheel_recording::Backend;
use aetheel_turn::Backends;
use async_trait::async_trait;

use crate::support::lasting::LastingBackend;
use crate::support::scripted::{Agent, Collected, ScriptedLauncher, parts};

/// One backend, and another that is not available here.
struct Pair(Arc<dyn Backend>);

#[async_trait]
impl Backends for Pair {
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>> {
        self.names().contains(&name.to_owned()).then(|| self.0.clone())
    }

    fn names(&self) -> Vec<String> {
        vec!["lasting".to_owned(), "locked".to_owned()]
    }

    async fn unavailable(&self, name: &str) -> Option<String> {
        (name == "locked").then(|| "it is not signed in".to_owned())
    }
}

async fn dispatcher(sharing: &str, folder: &std::path::Path) -> Dispatcher {
    let backends = Arc::new(Pair(Arc::new(LastingBackend::new(sharing, 1))));
    let launcher = ScriptedLauncher::new(|_: Agent| async {});
    let limits = QueueLimits { max_concurrent: 1, max_depth: 1, busy_policy: BusyPolicy::Reject };
    let collected = Arc::new(Collected::default());
    let parts = parts(folder, "lasting", backends, launcher, &collected, limits).await;
    Dispatcher::new(parts, turn_parts())
}

#[tokio::test]
async fn a_live_backend_reports_its_own_health_and_a_one_shot_one_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let live = dispatcher("link", folder.path()).await;
    assert_eq!(
        live.backends.ping("lasting").await.unwrap(),
        "lasting is ready: it does not run yet"
    );
    let once = dispatcher("turn", folder.path()).await;
    assert_eq!(
        once.backends.ping("lasting").await.unwrap(),
        "lasting is ready; it runs its agent once a turn"
    );
    assert_eq!(
        once.backends.ping("nobody").await.unwrap_err().to_string(),
        "There is no backend \"nobody\"; there are: lasting, locked."
    );
}

#[tokio::test]
async fn an_unavailable_backend_is_neither_healthy_nor_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let dispatcher = dispatcher("link", folder.path()).await;
    let why = "locked cannot be used here: it is not signed in.";
    let refused = dispatcher.backends.ping("locked").await.unwrap_err();
    assert_eq!(refused.to_string(), why);
    let refused = dispatcher.settings.choose_backend(&Lane::Console, "locked").await.unwrap_err();
    assert_eq!(refused.to_string(), why);
    assert_eq!(dispatcher.settings.backend_of(&Lane::Console).await, "lasting");
}
