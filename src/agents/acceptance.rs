//! Notifies the operator of components whose capabilities wait for approval, and lets an owner
//! approve them with a button.
//!
//! The id of the button identifies the backend and the capabilities. So the button works after a
//! restart, and never approves other capabilities than its message shows. Tested by
//! `tests/gateway/capabilities.rs`.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;

use crate::agents::AgentRegistry;
use aetheel_discord::OfferHandler;
use aetheel_dispatch::{Notice, Offer, OfferEffect, OfferRefusal, Outlet, Person};
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::BackendFile;
use aetheel_wasm::{AdmissionError, LoadReport, RequestedCapabilities};

/// Prefix of the ids of offers. An offer is a button below a notice.
const PREFIX: &str = "approve-";
const BUTTON_LABEL: &str = "Accept";
/// Largest number of characters of a notice's list of capabilities.
const MAX_NOTICE_CHARS: usize = 1_700;

/// Posts a notice about each component that waits for approval now, and about each one that is
/// refused for that reason later. Runs until the registry of components is dropped.
pub async fn follow(agents: Arc<AgentRegistry>, outlet: Arc<dyn Outlet>) {
    let mut news = agents.load_reports();
    for (path, wants) in agents.unapproved() {
        notify_operator(&path, &wants, &*outlet).await;
    }
    loop {
        match news.recv().await {
            Ok(LoadReport::Refused { path, reason }) => {
                if let AdmissionError::Unaccepted(wants) = &*reason {
                    notify_operator(&path, wants, &*outlet).await;
                }
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

async fn notify_operator(path: &Path, wants: &RequestedCapabilities, outlet: &dyn Outlet) {
    let (name, file) = (&wants.descriptor.name, path.file_name().unwrap_or_default().display());
    let said = format!("`{file}` {wants}");
    // A button is offered only if the notice shows all capabilities.
    let is_shown = wants.is_fully_shown() && said.chars().count() <= MAX_NOTICE_CHARS;
    let offer = || Offer { id: offer_id(wants), label: BUTTON_LABEL.to_owned() };
    let offers = Vec::from_iter(is_shown.then(offer));
    let text: String = said.chars().take(MAX_NOTICE_CHARS).collect();
    let button = if is_shown { "presses *Accept* or " } else { "" };
    let text = format!(
        "{text}.\nIt will not run until my owner {button}runs `aetheel backend approve {name}`."
    );
    // Without a channel for notices, the log has the refusal.
    let _ = outlet.notify(Notice { channel: None, about: None, text, offers }).await;
}

/// Returns the id of the offer. The digest of the capabilities comes first, because only the
/// beginning of an id is compared to prevent a second post of the same notice.
fn offer_id(wants: &RequestedCapabilities) -> String {
    format!("{PREFIX}{}-{}", wants.id(), wants.descriptor.name)
}

/// Saves the approvals of owners to `backends.md`.
pub struct Acceptance {
    agents: Arc<AgentRegistry>,
    file: BackendFile,
}

impl Acceptance {
    /// Creates the handler for the components of `agents`. `config_dir` contains `backends.md`.
    pub fn new(agents: Arc<AgentRegistry>, config_dir: &Path) -> Self {
        Self { agents, file: BackendFile::new(config_dir) }
    }

    /// Returns the handler of the button in Discord. It approves the capabilities of its offer if
    /// the person is an owner. The loader then reads the approval from `backends.md`.
    pub fn by_button(self) -> OfferHandler {
        let this = Arc::new(self);
        OfferHandler::new(move |id, person| {
            let this = Arc::clone(&this);
            async move {
                if id.starts_with(PREFIX) { Some(this.accept(&id, &person).await) } else { None }
            }
        })
    }

    async fn accept(&self, id: &str, person: &Person) -> Result<OfferEffect, OfferRefusal> {
        if !matches!(person, Person::User { owner: true, .. }) {
            tracing::warn!(?person, "refused to accept a backend's capabilities: not an owner");
            return Err(OfferRefusal::NotOwner);
        }
        let waiting = self.agents.unapproved().into_iter().find(|(_, wants)| offer_id(wants) == id);
        let (path, wants) = waiting.ok_or(OfferRefusal::Gone)?;
        let name = &wants.descriptor.name;
        if let Err(error) = self.file.accept(name, &wants.unaccepted).await {
            tracing::error!(
                backend = name,
                "cannot save an owner's approval: {}",
                with_causes(&error)
            );
            return Err(OfferRefusal::NotSaved);
        }
        tracing::warn!(backend = name, path = %path.display(), ?person, "an owner accepted with a button: it {wants}");
        Ok(OfferEffect::Accepted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::Descriptor;

    #[test]
    fn an_offers_id_identifies_the_capabilities_and_the_backend() {
        let of = |name: &str, program: &str| {
            let json =
                format!(r#"{{"name":"{name}","version":"1","programs":[{{"name":"{program}"}}]}}"#);
            offer_id(
                &RequestedCapabilities::of(&Descriptor::parse(&json).expect("valid"), None)
                    .expect("it wants something"),
            )
        };
        let long = of(&"x".repeat(32), "a");
        assert!(
            long.len() <= 64
                && long.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            "{long}"
        );
        assert_eq!(of("mini", "a"), of("mini", "a"));
        // The beginnings differ, too.
        let beginnings =
            [of("mini", "a"), of("mini", "b"), of("other", "a")].map(|id| id[..18].to_owned());
        assert!(beginnings[0] != beginnings[1] && beginnings[0] != beginnings[2], "{beginnings:?}");
    }
}
