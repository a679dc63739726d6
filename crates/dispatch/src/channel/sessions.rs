//! Resuming and compacting the conversations of a lane.
//!
//! A lane never shows the conversations of another lane, and no session is open in two lanes.
//! Sessions that the agent lists and that the gateway did not start belong to somebody at the
//! agent's own terminal. Only owners see them. Tested by `tests/dispatch/sessions.rs`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::error::LaneRequestError;
use super::listings::ListingKind;
use super::{ChannelContext, DIRECTORY};
use crate::Shared;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{QueryKind, QueryResult, SessionId};
use aetheel_model::event::{Event, Lane};
use aetheel_model::plain::{short_line, with_causes};
use aetheel_recording::reason::readable_message;
use aetheel_runtime::clock::Clock;
use aetheel_store::workspace::{ChosenSession, PastConversation};

/// The maximum length of a title, in characters.
const TITLE_LIMIT: usize = 80;
/// The time limit for compacting, which runs the model.
const COMPACT_TIMEOUT: Duration = Duration::from_secs(180);

/// The conversations of a lane with its backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationList {
    /// The label of the backend.
    pub label: String,
    /// Whether the backend can resume conversations.
    pub resumable: bool,
    /// Whether the backend can continue a copy of a conversation.
    pub forkable: bool,
    /// The current conversation, then the others of the lane, then the agent's own, each newest
    /// first.
    pub all: Vec<Conversation>,
}

/// A conversation that can be resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// The agent's id of the session.
    pub id: SessionId,
    /// The agent's title, or the beginning of the first prompt, on one line. May be empty.
    pub title: String,
    /// For a conversation of the gateway, when it began or was last resumed.
    /// For one of the agent itself, when the agent last changed it, if it reports that.
    pub since: Option<Timestamp>,
    /// Whether the next prompt continues it.
    pub current: bool,
    /// Whether it was started here, not at the agent's own terminal.
    pub ours: bool,
}

/// Lists, resumes, compacts and resets the conversations of lanes. Cheap to clone.
#[derive(Clone)]
pub struct Conversations {
    shared: Arc<Shared>,
}

impl Conversations {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns the conversations that a lane can resume. For an owner, this includes those that the
    /// agent lists within `wait` and that belong to no other lane.
    pub async fn list(&self, lane: &Lane, owner: bool, wait: Duration) -> ConversationList {
        let shared = &self.shared;
        let (name, settings) = shared.channels.backend_of(lane).await;
        let Some(backend) = shared.serving(&name, lane) else {
            return ConversationList::default();
        };
        let descriptor = backend.descriptor();
        let mut found = ConversationList {
            label: descriptor.label().to_owned(),
            resumable: descriptor.has(Feature::Resume),
            forkable: descriptor.has(Feature::Fork),
            all: Vec::new(),
        };
        let Ok(directory) = shared.channels.directory_of(&settings).await else { return found };
        if !found.resumable {
            return found;
        }
        let elsewhere = shared.channels.non_default_directory(&directory);
        let state = &shared.deps.workspace.state;
        let current = state.bindings.get(lane, &name).await.session;
        // An agent finds a session only in the directory where it was created.
        let past = state.history.of(lane, &name).await.into_iter();
        let past = past.filter(|past| past.directory == elsewhere);
        found.all.extend(past.map(|past| Conversation {
            current: current.as_ref() == Some(&past.session),
            title: past.title,
            since: Some(past.since),
            id: past.session,
            ours: true,
        }));
        if owner {
            let mut known: HashSet<SessionId> =
                found.all.iter().map(|known| known.id.clone()).collect();
            known.extend(state.bindings.sessions_of_other_lanes(lane, &name).await);
            known.extend(state.history.sessions_of_other_lanes(lane, &name).await);
            let listed = shared.listings.ask(&backend, ListingKind::Sessions, wait).await;
            let channels = &shared.channels;
            let foreign =
                channels.sessions_of_agent(listed.as_deref(), &directory, current.as_ref(), &known);
            found.all.extend(foreign);
        }
        found.all.sort_by_key(|known| !known.current);
        found
    }

    /// Resumes one of [`Conversations::list`] from the next turn on. Returns a message for
    /// the person who asked.
    ///
    /// # Errors
    /// [`LaneRequestError`] if `id` does not name a conversation, or if the file cannot be written.
    pub async fn resume(
        &self,
        lane: &Lane,
        id: &str,
        owner: bool,
        wait: Duration,
    ) -> Result<String, LaneRequestError> {
        self.choose(lane, id, false, owner, wait).await
    }

    /// Continues a copy of one of [`Conversations::list`] from the next turn on. The conversation
    /// itself stays as it is and can be resumed later. Returns a message for the person who asked.
    ///
    /// # Errors
    /// [`LaneRequestError`] if the backend cannot copy conversations, if `id` does not name one, or
    /// if the file cannot be written.
    pub async fn fork(
        &self,
        lane: &Lane,
        id: &str,
        owner: bool,
        wait: Duration,
    ) -> Result<String, LaneRequestError> {
        self.choose(lane, id, true, owner, wait).await
    }

