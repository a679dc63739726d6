//! The channels that a user may see, with their settings, and the forms that change these.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::Response;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, Render as _, html};

use super::access::SignedIn;
use super::components::{Button, Choice, Facts, Form, TextField, select};
use super::fields::{FormRefusal, SubmittedForm};
use super::layout::{self, MenuPage};
use super::{frame, later_turns};
use aetheel_dispatch::{Setting, SettingOption, StatusRow, status_rows};
use aetheel_model::access::LanePermissions;
use aetheel_model::audit::AuditKind;
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
const NOT_THERE: FormRefusal =
    FormRefusal::of("This channel does not exist, or you cannot see it.");

/// Lists the channels.
pub(super) async fn list(user: SignedIn) -> Response {
    let mut channels = user.services().observer.channels().await;
    channels.push(user.session.visitor.channel);
    channels.sort_unstable();
    channels.dedup();
    let more = channels.len() > ASKED;
    let newest = channels.into_iter().rev().take(ASKED);
    let newest = newest.map(|channel| (Lane::Channel(channel), channel));
    let mut seen = user.permissions_in_all(newest).await;
    seen.retain(|(permissions, _)| permissions.sees);
    seen.sort_by(|(a, _), (b, _)| a.place.cmp(&b.place));
    let main = html! {
        p { "Channels in which somebody talked to the bot, if you can see them in Discord." }
        ul.list {
            @for (permissions, channel) in &seen {
                li { a href=(path(*channel)) { (short_line(&permissions.place, 80)) } }
            }
        }
        @if more { p { "Older channels are not listed: use " code { "/status" } " there." } }
    };
    layout::page(&user, MenuPage::Channels, false, &main)
}

/// Shows one channel.
pub(super) async fn one(
    user: SignedIn,
    channel: Result<Path<ChannelId>, PathRejection>,
) -> Response {
    let Ok(Path(channel)) = channel else { return frame::not_found().await };
    let lane = Lane::Channel(channel);
    let Some(permissions) = visible_channel(channel, &user).await else {
        return frame::not_found().await;
    };
    let view = user.services().observer.lane_status(&lane).await;
    let rows = status_rows(&view, permissions.owner, Timestamp::now());
    let reset = Form::post(&user, "/channels/reset")
        .hidden("channel", channel)
        .with(Button::stop("Begin a new conversation"));
    let main = html! {
        h2 { (short_line(&permissions.place, 80)) }
        (facts(&rows))
        (later_turns::of_lane(&lane, &permissions, &user))
        @if permissions.acts {
            h2 { "Choose" }
            p { "Changes apply from the next message on. The bot announces them in the channel." }
            @for option in &view.options { (choice(option, channel, &user)) }
            h2 { "Conversation" }
            (reset)
        }
    };
    layout::page(&user, MenuPage::Channels, false, &main)
}

/// Renders the status of a channel: first the rows with a name, then the others.
fn facts(rows: &[StatusRow]) -> Markup {
    let shown = |text: &str, most| short_line(&readable(text, &TimeZone::UTC), most);
    let (named, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| !row.name.is_empty());
    let facts = named
        .iter()
        .fold(Facts::default(), |facts, row| facts.row(row.name, shown(&row.text, 300)));
    html! {
        (facts)
        @for row in others { p { (shown(&row.text, 500)) } }
    }
}

fn choice(option: &SettingOption, channel: ChannelId, user: &SignedIn) -> Markup {
    if option.choices.is_empty() && !option.open {
        return html! {};
    }
    let title = option.setting.title();
    let id = format!("choose-{title}");
    let label = format!("{title}, now {}", short_line(option.shown(), 80));
    let field = if option.choices.is_empty() {
        TextField::new(&id, &label, "").name("value").required().render()
    } else {
        let chosen = |value: &str| option.chosen && option.current.as_deref() == Some(value);
        let unset = Choice { value: UNSET, text: "Default".to_owned(), selected: !option.chosen };
        let listed = option.choices.iter().take(CHOICES).map(|choice| Choice {
            value: &choice.id,
            text: short_line(if choice.label.is_empty() { &choice.id } else { &choice.label }, 80),
            selected: chosen(&choice.id),
        });
        select(&id, "value", &label, [unset].into_iter().chain(listed))
    };
    Form::post(user, "/channels/choose")
        .hidden("channel", channel)
        .hidden("setting", title)
        .with(field)
        .with(Button::new("Choose").full_name(format!("Choose {title}")))
        .render()
}

