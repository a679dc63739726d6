//! The backends and their components, for owners: the rollback to the previous component, and the
//! decision about a new version on rollout.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};

use super::layout::{self, MenuPage, csrf};
use super::middleware::{SignedIn, SubmittedForm};
use super::{DashboardState, frame};
use aetheel_dispatch::{RolloutDecision, RolloutView};
use aetheel_model::plain::short_line;

/// The largest number of backends on a page.
const SHOWN: usize = 40;

/// Lists all backends.
pub(super) async fn page(State(shared): State<Arc<DashboardState>>, guest: SignedIn) -> Response {
    if !guest.standing.owner {
        return frame::not_found().await;
    }
    let backends = shared.services.backends.list().await;
    let main = html! {
        @for backend in backends.iter().take(SHOWN) {
            article.card {
                h2 { (short_line(&backend.label, 80)) " (" (backend.name) ")" }
                dl {
                    dt { "Backend" }
                    dd {
                        @match &backend.generation {
                            Some(generation) => { "version " (short_line(&backend.version, 60)) " (" (generation) ")" }
                            None => "does not serve",
                        }
                    }
                    dt { "Agent" }
                    dd { (backend.agent_version.as_deref().unwrap_or("version unknown")) }
                    dt { "Can work" }
                    dd {
                        @match &backend.unable {
                            None => "yes",
                            Some(why) => { "no: " (short_line(why, 200)) }
                        }
                    }
                }
                @for line in &backend.notes { p { (short_line(line, 400)) } }
                @if let Some(rollout) = &backend.rollout { (on_rollout(&guest, rollout)) }
                @if let Some(generation) = backend.generation.as_ref().filter(|_| backend.has_earlier) {
                    form method="post" action="/components/roll-back" {
                        (csrf(&guest))
                        input type="hidden" name="backend" value=(backend.name);
                        input type="hidden" name="generation" value=(generation);
                        button.stop type="submit" { "Go back to the previous version" }
                    }
                }
            }
        }
        @if backends.len() > SHOWN { p { "And " (backends.len() - SHOWN) " more." } }
        p { "A rollback loads the previous version again. Running turns finish with the current one." }
    };
    layout::page(&guest, MenuPage::Components, false, &main)
}

/// Shows the differences of a new version, each with a link to its turn in the step viewer, and the
/// buttons that end its rollout.
fn on_rollout(guest: &SignedIn, rollout: &RolloutView) -> Markup {
    let RolloutView { backend, digest, differences, .. } = rollout;
    html! {
        @if !differences.is_empty() {
            ul {
                @for difference in differences {
                    li {
                        (if difference.harmful { "harmful" } else { "harmless" }) ", "
                        a href=(format!("/turns/{}/machine", difference.turn)) {
                            "turn " (difference.turn) ", line " (difference.line)
                        }
                        ": " (short_line(&difference.text, 400))
                    }
                }
            }
        }
        form method="post" action="/components/rollout" {
            (csrf(guest))
            input type="hidden" name="backend" value=(backend);
            input type="hidden" name="digest" value=(digest);
            button type="submit" name="decision" value=(RolloutDecision::Promote.word()) { "Promote the new version" }
            button.stop type="submit" name="decision" value=(RolloutDecision::Withdraw.word()) { "Withdraw the new version" }
        }
    }
}

/// Promotes or withdraws the displayed version, if it is still on rollout.
pub(super) async fn decide(
    State(shared): State<Arc<DashboardState>>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    if !guest.standing.owner {
        return frame::not_found().await;
    }
    let (name, digest) = (fields.one("backend"), fields.one("digest"));
    let visitor = &guest.session.visitor;
    let notice = match RolloutDecision::parse(fields.one("decision")) {
        None => "Choose one of the buttons.".to_owned(),
        Some(decision) => match shared.services.rollouts.decide(name, digest, decision).await {
            Err(error) => format!("Nothing was changed: {error}."),
            Ok(version) => {
                let did = match decision {
                    RolloutDecision::Promote => "promoted",
                    RolloutDecision::Withdraw => "withdrew",
                };
                tracing::warn!(
                    user = visitor.user.to_field(),
                    backend = name,
                    version,
                    "an owner {did} a new version from the dashboard"
                );
                let action = format!("{did} version {version} of {name}.");
                let _ = shared.api.post_action(None, &visitor.name, &action).await;
                match decision {
                    RolloutDecision::Promote => format!("Version {version} of {name} serves."),
                    RolloutDecision::Withdraw => {
                        format!("Version {version} of {name} was withdrawn.")
                    }
                }
            }
        },
    };
    guest.session.set_notice(notice);
    Redirect::to("/components").into_response()
}

/// Rolls a backend back to its previous component, if the displayed component is still the current
/// one.
pub(super) async fn roll_back(
    State(shared): State<Arc<DashboardState>>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    if !guest.standing.owner {
        return frame::not_found().await;
    }
    let (name, generation) = (fields.one("backend"), fields.one("generation"));
    let visitor = &guest.session.visitor;
    let notice = match shared.services.backends.roll_back(name, generation).await {
        Err(error) => error.to_string(),
        Ok(serves) => {
            tracing::warn!(
                user = visitor.user.to_field(),
                backend = name,
                generation,
                serves,
                "an owner rolled a backend back from the dashboard"
            );
            let did = format!("rolled {name} back: version {serves} serves.");
            let _ = shared.api.post_action(None, &visitor.name, &did).await;
            format!("Version {serves} of {name} serves.")
        }
    };
    guest.session.set_notice(notice);
    Redirect::to("/components").into_response()
}