    async fn choose(
        &self,
        lane: &Lane,
        id: &str,
        fork: bool,
        owner: bool,
        wait: Duration,
    ) -> Result<String, LaneRequestError> {
        let found = self.list(lane, owner, wait).await;
        if !found.resumable {
            return Err(LaneRequestError::NoResume);
        }
        if fork && !found.forkable {
            return Err(LaneRequestError::NoFork(found.label));
        }
        let Some(chosen) = find_conversation(found.all, id) else {
            return Err(LaneRequestError::NoSuchConversation);
        };
        let called = if chosen.title.is_empty() {
            short_id(&chosen.id)
        } else {
            format!("\"{}\"", chosen.title)
        };
        if chosen.current && !fork {
            return Ok(format!("{called} is already the current conversation"));
        }
        let (name, settings) = self.shared.channels.backend_of(lane).await;
        let directory = self.shared.channels.directory_of(&settings).await?;
        let elsewhere = self.shared.channels.non_default_directory(&directory);
        let (id, value) = (chosen.id.clone(), elsewhere.clone());
        let resumed = ChosenSession { id, fork, setting: DIRECTORY, value };
        let bindings = &self.shared.deps.workspace.state.bindings;
        bindings.resume(lane, &name, resumed).await.map_err(|error| {
            tracing::error!(%lane, error = %with_causes(&error), "cannot save the resumed conversation");
            LaneRequestError::NotSaved
        })?;
        let past = PastConversation {
            lane: lane.clone(),
            backend: name,
            session: chosen.id,
            since: now(&self.shared.deps.clock),
            title: chosen.title.clone(),
            directory: elsewhere,
        };
        self.shared.channels.note(past, None).await;
        Ok(if fork {
            format!("a copy of {called} continues with the next message")
        } else {
            format!("{called} continues with the next message")
        })
    }

    /// Lets the agent compact the conversation of a lane, which runs the model and takes at most
    /// [`COMPACT_TIMEOUT`]. Returns a message for the person who asked.
    ///
    /// # Errors
    /// [`LaneRequestError`] if the backend cannot do this, if there is no open conversation, or if
    /// the agent fails.
    pub async fn compact(&self, lane: &Lane) -> Result<String, LaneRequestError> {
        let (name, _) = self.shared.channels.backend_of(lane).await;
        let Some(backend) = self.shared.serving(&name, lane) else {
            let offered = self.shared.channels.offered_names(lane).await;
            return Err(LaneRequestError::NoBackend { name, offered });
        };
        if !backend.descriptor().has(Feature::Compact) {
            return Err(LaneRequestError::NoCompact(backend.descriptor().label().to_owned()));
        }
        if self.shared.lanes.is_busy(lane) {
            return Err(LaneRequestError::Busy);
        }
        let bindings = &self.shared.deps.workspace.state.bindings;
        let binding = bindings.get(lane, &name).await;
        let Some(session) = binding.session else {
            return Err(LaneRequestError::NoConversation);
        };
        let asked = self
            .shared
            .links
            .query_session(lane, &backend, session.as_str(), QueryKind::Compact, COMPACT_TIMEOUT)
            .await;
        let refused = |why: &str| {
            tracing::warn!(%lane, backend = name, why, "a conversation was not shortened");
            LaneRequestError::NotCompacted
        };
        match asked {
            Ok(None) => Err(LaneRequestError::NotOpen),
            Ok(Some((QueryResult::Failed(failure), _))) => Err(refused(&readable_message(
                &failure.message,
                "",
                &backend.descriptor().stderr_noise,
            ))),
            Ok(Some((_, renamed))) => {
                if let Some(id) = renamed.and_then(|id| SessionId::new(&id).ok()) {
                    let kept =
                        bindings.set_session_if(lane, &name, Some(id.clone()), binding.epoch).await;
                    match kept {
                        Ok(true) => {
                            self.shared.channels.session_renamed(lane, &name, &session, id).await
                        }
                        Ok(false) => {}
                        Err(error) => {
                            tracing::error!(%lane, error = %with_causes(&error), "cannot save the shortened conversation's session")
                        }
                    }
                }
                tracing::info!(%lane, backend = name, "conversation shortened");
                Ok("The conversation is shortened".to_owned())
            }
            Err(error) => Err(refused(&error.to_string())),
        }
    }

