//! The backends and their components, for owners: the rollback to the previous component, and the
//! decision about a new version on rollout.

use axum::response::Response;
use maud::{Markup, Render as _, html};

use super::access::{Owner, SignedIn};
use super::components::{Button, Card, Facts, Form, list};
use super::fields::{FormRefusal, SubmittedForm};
use super::layout::{self, MenuPage};
use aetheel_dispatch::{BackendView, RolloutDecision, RolloutView};
use aetheel_model::plain::short_line;

/// The largest number of backends on a page.
const SHOWN: usize = 40;

/// Lists all backends.
pub(super) async fn page(Owner(user): Owner) -> Response {
    let backends = user.services().backends.list().await;
    let main = html! {
        (list(&backends, SHOWN, |backend| card(backend, &user)))
        p { "A rollback loads the previous version again. Running turns finish with the current one." }
    };
    layout::page(&user, MenuPage::Backends, false, &main)
}

fn card(backend: &BackendView, user: &SignedIn) -> Markup {
    let version = html! {
        @match &backend.generation {
            Some(generation) => { "version " (short_line(&backend.version, 60)) " (" (generation) ")" }
            None => "does not serve",
        }
    };
    let able = html! {
        @match &backend.unable {
            None => "yes",
            Some(why) => { "no: " (short_line(why, 200)) }
        }
    };
    let facts = Facts::default()
        .row("Backend", version)
        .row("Agent", backend.agent_version.as_deref().unwrap_or("version unknown"))
        .row("Can work", able);
    let roll_back = |generation| {
        Form::post(user, "/components/roll-back")
            .hidden("backend", &backend.name)
            .hidden("generation", generation)
            .with(Button::stop("Go back to the previous version"))
    };
    Card::new(html! { (short_line(&backend.label, 80)) " (" (backend.name) ")" })
        .with(facts)
        .with(html! {
            @for line in &backend.notes { p { (short_line(line, 400)) } }
            @if let Some(rollout) = &backend.rollout { (on_rollout(rollout, user)) }
            @if let Some(generation) = backend.generation.as_ref().filter(|_| backend.has_earlier) {
                (roll_back(generation))
            }
        })
        .render()
}

/// Shows the differences of a new version, each with a link to its turn in the step viewer, and the
/// buttons that end its rollout.
fn on_rollout(rollout: &RolloutView, user: &SignedIn) -> Markup {
    let decide = Form::post(user, "/components/rollout")
        .hidden("backend", &rollout.backend)
        .hidden("digest", &rollout.digest)
        .with(
            Button::new("Promote the new version")
                .sends("decision", RolloutDecision::Promote.word()),
        )
        .with(
            Button::stop("Withdraw the new version")
                .sends("decision", RolloutDecision::Withdraw.word()),
        );
    html! {
        @if !rollout.differences.is_empty() {
            ul {
                @for difference in &rollout.differences {
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
        (decide)
    }
}

/// Promotes or withdraws the displayed version, if it is still on rollout.
pub(super) async fn decide(form: SubmittedForm) -> Response {
    form.answer("/components", end_rollout(&form).await).await
}

async fn end_rollout(form: &SubmittedForm) -> Result<String, FormRefusal> {
    form.check_owner()?;
    let (user, name) = (&form.user, form.fields.one("backend"));
    let decision = RolloutDecision::parse(form.fields.one("decision"))
        .ok_or(FormRefusal::of("Choose one of the buttons."))?;
    let decided = user.services().rollouts.decide(name, form.fields.one("digest"), decision).await;
    let version =
        decided.map_err(|error| FormRefusal::because(format!("Nothing was changed: {error}.")))?;
    let (did, result) = match decision {
        RolloutDecision::Promote => ("promoted", "serves"),
        RolloutDecision::Withdraw => ("withdrew", "was withdrawn"),
    };
    tracing::warn!(
        user = user.id().to_field(),
        backend = name,
        version,
        "an owner {did} a new version from the dashboard"
    );
    let action = format!("{did} version {version} of {name}.");
    user.announce_in(None, &action).await;
    Ok(format!("Version {version} of {name} {result}."))
}

/// Rolls a backend back to its previous component, if the displayed component is still the current
/// one.
pub(super) async fn roll_back(form: SubmittedForm) -> Response {
    form.answer("/components", load_previous(&form).await).await
}

async fn load_previous(form: &SubmittedForm) -> Result<String, FormRefusal> {
    form.check_owner()?;
    let (user, name) = (&form.user, form.fields.one("backend"));
    let generation = form.fields.one("generation");
    let rolled_back = user.services().backends.roll_back(name, generation).await;
    let serves = rolled_back.map_err(FormRefusal::because)?;
    tracing::warn!(
        user = user.id().to_field(),
        backend = name,
        generation,
        serves,
        "an owner rolled a backend back from the dashboard"
    );
    let did = format!("rolled {name} back: version {serves} serves.");
    user.announce_in(None, &did).await;
    Ok(format!("Version {serves} of {name} serves."))
}
