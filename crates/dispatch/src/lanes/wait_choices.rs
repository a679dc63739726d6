//! The buttons below the notice of a lane that waits for the end of a usage limit, and the decisions
//! behind them.
//!
//! The id of a button contains the turn that reached the limit. Once the lane waits for another
//! reason, or no longer waits, the button has no effect. Tested by
//! `tests/dispatch/limit_buttons.rs`.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::Turns;
use crate::Shared;
use crate::channel::error::LaneRequestError;
use crate::channel::options::Setting;
use crate::channel::settings::Settings;
use crate::outlet::Offer;
use crate::recovery::offer::{OfferEffect, OfferRefusal};
use aetheel_model::agent::Descriptor;
use aetheel_model::agent::descriptor::{DescriptorChoice, Feature};
use aetheel_model::event::{Event, Lane};
use aetheel_model::plain::{short_line, with_causes};
use aetheel_store::workspace::LimitNote;

const PREFIX: &str = "lm-";
/// A row of buttons in Discord has five places, and two of them are for *Try now* and *Cancel*.
const MAX_AGENTS: usize = 2;
const MAX_MODELS: usize = 1;
/// Maximum length of the name of an agent or model on a button, in characters.
const MAX_NAME: usize = 40;
/// Length of the mark of a model in an id. The name of a model may have any characters.
const MARK: usize = 10;

