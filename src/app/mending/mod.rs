//! Mends backends while the gateway runs (`BACKEND_MEND`), and lets owners decide about a change with
//! buttons.
//!
//! One task does everything, one backend after the other. An attempt is saved in
//! `state/mending.md` before it begins, so a backend whose version lost replies is mended once, and
//! an attempt that a crash interrupted is not repeated. The id of a button names the changed
//! version, so that it works after a restart and never decides about another one. Tested by
//! `tests/gateway/mending.rs`.

mod attempt;
mod messages;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

pub(super) use self::attempt::MendingParts;
use aetheel_discord::OfferHandler;
use aetheel_dispatch::{Notice, Offer, OfferEffect, OfferRefusal, Outlet, Person};
use aetheel_model::plain::with_causes;
use aetheel_settings::MendMode;
use aetheel_store::workspace::{LostState, MendingNote, MendingState, StateFile};

/// How often the lost replies and the saved changes are looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Prefix of the ids of buttons.
const PREFIX: &str = "mend-";
/// Number of characters of a digest in the id of a button.
const SHORT_DIGEST: usize = 12;

/// A decision about a changed version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MendDecision {
    /// It reads turns beside the serving version first.
    Try,
    /// It serves.
    Install,
    /// It is dropped.
    Discard,
}

impl MendDecision {
    const ALL: [Self; 3] = [Self::Try, Self::Install, Self::Discard];

    fn word(self) -> &'static str {
        match self {
            Self::Try => "try",
            Self::Install => "install",
            Self::Discard => "discard",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Try => "Try beside",
            Self::Install => "Install",
            Self::Discard => "Discard",
        }
    }
}

/// Mends backends, announces changes, and carries out decisions. Cheap to clone.
#[derive(Clone)]
pub(super) struct MendingDesk {
    parts: Arc<MendingParts>,
    outlet: Arc<dyn Outlet>,
}

impl MendingDesk {
    pub(super) fn new(parts: MendingParts, outlet: Arc<dyn Outlet>) -> Self {
        Self { parts: Arc::new(parts), outlet }
    }

    fn notes(&self) -> &StateFile<MendingNote> {
        &self.parts.workspace.state.mending
    }

    /// Mends and announces until the program ends.
    pub(super) async fn follow(self) {
        self.end_interrupted().await;
        let mut look = tokio::time::interval(POLL_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            for note in self.notes().read().await {
                if note.state == MendingState::Ready {
                    self.announce(note).await;
                }
            }
            if self.parts.config.backend_mend != MendMode::Off
                && let Some(backend) = self.next().await
            {
                self.parts.mend(&backend).await;
            }
        }
    }

    /// Ends the attempts of a previous process.
    async fn end_interrupted(&self) {
        for note in self.notes().read().await {
            if note.state == MendingState::Running {
                tracing::warn!(
                    backend = note.backend,
                    "the mending of a backend was interrupted; hint: `aetheel backend mend {}` begins again",
                    note.backend
                );
                let remark = "the gateway ended".to_owned();
                self.parts.save(MendingNote { state: MendingState::Failed, remark, ..note }).await;
            }
        }
    }

    /// Returns a backend that lost replies and that nobody tried to mend since it has this version.
    async fn next(&self) -> Option<String> {
        let notes = self.notes().read().await;
        let lost = self.parts.workspace.state.lost.all().await;
        lost.into_iter().filter(|turn| turn.state == LostState::Lost).find_map(|turn| {
            let backend = self.parts.agents.component_of(&turn.backend);
            let tried = |note: &MendingNote| {
                note.backend == backend
                    && (note.serving == turn.digest || note.state == MendingState::Asked)
            };
            let serves = self.parts.serving_digest(&backend).as_deref() == Some(&*turn.digest);
            (serves && !notes.iter().any(tried)).then_some(backend)
        })
    }

    /// Posts the notice about an accepted change, or installs it.
    async fn announce(&self, note: MendingNote) {
        let version = (note.backend.as_str(), note.component.as_str());
        let automatic = self.parts.config.backend_mend == MendMode::Auto;
        let offers = match automatic {
            true => Vec::new(),
            false => offers(&note, self.parts.holds_back()),
        };
        if automatic {
            match self.decide(&note, MendingState::Ready, MendDecision::Install).await {
                Ok(_) => {}
                Err(refusal) => {
                    tracing::error!(
                        backend = note.backend,
                        ?refusal,
                        "the mended version cannot be installed"
                    );
                    return;
                }
            }
        }
        let difference = self.parts.difference(&note.backend).await;
        let text = messages::mended(&note, &difference, automatic, self.parts.holds_back());
        let text = self.parts.redactor.redact(text);
        if let Err(error) =
            self.outlet.notify(Notice { channel: None, about: None, text, offers }).await
        {
            tracing::warn!(backend = note.backend, %error, "cannot send the notice about a mended backend; hint: `aetheel backend install {}` installs it", MendingNote::component_file(self.parts.workspace.folder(), &note.backend).display());
        }
        // After the notice: after a crash in between it is posted again, and Discord shows it once.
        if !automatic
            && let Err(error) =
                self.notes().advance(version, MendingState::Ready, MendingState::Asked).await
        {
            tracing::error!(error = %with_causes(&error), "cannot save state/mending.md");
        }
    }

