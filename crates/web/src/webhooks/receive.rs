//! Processes one call, from its headers to its response.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::response::Response;
use tokio::sync::watch;

use super::super::connection::HttpCaller;
use super::super::slots::{CallerSlot, CallerSlots};
use super::WebhookDeps;
use super::answer::{WebhookOutcome, WebhookRefusal};
use super::definitions::CallableWebhook;
use super::refusals::Refusals;
use super::signature::{self, SignatureFault, WebhookKey};
use aetheel_dispatch::PromptRefusal;
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent, Sequence};
use aetheel_model::plain::with_causes;
use aetheel_model::prompt::{WebhookPayload, quote_payload, readable_form};
use aetheel_runtime::figures;
use aetheel_store::workspace::{ClaimResult, Webhook, WebhookScheme};

/// Largest body in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Time limit for the whole body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit between two pieces of the body.
const PIECE_TIMEOUT: Duration = Duration::from_secs(5);
/// Headers with a signature of the body, which can only be checked when the body is complete.
const SIGNATURES: [&str; 2] = ["webhook-signature", "x-hub-signature-256"];
/// Largest part of a payload that is quoted in a prompt, in bytes. Together with the longest
/// instruction, this is below any `PROMPT_LIMIT_BYTES`.
const MAX_PAYLOAD_BYTES: usize = 64 << 10;
/// Larger bodies (in bytes) are hashed on the blocking pool.
const BLOCKING_HASH_BYTES: usize = 16 << 10;

/// Whether calls are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntakeStage {
    Starting,
    Open,
    Closing,
}

/// The state that all calls share.
pub(super) struct WebhookState {
    pub(super) deps: WebhookDeps,
    pub(super) stage: watch::Sender<IntakeStage>,
    /// A key for webhooks without a secret, so that the time of a check is always the same.
    pub(super) spare: WebhookKey,
    pub(super) bodies: CallerSlots,
    pub(super) refusals: Refusals,
}

/// The declared format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Plain,
    Form,
}

/// Answers a call: authenticates it, creates an event from it, and waits until the event is saved.
pub(super) async fn receive(
    State(shared): State<Arc<WebhookState>>,
    ConnectInfo(caller): ConnectInfo<HttpCaller>,
    request: Request,
) -> Response {
    caller.headers_received();
    let mut known = None;
    let response = match take(&shared, request, &caller, &mut known).await {
        Ok(answer) => answer.response(),
        Err(refused) => {
            shared.refusals.log(known.as_deref(), &caller, &refused);
            refused.response()
        }
    };
    figures::webhook_called(known.as_deref(), response.status().as_u16());
    response
}

/// Processes a call. Sets `known` to the webhook's name if such a webhook exists.
async fn take(
    shared: &Arc<WebhookState>,
    request: Request,
    caller: &HttpCaller,
    known: &mut Option<String>,
) -> Result<WebhookOutcome, WebhookRefusal> {
    let (head, body) = request.into_parts();
    let name = head.uri.path().strip_prefix("/webhooks/").ok_or(WebhookRefusal::NotFound)?;
    if head.method != Method::POST {
        return Err(WebhookRefusal::Method);
    }
    if *shared.stage.borrow() != IntakeStage::Open {
        return Err(WebhookRefusal::Closed);
    }
    let place = shared.bodies.try_acquire(caller.address.ip()).ok_or(WebhookRefusal::Busy)?;
    let content = content(&head.headers)?;

    let all = shared.deps.definitions.current().await;
    let armed =
        Some(name).filter(|name| Webhook::is_name(name)).and_then(|name| all.get(name)).cloned();
    *known = armed.as_ref().map(|armed| armed.webhook.name.clone());
    let event = only_text(&head.headers, "x-github-event");
    // A call without a signature is authenticated before its body is read. This depends only on the
    // call and not on the webhook, so it reveals nothing about names.
    let early = !SIGNATURES.iter().any(|name| head.headers.contains_key(*name));
    let (armed, proof, body) = if early {
        let (proven, _) = prove(shared, armed.clone(), head.headers, Vec::new()).await;
        let (armed, proof) = (armed.ok_or(WebhookRefusal::Unknown)?, proven?);
        place.protect();
        (armed, proof, read_in_time(&place, body).await?)
    } else {
        let body = read_in_time(&place, body).await?;
        place.protect();
        let (proven, body) = prove(shared, armed.clone(), head.headers, body).await;
        // The name is checked after the signature, so that unknown names take the same time.
        (armed.ok_or(WebhookRefusal::Unknown)?, proven?, body)
    };
    armed.admit().map_err(WebhookRefusal::Often)?;

    let webhook = &armed.webhook;
    let event = event.filter(|_| webhook.scheme == WebhookScheme::Github);
    if let Some(event) = event.as_deref().filter(|event| !wanted(webhook, event)) {
        tracing::debug!(webhook = webhook.name, event, "webhook ignored");
        return Ok(WebhookOutcome::Ignored);
    }
    let text = String::from_utf8_lossy(&body);
    let text = if content == Content::Form { readable_form(&text).into() } else { text };
    let payload = WebhookPayload {
        webhook: &webhook.name,
        event: event.as_deref(),
        instruction: &webhook.instruction,
        text: &text,
        limit: MAX_PAYLOAD_BYTES,
    };
    let origin = EventOrigin::Internal { channel: webhook.channel };
    let mut new = NewEvent::new(
        EventKind::Webhook,
        Lane::Webhook(webhook.name.clone()),
        origin,
        quote_payload(&payload),
    );
    new.key = proof.id.as_ref().map(|id| format!("webhook:{}:{id}", webhook.name));
    // The event is submitted in a separate task: if the caller disconnects, the id of the delivery
    // is still saved.
    let (shared, from, name) = (Arc::clone(shared), caller.address.ip(), webhook.name.clone());
    let accepted = tokio::spawn(async move {
        match accept(&shared, &name, proof.id.as_deref(), new).await? {
            Some(sequence) => {
                tracing::info!(webhook = name, event = sequence, id = proof.id, kind = event, %from, "webhook accepted");
                Ok(WebhookOutcome::Accepted)
            }
            None => {
                tracing::info!(webhook = name, id = proof.id, kind = event, %from, "webhook repeated: it was accepted before");
                Ok(WebhookOutcome::Duplicate)
            }
        }
    });
    // The task fails only when the runtime shuts down.
    accepted.await.map_err(|_| WebhookRefusal::Closed)?
}

