//! Live content as server-sent events: `cards` (all cards, without the texts of turns), `turn` (the
//! text of one turn), `ended` (the followed turn has ended) and `over` (the session has ended).
//!
//! The text of a turn is rendered once per change for all viewers. A stream does its work while it
//! is polled, so it stops with its connection. [`once`] returns the same content once, for pages
//! for which the browser has no stream left.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::access::{self, AccessDenied, SignedIn};
use super::fields::Fields;
use super::{cards, frame};
use aetheel_dispatch::Observer;
use aetheel_model::event::{Lane, Sequence};

/// The largest number of cached texts. When the cache is full it is cleared.
const MAX_CACHED_TEXTS: usize = 256;
/// Minimum time between two updates.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);
/// How often the permissions of the viewer are checked again.
const ACCESS_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The rendered texts of turns, shared by all viewers.
pub(super) struct LiveTexts {
    observer: Observer,
    made: Mutex<HashMap<Sequence, (u64, Arc<str>)>>,
}

impl LiveTexts {
    pub(super) fn new(observer: Observer) -> Self {
        Self { observer, made: Mutex::default() }
    }

    /// Returns the version and the text of a running turn, or `None` if it does not run.
    pub(super) fn text(&self, lane: &Lane, event: Sequence) -> Option<(u64, Arc<str>)> {
        let Some(turn) = self.observer.watch_turn(lane, event) else {
            self.made.lock().remove(&event);
            return None;
        };
        // The version is read before the text. If the turn changes in between, the text is rendered
        // again.
        let version = turn.version();
        let mut made = self.made.lock();
        if let Some(known) = made.get(&event).filter(|(of, _)| *of >= version) {
            return Some(known.clone());
        }
        if made.len() >= MAX_CACHED_TEXTS {
            made.clear();
        }
        let text: Arc<str> = cards::excerpt_of(&turn).into_string().into();
        made.insert(event, (version, Arc::clone(&text)));
        Some((version, text))
    }
}

/// Streams the changes of all lanes that the user may see, or of one turn, until the connection or
/// the user's access ends. The field `turn` of the address names the event of the turn.
pub(super) async fn follow(user: SignedIn, query: Fields) -> Response {
    let places = [&user.shared.streams, &user.session.streams];
    let places = places.map(|places| Arc::clone(places).try_acquire_owned().ok());
    let [Some(one), Some(other)] = places else {
        return frame::plain(StatusCode::SERVICE_UNAVAILABLE, "Too many pages are open.");
    };
    let (events, sent) = mpsc::channel(8);
    let work = Box::pin(feed(user, query.parse("turn"), events));
    let feed = Feed { work: Some(work), sent, _places: [one, other] };
    Sse::new(feed).keep_alive(KeepAlive::default()).into_response()
}

/// Returns the data that a new stream would send first: `cards` (`null` if one turn is followed),
/// `turns`, and whether the followed turn has `ended`.
pub(super) async fn once(user: SignedIn, query: Fields) -> Response {
    let only: Option<Sequence> = query.parse("turn");
    let seen = cards::visible_cards(&user, only).await;
    let turns = seen.turns().filter_map(|(lane, event)| {
        let (_, text) = user.shared.turns.text(lane, event)?;
        Some(turn_json(event, &text))
    });
    let turns: Vec<Value> = turns.collect();
    let ended = only.is_some() && seen.is_empty();
    let cards = only.is_none().then(|| seen.html(&user, |_, _| None).into_string());
    axum::Json(json!({"cards": cards, "turns": turns, "ended": ended})).into_response()
}

/// Returns the text of a turn in the format of the page's script.
fn turn_json(event: Sequence, html: &str) -> Value {
    json!({"turn": event.to_string(), "html": html})
}

/// A stream that runs its future while it is polled.
struct Feed {
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    sent: mpsc::Receiver<Event>,
    _places: [OwnedSemaphorePermit; 2],
}

impl Stream for Feed {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.work.as_mut().is_some_and(|work| work.as_mut().poll(context).is_ready()) {
            self.work = None;
        }
        // When the future has ended, the channel is closed, and the remaining events are the last
        // ones.
        self.sent.poll_recv(context).map(|event| event.map(Ok))
    }
}

async fn feed(mut user: SignedIn, only: Option<Sequence>, events: mpsc::Sender<Event>) {
    let shared = Arc::clone(&user.shared);
    let observer = &shared.services.observer;
    let (mut lanes, mut growth) = (observer.watch_lanes(), observer.watch_turn_changes());
    let mut sent_list = String::new();
    let mut versions: HashMap<Sequence, u64> = HashMap::new();
    let mut until = Instant::now() + ACCESS_CHECK_INTERVAL;
    loop {
        lanes.mark_unchanged();
        let seen = cards::visible_cards(&user, only).await;
        if only.is_some() && seen.is_empty() {
            // The turn has ended, or the user may not see it any more.
            return send_last(&events, "ended").await;
        }
        let list = match only {
            Some(_) => String::new(),
            None => seen.html(&user, |_, _| None).into_string(),
        };
        if list != sent_list {
            if send(&events, "cards", &json!({"html": list})).await.is_err() {
                return;
            }
            sent_list = list;
        }
        let running: Vec<(Lane, Sequence)> =
            seen.turns().map(|(lane, event)| (lane.clone(), event)).collect();
        versions.retain(|known, _| running.iter().any(|(_, event)| event == known));
        loop {
            growth.mark_unchanged();
            for (lane, event) in &running {
                let Some((version, text)) = shared.turns.text(lane, *event) else { continue };
                if versions.insert(*event, version) != Some(version)
                    && send(&events, "turn", &turn_json(*event, &text)).await.is_err()
                {
                    return;
                }
            }
            sleep(UPDATE_INTERVAL).await;
            tokio::select! {
                _ = lanes.changed() => break,
                _ = growth.changed() => {}
                () = user.session.over.cancelled() => return send_last(&events, "over").await,
                () = shared.closing.cancelled() => return,
                () = sleep_until(until) => {
                    until = Instant::now() + ACCESS_CHECK_INTERVAL;
                    match access::check_access(&shared, Arc::clone(&user.session)).await {
                        Ok(still) => user = still,
                        // The stream ends, because nothing is shown while the permissions are
                        // unknown.
                        Err(AccessDenied::PermissionsUnknown) => return,
                        Err(AccessDenied::Forbidden | AccessDenied::NotSignedIn) => {
                            return send_last(&events, "over").await;
                        }
                    }
                    // The visible lanes may have changed.
                    break;
                }
            }
        }
    }
}

/// Sends an event. Returns an error if the client has disconnected.
async fn send(
    events: &mpsc::Sender<Event>,
    name: &str,
    data: &Value,
) -> Result<(), mpsc::error::SendError<Event>> {
    events.send(Event::default().event(name).data(data.to_string())).await
}

async fn send_last(events: &mpsc::Sender<Event>, name: &str) {
    // An error means that the client has disconnected.
    let _ = send(events, name, &json!({})).await;
}