/// Returns the user's permissions in a channel, if the user may see it.
async fn visible_channel(channel: ChannelId, user: &SignedIn) -> Option<LanePermissions> {
    let permissions = user.permissions_in(&Lane::Channel(channel)).await;
    if let Some(parent) = permissions.parent {
        // The gateway may not know yet that this channel is a thread.
        user.services().settings.learn_parent(channel, parent);
    }
    Some(permissions).filter(|permissions| permissions.sees)
}

/// A channel that a form names and that the user may see.
struct NamedChannel {
    lane: Lane,
    acts: bool,
    /// The page to return to.
    path: String,
}

impl NamedChannel {
    async fn of(form: &SubmittedForm) -> Option<Self> {
        let channel = form.fields.parse("channel")?;
        let permissions = visible_channel(channel, &form.user).await?;
        Some(Self { lane: Lane::Channel(channel), acts: permissions.acts, path: path(channel) })
    }
}

/// Returns the lane of a form's channel if the user may write there.
fn writable(channel: Option<&NamedChannel>) -> Result<&Lane, FormRefusal> {
    let channel = channel.ok_or(NOT_THERE)?;
    if channel.acts { Ok(&channel.lane) } else { Err(FormRefusal::Forbidden) }
}

/// Returns the page to which a form returns.
fn page_of(channel: Option<&NamedChannel>) -> &str {
    channel.map_or("/channels", |channel| &channel.path)
}

fn path(channel: ChannelId) -> String {
    format!("/channels/{channel}")
}

/// Changes a setting.
pub(super) async fn choose(form: SubmittedForm) -> Response {
    let channel = NamedChannel::of(&form).await;
    let result = change_setting(&form, channel.as_ref()).await;
    form.answer(page_of(channel.as_ref()), result).await
}

async fn change_setting(
    form: &SubmittedForm,
    channel: Option<&NamedChannel>,
) -> Result<String, FormRefusal> {
    let (user, lane) = (&form.user, writable(channel)?);
    let value = form.fields.one("value").trim();
    let setting = Setting::ALL
        .into_iter()
        .find(|setting| setting.title() == form.fields.one("setting") && !value.is_empty())
        .ok_or(FormRefusal::of("Choose a value."))?;
    let chosen = user.services().settings.choose(lane, setting, Some(value)).await;
    let chosen =
        chosen.map_err(|error| FormRefusal::because(short_line(&error.to_string(), 300)))?;
    tracing::info!(user = user.id().to_field(), %lane, "from the dashboard: {chosen}");
    user.announce(lane, &format!("chose: {chosen}")).await;
    Ok(chosen)
}

/// Starts a new conversation.
pub(super) async fn reset(form: SubmittedForm) -> Response {
    let channel = NamedChannel::of(&form).await;
    let result = begin_conversation(&form, channel.as_ref()).await;
    form.answer(page_of(channel.as_ref()), result).await
}

async fn begin_conversation(
    form: &SubmittedForm,
    channel: Option<&NamedChannel>,
) -> Result<&'static str, FormRefusal> {
    let (user, lane) = (&form.user, writable(channel)?);
    if !user.services().conversations.reset(lane).await.map_err(FormRefusal::because)? {
        return Ok("There is no conversation yet.");
    }
    tracing::info!(user = user.id().to_field(), %lane, "a user began a new conversation from the dashboard");
    let entry = user.audit(AuditKind::ConversationReset).in_lane(lane);
    entry.with("address", "dashboard").note();
    user.announce(lane, "began a new conversation here.").await;
    Ok("The next message begins a new conversation.")
}
