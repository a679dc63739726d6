//! Read-only links to a turn. Users who may act in its channel can create and end them. Anybody
//! with the link can open it, without signing in.
//!
//! A link shows less than the channel does ([`ViewLevel::Link`], [`blank`]). Each request
//! checks whether the creator of the link can still see the channel. Expired links and invalid
//! links get the same response.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::super::access::SignedIn;
use super::super::components::{Button, Choice, Form, list, select};
use super::super::fields::{Fields, FormRefusal, SubmittedForm};
use super::super::secret::{digest, secret};
use super::super::{DashboardState, frame, times};
use super::blank::blank;
use super::blocks::ViewLevel;
use super::path;
use super::reader::{VisibleTurn, visible_turn};
use super::sheet::TurnSheet;
use aetheel_model::event::Lane;
use aetheel_model::plain::short_line;
use aetheel_recording::transcript::{TranscriptError, TurnTranscript};
use aetheel_store::workspace::{ShareError, TurnLine, TurnShare};

/// The largest number of links that the page of a turn lists.
const LISTED: usize = 10;
/// The lifetimes that can be chosen: name in the form, text, and hours.
const SPANS: [(&str, &str, i64); 3] =
    [("hour", "1 hour", 1), ("day", "1 day", 24), ("week", "7 days", 168)];
const OVER: &str = "This link is not valid, or no longer valid. Ask for a new one.";
const NOT_HERE: FormRefusal = FormRefusal::of("Turns cannot be shared here.");
const ENDED: &str = "That link is no longer valid.";

/// Renders the form that creates a link, and the existing links, for users who may act in the
/// channel.
pub(super) async fn section(
    seen: &VisibleTurn,
    recorded: bool,
    now: Timestamp,
    user: &SignedIn,
) -> Markup {
    if !may_share(seen, user) || !recorded {
        return html! {};
    }
    let turn = &seen.line.turn;
    let mut shares = user.services().history.shares().of_turn(turn, now).await;
    shares.reverse();
    let spans =
        SPANS.map(|(value, text, _)| Choice { value, text: text.to_owned(), selected: false });
    let share = Form::post(user, format!("{}/share", path(turn)))
        .with(select("span", "span", "Valid for", spans))
        .with(Button::new("Make a read-only link"));
    html! {
        h2 { "Share" }
        p {
            "Anybody with the link can read this turn without signing in: the prompt, the answer and the names of tools, "
            "but neither thinking nor tool input and output. The bot announces the link in the channel, and you can end it here."
        }
        (share)
        (list(&shares, LISTED, |share| html! { (end_form(share, user)) }))
    }
}

/// Renders an existing link with the button that ends it.
fn end_form(share: &TurnShare, user: &SignedIn) -> Form {
    let (name, until) = (short_line(&share.name, 60), times::day(share.until));
    Form::post(user, format!("{}/unshare", path(&share.turn)))
        .hidden("share", mark(share))
        .with(html! { p { "A link by " (name) ", valid until " (until) "." } })
        .with(Button::stop("End it now"))
}

fn may_share(seen: &VisibleTurn, user: &SignedIn) -> bool {
    user.shared.sharing && seen.permissions.acts && matches!(seen.line.lane, Lane::Channel(_))
}

/// Returns an identifier of a link for forms, which reveals nothing about the secret.
fn mark(share: &TurnShare) -> &str {
    share.digest.get(..16).unwrap_or_default()
}

/// Creates a link.
pub(in crate::dashboard) async fn share(Path(turn): Path<String>, form: SubmittedForm) -> Response {
    form.answer(&path(&turn), create_link(&form, &turn).await).await
}

async fn create_link(form: &SubmittedForm, turn: &str) -> Result<String, FormRefusal> {
    let user = &form.user;
    let seen = visible_turn(turn, user).await.ok_or(FormRefusal::NotFound)?;
    let channel = match seen.line.lane {
        Lane::Channel(channel) if user.shared.sharing => channel,
        _ => return Err(NOT_HERE),
    };
    if !seen.permissions.acts {
        return Err(FormRefusal::Forbidden);
    }
    let span = SPANS.into_iter().find(|(name, ..)| *name == form.fields.one("span"));
    let (_, _, hours) = span.ok_or(FormRefusal::of("Choose how long the link is valid."))?;
    let transcript = user.services().history.transcript(&seen.line).await;
    transcript.map_err(|why| FormRefusal::because(format!("It cannot be shared: {why}.")))?;
    let (made, key) = (Timestamp::now(), secret());
    let until = made.checked_add(SignedDuration::from_hours(hours)).unwrap_or(made);
    let saved_digest = digest(&key).to_string();
    let share = TurnShare {
        digest: saved_digest.clone(),
        turn: turn.to_owned(),
        channel,
        by: user.id(),
        name: user.name().to_owned(),
        made,
        until,
    };
    let shares = user.services().history.shares();
    shares.add(share).await.map_err(|refusal| {
        if let ShareError::File(error) = &refusal {
            tracing::error!(%error, "cannot keep a link to a turn");
        }
        FormRefusal::because(refusal)
    })?;
    // The user gets the link only if the channel was informed.
    let until = until.strftime("%Y-%m-%d %H:%M UTC");
    let did = format!("made a read-only link to the turn {turn}, until {until}.");
    if user.shared.api.post_action(Some(channel), user.name(), &did).await.is_err() {
        shares.end(&saved_digest).await;
        return Err(FormRefusal::of(
            "Discord did not accept the message about the link, so there is no link.",
        ));
    }
    tracing::info!(user = user.id().to_field(), turn, %until, "a user made a read-only link to a turn");
    Ok(format!("This is the link; it is shown only now: {}/shared/{key}", user.shared.origin))
}

