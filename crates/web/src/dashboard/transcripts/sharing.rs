//! Read-only links to a turn. Users who may act in its channel can create and end them. Anybody
//! with the link can open it, without signing in.
//!
//! A link shows less than the channel does ([`ViewLevel::Link`], [`blank`]). Each request
//! checks whether the creator of the link can still see the channel. Expired links and invalid
//! links get the same response.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::super::layout::csrf;
use super::super::middleware::{SignedIn, SubmittedForm};
use super::super::secret::{digest, secret};
use super::super::{DashboardState, frame, times};
use super::blank::blank;
use super::blocks::ViewLevel;
use super::path;
use super::reader::{PagePosition, VisibleTurn, visible_turn};
use super::sheet::TurnSheet;
use aetheel_model::event::Lane;
use aetheel_model::plain::short_line;
use aetheel_recording::transcript::{TranscriptError, TurnTranscript};
use aetheel_store::workspace::{TurnLine, TurnShare};

/// The largest number of links that the page of a turn lists.
const LISTED: usize = 10;
/// The lifetimes that can be chosen: name in the form, text, and hours.
const SPANS: [(&str, &str, i64); 3] =
    [("hour", "1 hour", 1), ("day", "1 day", 24), ("week", "7 days", 168)];
const OVER: &str = "This link is not valid, or no longer valid. Ask for a new one.";
const NOT_YOURS: &str = "You are not allowed to do that there.";
const NOT_HERE: &str = "Turns cannot be shared here.";

/// Renders the form that creates a link, and the existing links, for users who may act in the
/// channel.
pub(super) async fn section(
    shared: &DashboardState,
    guest: &SignedIn,
    seen: &VisibleTurn,
    recorded: bool,
    now: Timestamp,
) -> Markup {
    if !may_share(shared, seen) || !recorded {
        return html! {};
    }
    let turn = &seen.line.turn;
    let shares = shared.services.history.shares().of_turn(turn, now).await;
    html! {
        h2 { "Share" }
        p {
            "Anybody with the link can read this turn without signing in: the prompt, the answer and the names of tools, "
            "but neither thinking nor tool input and output. The bot announces the link in the channel, and you can end it here."
        }
        form method="post" action={ (path(turn)) "/share" } {
            (csrf(guest))
            label for="span" { "Valid for" }
            select id="span" name="span" {
                @for (name, words, _) in SPANS { option value=(name) { (words) } }
            }
            button type="submit" { "Make a read-only link" }
        }
        @for share in shares.iter().rev().take(LISTED) {
            form method="post" action={ (path(turn)) "/unshare" } {
                (csrf(guest))
                input type="hidden" name="share" value=(mark(share));
                p { "A link by " (short_line(&share.name, 60)) ", valid until " (times::day(share.until)) "." }
                button.stop type="submit" { "End it now" }
            }
        }
        @if shares.len() > LISTED { p { "And " (shares.len() - LISTED) " older ones." } }
    }
}

fn may_share(shared: &DashboardState, seen: &VisibleTurn) -> bool {
    shared.sharing && seen.standing.acts && matches!(seen.line.lane, Lane::Channel(_))
}

/// Returns an identifier of a link for forms, which reveals nothing about the secret.
fn mark(share: &TurnShare) -> &str {
    share.digest.get(..16).unwrap_or_default()
}

fn go(guest: &SignedIn, turn: &str, notice: impl Into<String>) -> Response {
    guest.session.set_notice(notice);
    Redirect::to(&path(turn)).into_response()
}

/// Creates a link.
pub(in crate::dashboard) async fn share(
    State(shared): State<Arc<DashboardState>>,
    Path(turn): Path<String>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    let Some(seen) = visible_turn(&shared, &guest, &turn).await else {
        return frame::not_found().await;
    };
    let Lane::Channel(channel) = seen.line.lane else { return go(&guest, &turn, NOT_HERE) };
    if !shared.sharing {
        return go(&guest, &turn, NOT_HERE);
    }
    if !seen.standing.acts {
        return go(&guest, &turn, NOT_YOURS);
    }
    let Some((_, _, hours)) = SPANS.into_iter().find(|(name, ..)| *name == fields.one("span"))
    else {
        return go(&guest, &turn, "Choose how long the link is valid.");
    };
    if let Err(why) = shared.services.history.transcript(&seen.line).await {
        return go(&guest, &turn, format!("It cannot be shared: {why}."));
    }
    let (made, visitor) = (Timestamp::now(), &guest.session.visitor);
    let until = made.checked_add(SignedDuration::from_hours(hours)).unwrap_or(made);
    let key = secret();
    let share = TurnShare {
        digest: digest(&key).to_string(),
        turn: turn.clone(),
        channel,
        by: visitor.user,
        name: visitor.name.clone(),
        made,
        until,
    };
    let (saved_digest, shares) = (share.digest.clone(), shared.services.history.shares());
    if let Err(refusal) = shares.add(share).await {
        if let aetheel_store::workspace::ShareError::File(error) = &refusal {
            tracing::error!(%error, "cannot keep a link to a turn");
        }
        return go(&guest, &turn, refusal.to_string());
    }
    // The user gets the link only if the channel was informed.
    let until = until.strftime("%Y-%m-%d %H:%M UTC");
    let did = format!("made a read-only link to the turn {turn}, until {until}.");
    if shared.api.post_action(Some(channel), &visitor.name, &did).await.is_err() {
        shares.end(&saved_digest).await;
        return go(
            &guest,
            &turn,
            "Discord did not accept the message about the link, so there is no link.",
        );
    }
    tracing::info!(user = visitor.user.to_field(), turn, %until, "a user made a read-only link to a turn");
    let notice = format!("This is the link; it is shown only now: {}/shared/{key}", shared.origin);
    go(&guest, &turn, notice)
}