    /// Forgets the conversation of a lane and closes its session on the agent, with everything that
    /// still runs in that session. A turn that still runs does not restore it. Returns whether
    /// there was a conversation.
    ///
    /// # Errors
    /// [`LaneRequestError::NotForgotten`] if the file cannot be written.
    pub async fn reset(&self, lane: &Lane) -> Result<bool, LaneRequestError> {
        let had = self.shared.deps.workspace.state.bindings.reset(lane).await.map_err(|error| {
            tracing::error!(%lane, error = %with_causes(&error), "cannot forget the conversation");
            LaneRequestError::NotForgotten
        })?;
        // A running turn keeps its link. The next turn finds that the session of the link is no
        // longer that of the conversation.
        if !self.shared.lanes.is_busy(lane) {
            self.shared.links.forget(lane);
        }
        Ok(had)
    }
}

impl ChannelContext {
    /// Returns the sessions that the agent lists for this directory and that are not `known`.
    fn sessions_of_agent(
        &self,
        listed: Option<&QueryResult>,
        directory: &Path,
        current: Option<&SessionId>,
        known: &HashSet<SessionId>,
    ) -> Vec<Conversation> {
        let Some(QueryResult::Sessions(listed)) = listed else { return Vec::new() };
        let here = listed.iter().filter(|session| {
            session.cwd.as_deref().is_some_and(|cwd| Path::new(cwd) == directory)
        });
        let mut found: Vec<Conversation> = here
            .filter_map(|session| {
                let id =
                    SessionId::new(&session.native_id).ok().filter(|id| !known.contains(id))?;
                let title = self
                    .deps
                    .redactor
                    .redact(short_line(session.title.as_deref().unwrap_or_default(), TITLE_LIMIT));
                let since = session.updated.as_deref().and_then(|time| time.parse().ok());
                Some(Conversation { current: current == Some(&id), id, title, since, ours: false })
            })
            .collect();
        found.sort_by_key(|session| std::cmp::Reverse(session.since));
        found
    }

    /// Records the conversation of an event's turn. `before` is the session that the turn was asked
    /// to continue, `title` is the agent's title, and `directory` the working directory.
    pub(crate) async fn note_session(
        &self,
        event: &Event,
        backend: &str,
        session: SessionId,
        before: Option<&str>,
        title: Option<&str>,
        directory: Option<String>,
    ) {
        // Only people can resume a conversation.
        if !matches!(event.lane, Lane::Channel(_) | Lane::Console) {
            return;
        }
        let title =
            self.deps.redactor.redact(short_line(title.unwrap_or(&event.prompt), TITLE_LIMIT));
        let past = PastConversation {
            lane: event.lane.clone(),
            backend: backend.to_owned(),
            session,
            since: now(&self.deps.clock),
            title,
            directory,
        };
        self.note(past, before.and_then(|id| SessionId::new(id).ok())).await;
    }

    /// Records that a session continues under a new id.
    async fn session_renamed(
        &self,
        lane: &Lane,
        backend: &str,
        before: &SessionId,
        session: SessionId,
    ) {
        let mut past = self.deps.workspace.state.history.of(lane, backend).await.into_iter();
        let known = past.find(|past| past.session == *before);
        if let Some(past) = known {
            self.note(PastConversation { session, ..past }, Some(before.clone())).await;
        }
    }

    /// Forgets a conversation that the agent does not know any more.
    pub(crate) async fn forget_session(&self, lane: &Lane, backend: &str, session: &str) {
        let Ok(session) = SessionId::new(session) else { return };
        let history = &self.deps.workspace.state.history;
        if let Err(error) = history.forget(lane, backend, &session).await {
            tracing::warn!(%lane, error = %with_causes(&error), "cannot forget a conversation that is lost; `/sessions` still lists it");
        }
    }

    async fn note(&self, past: PastConversation, before: Option<SessionId>) {
        let lane = past.lane.clone();
        if let Err(error) = self.deps.workspace.state.history.note(past, before.as_ref()).await {
            tracing::warn!(%lane, error = %with_causes(&error), "cannot save the conversation; `/sessions` will not list it");
        }
    }
}

/// Returns the conversation with this id, or the only one whose id starts with it.
fn find_conversation(mut all: Vec<Conversation>, id: &str) -> Option<Conversation> {
    if let Some(at) = all.iter().position(|known| known.id.as_str() == id) {
        return Some(all.swap_remove(at));
    }
    let id = id.trim_end_matches('…');
    all.retain(|known| id.len() >= 4 && known.id.as_str().starts_with(id));
    if all.len() == 1 { all.pop() } else { None }
}

/// Shortens an id for display.
pub(crate) fn short_id(id: &SessionId) -> String {
    let text = id.as_str();
    if text.len() <= 12 {
        text.to_owned()
    } else {
        format!("{}…", text.chars().take(8).collect::<String>())
    }
}

/// Returns the current time in the precision of state files that people read.
fn now(clock: &Clock) -> Timestamp {
    Timestamp::from_millisecond(clock.now_ms()).unwrap_or(Timestamp::UNIX_EPOCH)
}