/// The decision of a button.
#[derive(Debug, PartialEq, Eq)]
enum WaitChoice<'a> {
    /// Another agent serves the lane.
    Agent(&'a str),
    /// Another model serves the lane. Contains the mark of its name.
    Model(&'a str),
    /// The same agent tries again at once.
    TryNow,
    /// The waiting prompts are removed.
    Cancel,
}

/// Parses the id of a button. Returns the turn that reached the limit, and the decision. Returns
/// `None` for any other button.
fn parse(id: &str) -> Option<(&str, WaitChoice<'_>)> {
    let mut parts = id.strip_prefix(PREFIX)?.splitn(4, '-');
    let (turn, _event, word, rest) = (parts.next()?, parts.next()?, parts.next()?, parts.next());
    let choice = match (word, rest) {
        ("agent", Some(name)) => WaitChoice::Agent(name),
        ("model", Some(mark)) => WaitChoice::Model(mark),
        ("now", None) => WaitChoice::TryNow,
        ("cancel", None) => WaitChoice::Cancel,
        _ => return None,
    };
    Some((turn, choice))
}

/// Returns the buttons of a notice. The beginning of an id differs between notices, because it
/// prevents a second post of the same notice.
fn buttons(
    note: &LimitNote,
    event: &Event,
    agents: &[DescriptorChoice],
    models: &[DescriptorChoice],
) -> Vec<Offer> {
    let stem = format!("{PREFIX}{}-{}", note.turn, event.sequence);
    let offer = |choice: String, label: String| Offer { id: format!("{stem}-{choice}"), label };
    let named = |choice: &DescriptorChoice| format!("Use {}", short_line(&choice.label, MAX_NAME));
    let agents = agents.iter().take(MAX_AGENTS);
    let mut offers: Vec<Offer> =
        agents.map(|agent| offer(format!("agent-{}", agent.id), named(agent))).collect();
    let models = models.iter().take(MAX_MODELS);
    offers.extend(models.map(|model| offer(format!("model-{}", mark(&model.id)), named(model))));
    offers.push(offer("now".to_owned(), "Try now".to_owned()));
    offers.push(offer("cancel".to_owned(), "Cancel".to_owned()));
    offers
}

fn mark(model: &str) -> String {
    let digest = Sha256::digest(model);
    digest.iter().take(MARK / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the models of an agent other than the one that reached the limit.
fn other_models(note: &LimitNote, descriptor: &Descriptor) -> Vec<DescriptorChoice> {
    if !descriptor.has(Feature::Model) {
        return Vec::new();
    }
    let in_force = note.model.as_ref().or_else(|| descriptor.models.first().map(|model| &model.id));
    descriptor.models.iter().filter(|model| Some(&model.id) != in_force).cloned().collect()
}

/// Returns the buttons of the notice that an event waits for the end of a limit. Agents that reached
/// a limit in another lane are not offered.
pub(crate) async fn wait_offers(
    shared: &Shared,
    event: &Event,
    note: &LimitNote,
    descriptor: &Descriptor,
) -> Vec<Offer> {
    let (_, settings) = shared.channels.backend_of(&event.lane).await;
    let now = shared.now();
    let mut agents = shared.channels.offered(&event.lane, &settings);
    agents.retain(|agent| agent.id != note.backend && !shared.limits.is_limited(&agent.id, now));
    buttons(note, event, &agents, &other_models(note, descriptor))
}

/// Carries out people's decisions about lanes that wait for the end of a usage limit. Cheap to clone.
#[derive(Clone)]
pub struct WaitChoices {
    shared: Arc<Shared>,
}

impl WaitChoices {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Handles a press of a button. `is_admitted` states whether the person may use the bot in the
    /// channel. Returns `None` for any other button.
    pub async fn press(
        &self,
        id: &str,
        is_admitted: bool,
    ) -> Option<Result<OfferEffect, OfferRefusal>> {
        let (turn, choice) = parse(id)?;
        if !is_admitted {
            return Some(Err(OfferRefusal::NotAdmitted));
        }
        let (notes, now) = (self.shared.deps.workspace.state.limits.all(), self.shared.now());
        let Some(note) = notes.into_iter().find(|note| note.turn == turn && note.until > now)
        else {
            return Some(Err(OfferRefusal::Gone));
        };
        Some(self.decide(note, choice).await)
    }

    async fn decide(
        &self,
        note: LimitNote,
        choice: WaitChoice<'_>,
    ) -> Result<OfferEffect, OfferRefusal> {
        let (lane, settings) = (&note.lane, Settings::new(self.shared.clone()));
        if settings.backend_of(lane).await != note.backend {
            return Err(OfferRefusal::Gone);
        }
        let effect = match choice {
            WaitChoice::Agent(name) => {
                chosen(lane, settings.choose_backend(lane, name).await)?;
                "🔀 Another agent was chosen by"
            }
            WaitChoice::Model(wanted) => {
                let backend = self.shared.serving(&note.backend, lane).ok_or(OfferRefusal::Gone)?;
                let models = &backend.descriptor().models;
                let model = models.iter().find(|model| mark(&model.id) == wanted);
                let model = model.ok_or(OfferRefusal::Gone)?;
                let choice = settings.choose(lane, Setting::Model, Some(&model.id)).await;
                chosen(lane, choice.map(drop))?;
                "🔀 Another model was chosen by"
            }
            WaitChoice::TryNow => {
                self.shared.limits.forget(lane).await;
                "▶️ Tried again at once for"
            }
            WaitChoice::Cancel => {
                let stopped = Turns::new(self.shared.clone()).stop_durably(lane).await;
                if !stopped.any() {
                    return Err(OfferRefusal::Gone);
                }
                "🛑 Cancelled by"
            }
        };
        self.shared.lanes.holds.on_reason_change();
        tracing::info!(%lane, backend = note.backend, ?choice, "a person ended the wait for a usage limit");
        Ok(OfferEffect::Decided(effect))
    }
}

fn chosen(lane: &Lane, choice: Result<(), LaneRequestError>) -> Result<(), OfferRefusal> {
    choice.map_err(|error| {
        tracing::warn!(%lane, error = %with_causes(&error), "the choice of a button cannot be made; the lane still waits");
        OfferRefusal::NotPossible
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ids_of_these_buttons_are_parsed() {
        assert_eq!(parse("lm-1f0c9a2e-17-now"), Some(("1f0c9a2e", WaitChoice::TryNow)));
        assert_eq!(parse("lm-1f0c9a2e-17-cancel"), Some(("1f0c9a2e", WaitChoice::Cancel)));
        let agent = parse("lm-1f0c9a2e-17-agent-two-words");
        assert_eq!(agent, Some(("1f0c9a2e", WaitChoice::Agent("two-words"))));
        assert_eq!(parse("lm-1f0c9a2e-17-model-ab"), Some(("1f0c9a2e", WaitChoice::Model("ab"))));
        for other in ["", "17-0", "lost-ab12cd34", "lm-1f0c9a2e-17", "lm-1f0c9a2e-17-now-x"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