    /// Carries out a decision once.
    async fn decide(
        &self,
        note: &MendingNote,
        from: MendingState,
        decision: MendDecision,
    ) -> Result<OfferEffect, OfferRefusal> {
        let to = match decision {
            MendDecision::Discard => MendingState::Discarded,
            MendDecision::Try | MendDecision::Install => MendingState::Installed,
        };
        let version = (note.backend.as_str(), note.component.as_str());
        match self.notes().advance(version, from, to).await {
            Ok(true) => {}
            Ok(false) => return Err(OfferRefusal::Gone),
            Err(error) => {
                tracing::error!(error = %with_causes(&error), "cannot save state/mending.md");
                return Err(OfferRefusal::NotSaved);
            }
        }
        let (backend, component) = version;
        tracing::warn!(
            backend,
            component,
            decision = decision.word(),
            "a mended version was decided about"
        );
        let serves = decision == MendDecision::Install;
        if to == MendingState::Installed
            && let Err(reason) = self.parts.install(note, serves).await
        {
            tracing::error!(backend, %reason, "the mended version cannot be installed");
            // The decision can be made again.
            let _ = self.notes().advance(version, to, from).await;
            return Err(OfferRefusal::NotPossible);
        }
        Ok(OfferEffect::Decided(match decision {
            MendDecision::Try => "👀 Tried beside the serving version for",
            MendDecision::Install => "✅ Installed by",
            MendDecision::Discard => "🗑️ Discarded by",
        }))
    }

    /// Returns the handler of the buttons in Discord.
    pub(super) fn by_button(&self) -> OfferHandler {
        let desk = self.clone();
        OfferHandler::new(move |id, person| {
            let desk = desk.clone();
            async move { desk.press(&id, &person).await }
        })
    }

    async fn press(&self, id: &str, person: &Person) -> Option<Result<OfferEffect, OfferRefusal>> {
        let (component, decision, backend) = parse(id)?;
        if !matches!(person, Person::User { owner: true, .. }) {
            tracing::warn!(?person, "refused a decision about a mended backend: not an owner");
            return Some(Err(OfferRefusal::NotOwner));
        }
        let notes = self.notes().read().await;
        let note = notes.into_iter().find(|note| {
            note.backend == backend
                && note.component.starts_with(component)
                && matches!(note.state, MendingState::Asked | MendingState::Ready)
        });
        let Some(note) = note else { return Some(Err(OfferRefusal::Gone)) };
        let (desk, from) = (self.clone(), note.state);
        // Continues after Discord's time limit.
        let deciding = tokio::spawn(async move { desk.decide(&note, from, decision).await });
        Some(match tokio::time::timeout(Duration::from_millis(1_800), deciding).await {
            Ok(Ok(decided)) => decided,
            Ok(Err(_)) => Err(OfferRefusal::NotPossible),
            Err(_) => Err(OfferRefusal::Working),
        })
    }
}

/// Returns the buttons of a notice. Without a rollout, nothing can be tried beside.
fn offers(note: &MendingNote, holds_back: bool) -> Vec<Offer> {
    let component = note.component.get(..SHORT_DIGEST).unwrap_or(&note.component);
    let usable = MendDecision::ALL.into_iter();
    let usable = usable.filter(|decision| holds_back || *decision != MendDecision::Try);
    let offer = |decision: MendDecision| Offer {
        // The component comes first, because only the beginning prevents a second post.
        id: format!("{PREFIX}{component}-{}-{}", decision.word(), note.backend),
        label: decision.label().to_owned(),
    };
    usable.map(offer).collect()
}

fn parse(id: &str) -> Option<(&str, MendDecision, &str)> {
    let (component, rest) = id.strip_prefix(PREFIX)?.split_once('-')?;
    let (word, backend) = rest.split_once('-')?;
    let decision = MendDecision::ALL.into_iter().find(|decision| decision.word() == word)?;
    (component.len() == SHORT_DIGEST).then_some((component, decision, backend))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_button_is_about_one_changed_version() {
        let note = MendingNote {
            backend: "long-name".to_owned(),
            state: MendingState::Ready,
            serving: "a".repeat(64),
            component: "b".repeat(64),
            rounds: 1,
            cents: 0,
            remark: String::new(),
        };
        let ids: Vec<String> = offers(&note, true).into_iter().map(|offer| offer.id).collect();
        let read: Vec<_> = ids.iter().map(|id| parse(id).expect("valid")).collect();
        let component = "b".repeat(SHORT_DIGEST);
        let all = MendDecision::ALL.map(|decision| (component.as_str(), decision, "long-name"));
        assert_eq!(read, all);
        assert!(ids.iter().all(|id| id.len() <= 64));
        assert_eq!(offers(&note, false).len(), 2);
        for other in ["approve-1-x", "mend-1-try-x", "mend-bbbbbbbbbbbb-run-x", "mend-"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
