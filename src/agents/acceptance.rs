//! Telling the operator of components that wait for what they may do to be accepted, and taking an
//! owner's word by a button.
//!
//! The button says which wishes of which backend it is about, so that it works after a restart and
//! never for other ones than its message names. Pinned by `tests/gateway/capabilities.rs`.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;

use crate::agents::AgentRegistry;
use crate::backend::{AdmissionError, LoadReport, Wants};
use crate::discord::Accept;
use crate::dispatch::{Again, AgainRefusal, Notice, Offer, Outlet, Person};
use crate::plain::with_causes;
use crate::workspace::BackendFile;

/// The beginning of an offer's id.
const PREFIX: &str = "approve-";
const LABEL: &str = "Accept";
/// Characters of a difference that a notice has room for.
const SHOWN: usize = 1_700;

/// Follows what comes, for ever: those that wait already, then each one that is refused.
pub async fn follow(agents: Arc<AgentRegistry>, outlet: Arc<dyn Outlet>) {
    let mut news = agents.news();
    for (path, wants) in agents.waiting() {
        tell(&path, &wants, &*outlet).await;
    }
    loop {
        match news.recv().await {
            Ok(LoadReport::Refused { path, reason }) => {
                if let AdmissionError::Unaccepted(wants) = &*reason {
                    tell(&path, wants, &*outlet).await;
                }
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

async fn tell(path: &Path, wants: &Wants, outlet: &dyn Outlet) {
    let (name, file) = (&wants.descriptor.name, path.file_name().unwrap_or_default().display());
    let said = format!("`{file}` {wants}");
    // Nobody agrees to more than is before their eyes.
    let offer = (wants.is_told_whole() && said.chars().count() <= SHOWN)
        .then(|| Offer { id: id_of(wants), label: LABEL.to_owned() });
    let text: String = said.chars().take(SHOWN).collect();
    let button = if offer.is_some() { "presses *Accept* or " } else { "" };
    let text = format!(
        "{text}.\nIt will not run until my owner {button}runs `aetheel backend approve {name}`."
    );
    // Without a channel for it the log says it.
    let _ = outlet.notify(Notice { channel: None, about: None, text, offer }).await;
}

/// The wishes come first: what keeps a notice from being posted twice is the beginning of it.
fn id_of(wants: &Wants) -> String {
    format!("{PREFIX}{}-{}", wants.id(), wants.descriptor.name)
}

/// Carries out owners' decisions about waiting components: their word goes into `backends.md`.
pub struct Acceptance {
    agents: Arc<AgentRegistry>,
    file: BackendFile,
}

impl Acceptance {
    /// For the components of a agents; `config_dir` has `backends.md`.
    pub fn new(agents: Arc<AgentRegistry>, config_dir: &Path) -> Self {
        Self { agents, file: BackendFile::new(config_dir) }
    }

    /// Returns the action of the button in Discord: it accepts what its offer is about, if this
    /// person may; the loader takes it up from `backends.md`.
    pub fn by_button(self) -> Accept {
        let this = Arc::new(self);
        Accept::new(move |id, person| {
            let this = Arc::clone(&this);
            async move {
                if id.starts_with(PREFIX) { Some(this.accept(&id, &person).await) } else { None }
            }
        })
    }

    async fn accept(&self, id: &str, person: &Person) -> Result<Again, AgainRefusal> {
        if !matches!(person, Person::User { owner: true, .. }) {
            tracing::warn!(?person, "refused to accept what a component may do: not an owner");
            return Err(AgainRefusal::NotOwner);
        }
        let waiting = self.agents.waiting().into_iter().find(|(_, wants)| id_of(wants) == id);
        let (path, wants) = waiting.ok_or(AgainRefusal::Gone)?;
        let name = &wants.descriptor.name;
        if let Err(error) = self.file.accept(name, &wants.more).await {
            tracing::error!(
                backend = name,
                "an owner's word cannot be kept: {}",
                with_causes(&error)
            );
            return Err(AgainRefusal::NotSaved);
        }
        tracing::warn!(backend = name, path = %path.display(), ?person, "an owner accepted by a button: it {wants}");
        Ok(Again::Accepted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Descriptor;

    #[test]
    fn an_offer_names_these_wishes_of_this_backend_and_no_others() {
        let of = |name: &str, program: &str| {
            let json =
                format!(r#"{{"name":"{name}","version":"1","programs":[{{"name":"{program}"}}]}}"#);
            id_of(
                &Wants::of(&Descriptor::parse(&json).expect("valid"), None)
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
        // The beginning alone tells them apart.
        let beginnings =
            [of("mini", "a"), of("mini", "b"), of("other", "a")].map(|id| id[..18].to_owned());
        assert!(beginnings[0] != beginnings[1] && beginnings[0] != beginnings[2], "{beginnings:?}");
    }
}