/// Ends a link.
pub(in crate::dashboard) async fn unshare(
    Path(turn): Path<String>,
    form: SubmittedForm,
) -> Response {
    form.answer(&path(&turn), end_link(&form, &turn).await).await
}

async fn end_link(form: &SubmittedForm, turn: &str) -> Result<&'static str, FormRefusal> {
    let user = &form.user;
    let seen = visible_turn(turn, user).await.ok_or(FormRefusal::NotFound)?;
    if !seen.permissions.acts {
        return Err(FormRefusal::Forbidden);
    }
    let shares = user.services().history.shares();
    let mut all = shares.of_turn(turn, Timestamp::now()).await.into_iter();
    let share = all.find(|share| mark(share) == form.fields.one("share"));
    let share = share.ok_or(FormRefusal::of(ENDED))?;
    shares.end(&share.digest).await;
    tracing::info!(user = user.id().to_field(), turn, "a user ended a read-only link to a turn");
    let did = format!("ended a read-only link to the turn {turn}.");
    user.announce_in(Some(share.channel), &did).await;
    Ok(ENDED)
}

/// Shows a turn to a reader with a link, from the block that the field `from` of the address names.
pub(in crate::dashboard) async fn page(
    State(shared): State<Arc<DashboardState>>,
    Path(key): Path<String>,
    query: Fields,
) -> Response {
    let shown = shared_turn(&shared, &key).await;
    outside(shown.map(|turn| {
        html! {
            p { "This is a read-only copy. It is available until " (times::day(turn.until)) "." }
            (turn.sheet(&format!("/shared/{key}")).html(query.parse("from").unwrap_or(0)))
        }
    }))
}

/// Shows a page of a long text to a reader with a link.
pub(in crate::dashboard) async fn part(
    State(shared): State<Arc<DashboardState>>,
    Path((key, part)): Path<(String, String)>,
    query: Fields,
) -> Response {
    let page = query.parse("page").unwrap_or(1);
    let shown = shared_turn(&shared, &key).await;
    outside(shown.and_then(|turn| turn.sheet(&format!("/shared/{key}")).part(&part, page)))
}

fn outside(shown: Option<Markup>) -> Response {
    let mut response = match shown {
        Some(main) => frame::outside(StatusCode::OK, "A shared turn", &main),
        None => frame::notice(StatusCode::NOT_FOUND, "A shared turn", OVER),
    };
    let robots = HeaderName::from_static("x-robots-tag");
    response.headers_mut().insert(robots, HeaderValue::from_static("noindex, nofollow"));
    response
}

/// The turn of a valid link, without personal data.
struct SharedTurn {
    line: TurnLine,
    transcript: Result<TurnTranscript, TranscriptError>,
    /// The time until which the link is valid.
    until: Timestamp,
}

impl SharedTurn {
    fn sheet<'a>(&'a self, base: &'a str) -> TurnSheet<'a> {
        TurnSheet { line: &self.line, transcript: &self.transcript, eyes: ViewLevel::Link, base }
    }
}

/// Returns the turn of a valid link. Returns `None` if the link is not valid, or if the creator's
/// permissions are unknown.
async fn shared_turn(shared: &DashboardState, key: &str) -> Option<SharedTurn> {
    // Limits the load, so that readers with links slow down only each other, not signed-in users.
    let _one = shared.link_requests.acquire().await.ok()?;
    let history = &shared.services.history;
    let shares = history.shares();
    let share = shares.find(&digest(key).to_string(), Timestamp::now()).await?;
    if !shared.sharing {
        return None;
    }
    // Without an answer from Discord, the permissions are unknown.
    if !shared.api.permissions(share.by, share.channel).await.ok()?.sees {
        tracing::info!(
            user = share.by.to_field(),
            turn = share.turn,
            "the creator of a link cannot see its turn any more; the link has ended"
        );
        shares.end(&share.digest).await;
        return None;
    }
    let line = history.ended_turn(&share.turn).await;
    let line = line.filter(|line| line.lane == Lane::Channel(share.channel));
    let transcript = match &line {
        Some(line) => history.transcript(line).await,
        None => Err(TranscriptError::Gone),
    };
    if matches!(transcript, Err(TranscriptError::Gone)) {
        shares.end(&share.digest).await;
    }
    let (mut line, mut transcript) = (line?, transcript.ok()?);
    remove_personal_data(&mut line, &mut transcript);
    Some(SharedTurn { line, transcript: Ok(transcript), until: share.until })
}

fn remove_personal_data(line: &mut TurnLine, transcript: &mut TurnTranscript) {
    let home = std::env::var("HOME").ok();
    for text in line.agent_version.iter_mut().chain(&mut line.model) {
        blank(text, home.as_deref());
    }
    let asker = line.name.as_ref().map(|name| format!("[{name}]:"));
    transcript.for_each_text(&mut |text| {
        if let Some(asker) = &asker {
            *text = text.replace(asker, "[Somebody]:");
        }
        blank(text, home.as_deref());
    });
}