/// Submits the event and waits until the event and its id are saved. Returns the event's number if
/// this node assigned one, or `None` if the delivery was accepted before.
async fn accept(
    shared: &WebhookState,
    webhook: &str,
    id: Option<&str>,
    event: NewEvent,
) -> Result<Option<Option<Sequence>>, WebhookRefusal> {
    let deliveries = &shared.deps.deliveries;
    let claim = match id.map(|id| deliveries.claim(webhook, id, now_ms())) {
        None => None,
        Some(ClaimResult::New(claim)) => Some(claim),
        Some(ClaimResult::Taken) => return Ok(None),
        Some(ClaimResult::Pending) => return Err(WebhookRefusal::Pending),
    };
    let sequence = match shared.deps.intake.submit_or_route(event).await {
        Ok(placed) => Some(placed.wait_until_saved().await.map_err(WebhookRefusal::Queue)?),
        Err(PromptRefusal::Known) => None,
        Err(refusal) => return Err(WebhookRefusal::Queue(refusal)),
    };
    if let Some(claim) = claim
        && let Err(error) = claim.keep(now_ms()).await
    {
        tracing::error!(webhook, error = %with_causes(&error), "cannot save a delivery; if it is repeated after a restart, it is accepted again");
    }
    Ok(sequence)
}

/// Authenticates the caller. Takes the body and returns it, because the work may run on another
/// thread.
async fn prove(
    shared: &Arc<WebhookState>,
    armed: Option<Arc<CallableWebhook>>,
    headers: HeaderMap,
    body: Vec<u8>,
) -> (Result<signature::Proof, SignatureFault>, Vec<u8>) {
    let (shared, now_s) = (Arc::clone(shared), jiff::Timestamp::now().as_second());
    let long = body.len() > BLOCKING_HASH_BYTES;
    let work = move || {
        let (scheme, keys) = armed.as_ref().map_or((WebhookScheme::Github, &[][..]), |armed| {
            (armed.webhook.scheme, &armed.keys[..])
        });
        (signature::verify(scheme, keys, &shared.spare, &headers, &body, now_s), body)
    };
    if !long {
        return work();
    }
    // The task fails only when the runtime shuts down.
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| (Err(SignatureFault::Wrong), Vec::new()))
}

/// Returns the declared format of the body. Compressed bodies are refused.
fn content(headers: &HeaderMap) -> Result<Content, WebhookRefusal> {
    if headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(WebhookRefusal::Encoded);
    }
    let text = only_text(headers, "content-type").ok_or(WebhookRefusal::Type)?.to_ascii_lowercase();
    match text.split(';').next().unwrap_or_default().trim() {
        "application/json" => Ok(Content::Plain),
        "application/x-www-form-urlencoded" => Ok(Content::Form),
        kind if kind.starts_with("text/")
            || (kind.starts_with("application/") && kind.ends_with("+json")) =>
        {
            Ok(Content::Plain)
        }
        _ => Err(WebhookRefusal::Type),
    }
}

/// Reads a body, within the time limit and until this client is evicted.
async fn read_in_time(place: &CallerSlot, body: Body) -> Result<Vec<u8>, WebhookRefusal> {
    tokio::select! {
        read = tokio::time::timeout(BODY_TIMEOUT, read(body)) => read.map_err(|_| WebhookRefusal::Slow)?,
        () = place.evicted().cancelled() => Err(WebhookRefusal::Busy),
    }
}

async fn read(mut body: Body) -> Result<Vec<u8>, WebhookRefusal> {
    // The declared size is checked first, so that nothing is read of a body that is too large.
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(WebhookRefusal::Large);
    }
    let mut bytes = Vec::new();
    loop {
        let next = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let Some(frame) =
            tokio::time::timeout(PIECE_TIMEOUT, next).await.map_err(|_| WebhookRefusal::Slow)?
        else {
            break;
        };
        let Ok(data) = frame.map_err(|_| WebhookRefusal::Broken)?.into_data() else { continue };
        if bytes.len() + data.len() > MAX_BODY_BYTES {
            return Err(WebhookRefusal::Large);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// Returns whether the webhook accepts this kind of event. By default, GitHub's `ping` is ignored,
/// which only announces the webhook.
fn wanted(webhook: &Webhook, event: &str) -> bool {
    if webhook.events.is_empty() {
        event != "ping"
    } else {
        webhook.events.iter().any(|wanted| wanted == event)
    }
}

/// Returns the value of a header if it occurs once and is text.
fn only_text(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?.to_owned();
    values.next().is_none().then_some(first)
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
