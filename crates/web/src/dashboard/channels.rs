//! The channels that a user may see, with their settings, and the forms that change these.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use tokio::task::JoinSet;

use super::layout::{self, MenuPage, csrf};
use super::middleware::{FormFields, SignedIn, SubmittedForm};
use super::{DashboardState, frame, later_turns};
use aetheel_dispatch::{Setting, SettingOption, status_rows};
use aetheel_model::access::LanePermissions;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use aetheel_model::plain::short_line;
use aetheel_model::shown_time::readable;

/// The largest number of channels that are looked up in Discord for a page. The newest channels
/// take precedence.
const ASKED: usize = 60;
/// The largest number of values in the list of a setting.
const CHOICES: usize = 60;
/// The value that resets a setting.
const UNSET: &str = "unset";
const NOT_THERE: &str = "This channel does not exist, or you cannot see it.";
const NOT_YOURS: &str = "You are not allowed to do that there.";

/// Lists the channels.
pub(super) async fn list(State(shared): State<Arc<DashboardState>>, guest: SignedIn) -> Response {
    let mut channels = shared.services.observer.channels().await;
    channels.push(guest.session.visitor.channel);
    channels.sort_unstable();
    channels.dedup();
    let more = channels.len() > ASKED;
    let mut asking = JoinSet::new();
    for channel in channels.into_iter().rev().take(ASKED) {
        let (shared, guest) = (Arc::clone(&shared), guest.clone());
        asking.spawn(async move {
            (guest.permissions_in(&shared, &Lane::Channel(channel)).await, channel)
        });
    }
    let mut seen = Vec::new();
    while let Some(answered) = asking.join_next().await {
        seen.extend(answered.ok().filter(|(standing, _)| standing.sees));
    }
    seen.sort_by(|(a, _), (b, _)| a.place.cmp(&b.place));
    let main = html! {
        p { "Channels in which somebody talked to the bot, if you can see them in Discord." }
        ul.list {
            @for (standing, channel) in &seen {
                li { a href={ "/channels/" (channel) } { (short_line(&standing.place, 80)) } }
            }
        }
        @if more { p { "Older channels are not listed: use " code { "/status" } " there." } }
    };
    layout::page(&guest, MenuPage::Channels, false, &main)
}

/// Shows one channel.
pub(super) async fn one(
    State(shared): State<Arc<DashboardState>>,
    guest: SignedIn,
    channel: Result<Path<ChannelId>, PathRejection>,
) -> Response {
    let Ok(Path(channel)) = channel else { return frame::not_found().await };
    let Some((lane, standing)) = channel_of(&shared, &guest, channel).await else {
        return frame::not_found().await;
    };
    let view = shared.services.observer.lane_status(&lane).await;
    let rows = status_rows(&view, standing.owner, Timestamp::now());
    let shown = |text: &str, most| short_line(&readable(text, &TimeZone::UTC), most);
    let main = html! {
        h2 { (short_line(&standing.place, 80)) }
        dl {
            @for row in rows.iter().filter(|row| !row.name.is_empty()) {
                dt { (row.name) } dd { (shown(&row.text, 300)) }
            }
        }
        @for row in rows.iter().filter(|row| row.name.is_empty()) { p { (shown(&row.text, 500)) } }
        (later_turns::of_lane(&shared, &guest, &lane, &standing))
        @if standing.acts {
            h2 { "Choose" }
            p { "Changes apply from the next message on. The bot announces them in the channel." }
            @for option in &view.options { (choice(option, channel, &guest)) }
            h2 { "Conversation" }
            form method="post" action="/channels/reset" {
                (csrf(&guest))
                input type="hidden" name="channel" value=(channel);
                button.stop type="submit" { "Begin a new conversation" }
            }
        }
    };
    layout::page(&guest, MenuPage::Channels, false, &main)
}