/// Ends a link.
pub(in crate::dashboard) async fn unshare(
    State(shared): State<Arc<DashboardState>>,
    Path(turn): Path<String>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    let Some(seen) = visible_turn(&shared, &guest, &turn).await else {
        return frame::not_found().await;
    };
    if !seen.standing.acts {
        return go(&guest, &turn, NOT_YOURS);
    }
    let shares = shared.services.history.shares();
    let all = shares.of_turn(&turn, Timestamp::now()).await;
    let Some(share) = all.into_iter().find(|share| mark(share) == fields.one("share")) else {
        return go(&guest, &turn, "That link is no longer valid.");
    };
    shares.end(&share.digest).await;
    let visitor = &guest.session.visitor;
    tracing::info!(user = visitor.user.to_field(), turn, "a user ended a read-only link to a turn");
    let did = format!("ended a read-only link to the turn {turn}.");
    let _ = shared.api.post_action(Some(share.channel), &visitor.name, &did).await;
    go(&guest, &turn, "That link is no longer valid.")
}

/// Shows a turn to a reader with a link.
pub(in crate::dashboard) async fn page(
    State(shared): State<Arc<DashboardState>>,
    Path(key): Path<String>,
    at: Result<Query<PagePosition>, QueryRejection>,
) -> Response {
    let from = at.ok().map_or(0, |Query(at)| at.from);
    let shown = shared_turn(&shared, &key).await.map(|(line, until, transcript)| {
        let base = format!("/shared/{key}");
        let sheet =
            TurnSheet { line: &line, transcript: &transcript, eyes: ViewLevel::Link, base: &base };
        html! {
            p { "This is a read-only copy. It is available until " (times::day(until)) "." }
            (sheet.html(from))
        }
    });
    outside(shown)
}

/// Shows a page of a long text to a reader with a link.
pub(in crate::dashboard) async fn part(
    State(shared): State<Arc<DashboardState>>,
    Path((key, part)): Path<(String, String)>,
    at: Result<Query<PagePosition>, QueryRejection>,
) -> Response {
    let page = at.ok().map_or(1, |Query(at)| at.page);
    let shown = shared_turn(&shared, &key).await.and_then(|(line, _, transcript)| {
        let base = format!("/shared/{key}");
        TurnSheet { line: &line, transcript: &transcript, eyes: ViewLevel::Link, base: &base }
            .part(&part, page)
    });
    outside(shown)
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

/// Returns the turn of a valid link, without personal data. Returns `None` if the link is not
/// valid, or if the creator's permissions are unknown.
async fn shared_turn(
    shared: &DashboardState,
    key: &str,
) -> Option<(TurnLine, Timestamp, Result<TurnTranscript, TranscriptError>)> {
    // Limits the load, so that readers with links slow down only each other, not signed-in users.
    let _one = shared.link_requests.acquire().await.ok()?;
    let shares = shared.services.history.shares();
    let share = shares.find(&digest(key).to_string(), Timestamp::now()).await?;
    if !shared.sharing {
        return None;
    }
    match shared.api.permissions(share.by, share.channel).await {
        Ok(standing) if standing.sees => {}
        Ok(_) => {
            tracing::info!(
                user = share.by.to_field(),
                turn = share.turn,
                "the creator of a link cannot see its turn any more; the link has ended"
            );
            shares.end(&share.digest).await;
            return None;
        }
        // The permissions are unknown.
        Err(_) => return None,
    }
    let line = shared.services.history.ended_turn(&share.turn).await;
    let line = line.filter(|line| line.lane == Lane::Channel(share.channel));
    let transcript = match &line {
        Some(line) => shared.services.history.transcript(line).await,
        None => Err(TranscriptError::Gone),
    };
    let mut transcript = match transcript {
        Ok(transcript) => transcript,
        Err(TranscriptError::Gone) => {
            shares.end(&share.digest).await;
            return None;
        }
        Err(_) => return None,
    };
    let mut line = line?;
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
    Some((line, share.until, Ok(transcript)))
}