fn choice(option: &SettingOption, channel: ChannelId, guest: &SignedIn) -> Markup {
    let title = option.setting.title();
    let id = format!("choose-{title}");
    let chosen = |value: &str| option.chosen && option.current.as_deref() == Some(value);
    let listed = option.choices.iter().take(CHOICES);
    html! {
        @if !option.choices.is_empty() || option.open {
            form method="post" action="/channels/choose" {
                (csrf(guest))
                input type="hidden" name="channel" value=(channel);
                input type="hidden" name="setting" value=(title);
                label for=(id) { (title) ", now " (short_line(option.shown(), 80)) }
                @if option.choices.is_empty() {
                    input type="text" id=(id) name="value" autocomplete="off" required;
                } @else {
                    select id=(id) name="value" {
                        option value=(UNSET) selected[!option.chosen] { "Default" }
                        @for choice in listed {
                            option value=(choice.id) selected[chosen(&choice.id)] {
                                (short_line(if choice.label.is_empty() { &choice.id } else { &choice.label }, 80))
                            }
                        }
                    }
                }
                button type="submit" aria-label={ "Choose " (title) } { "Choose" }
            }
        }
    }
}

/// Returns a channel and the user's permissions in it, if the user may see it.
async fn channel_of(
    shared: &DashboardState,
    guest: &SignedIn,
    channel: ChannelId,
) -> Option<(Lane, LanePermissions)> {
    let lane = Lane::Channel(channel);
    let standing = guest.permissions_in(shared, &lane).await;
    if let Some(parent) = standing.parent {
        // The gateway may not know yet that this channel is a thread.
        shared.services.settings.learn_parent(channel, parent);
    }
    standing.sees.then_some((lane, standing))
}

/// Returns the channel of a form if the user may write there, otherwise the page to go to and a
/// message.
async fn meant(
    shared: &DashboardState,
    guest: &SignedIn,
    fields: &FormFields,
) -> Result<(Lane, ChannelId), (String, &'static str)> {
    let elsewhere = || ("/channels".to_owned(), NOT_THERE);
    let channel = fields.one("channel").parse().map_err(|_| elsewhere())?;
    match channel_of(shared, guest, channel).await {
        None => Err(elsewhere()),
        Some((_, standing)) if !standing.acts => Err((path(channel), NOT_YOURS)),
        Some((lane, _)) => Ok((lane, channel)),
    }
}

/// Redirects to a page that shows a message.
fn go(guest: &SignedIn, path: &str, notice: impl Into<String>) -> Response {
    guest.session.set_notice(notice);
    Redirect::to(path).into_response()
}

fn path(channel: ChannelId) -> String {
    format!("/channels/{channel}")
}

/// Changes a setting.
pub(super) async fn choose(
    State(shared): State<Arc<DashboardState>>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    let (lane, channel) = match meant(&shared, &guest, &fields).await {
        Ok(meant) => meant,
        Err((path, why)) => return go(&guest, &path, why),
    };
    let setting = Setting::ALL.into_iter().find(|setting| setting.title() == fields.one("setting"));
    let value = fields.one("value").trim();
    let notice = match setting.filter(|_| !value.is_empty()) {
        None => "Choose a value.".to_owned(),
        Some(setting) => match shared.services.settings.choose(&lane, setting, Some(value)).await {
            Err(error) => short_line(&error.to_string(), 300),
            Ok(chosen) => {
                let visitor = &guest.session.visitor;
                tracing::info!(user = visitor.user.to_field(), %lane, "from the dashboard: {chosen}");
                let _ = shared
                    .api
                    .post_action(Some(channel), &visitor.name, &format!("chose: {chosen}"))
                    .await;
                chosen
            }
        },
    };
    go(&guest, &path(channel), notice)
}

/// Starts a new conversation.
pub(super) async fn reset(
    State(shared): State<Arc<DashboardState>>,
    sent: SubmittedForm,
) -> Response {
    let SubmittedForm { guest, fields } = sent;
    let (lane, channel) = match meant(&shared, &guest, &fields).await {
        Ok(meant) => meant,
        Err((path, why)) => return go(&guest, &path, why),
    };
    let notice = match shared.services.conversations.reset(&lane).await {
        Err(error) => error.to_string(),
        Ok(false) => "There is no conversation yet.".to_owned(),
        Ok(true) => {
            let visitor = &guest.session.visitor;
            tracing::info!(user = visitor.user.to_field(), %lane, "a user began a new conversation from the dashboard");
            AuditEntry::new(AuditKind::ConversationReset)
                .by(Some(visitor.user), Some(&visitor.name))
                .in_lane(&lane)
                .with("address", "dashboard")
                .note();
            let did = "began a new conversation here.";
            let _ = shared.api.post_action(Some(channel), &visitor.name, did).await;
            "The next message begins a new conversation.".to_owned()
        }
    };
    go(&guest, &path(channel), notice)
}
