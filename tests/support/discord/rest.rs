//! The HTTP half of the local Discord. Every request is checked, counted against a rate limit, made
//! to fail if the test wants that, and executed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::State as Shared;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use serde_json::{Value, json};

use super::faults::{self, Fault};
use super::state::{
    APPLICATION, BOT, CHANNEL, GUILD, Interaction, OTHER, OWNER, Request, State, TOKEN, Window,
    guild_json, member_json, user_json,
};
use super::{World, multipart, presses, schema};

/// Time limit for the acknowledgement of an interaction.
const ACK: Duration = Duration::from_secs(3);

pub(super) type Outcome = (u16, Value);

pub(super) async fn handle(
    Shared(world): Shared<Arc<World>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let path = uri.path().trim_start_matches("/api/v10").replace("%40", "@");
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    if path.starts_with("/attachments/") {
        return kept(&world, &path, &headers);
    }
    let content_type =
        headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (parsed, files) = match multipart::parse(content_type, &body) {
        Some((payload, files)) => (Some(payload), files),
        None if body.is_empty() => (None, Vec::new()),
        None => (serde_json::from_slice::<Value>(&body).ok(), Vec::new()),
    };
    let found = violations(&method, uri.path(), &segments, &headers, &body, parsed.as_ref());
    let (answer, extra, slow) = world.with(|state| {
        let fault = faults::take(&mut state.faults, method.as_str(), &path);
        let call = Call {
            method: method.as_str(),
            segments: &segments,
            query: uri.query().unwrap_or_default(),
            host: headers
                .get("host")
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            body: parsed.unwrap_or_default(),
            files,
        };
        let mut extra = Vec::new();
        if state.clock_ahead != 0 {
            let date = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(state.clock_ahead);
            extra.push(("date", date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()));
        }
        let mut cut = false;
        let mut slow = state.latency;
        let mut limited = false;
        let outcome = if !found.is_empty() {
            let outcome = (400, json!({"code": 50035, "message": found.join("; ")}));
            state.violations.extend(found);
            outcome
        } else if headers.get("authorization").is_none_or(|value| value != &format!("Bot {TOKEN}")) || state.token_refused {
            (401, json!({"code": 0, "message": "401: Unauthorized"}))
        } else if state.away {
            (503, json!({"code": 0, "message": "upstream connect error"}))
        } else if crowded(state, &segments) {
            extra.push(("retry-after", "1".to_owned()));
            extra.push(("x-ratelimit-scope", "global".to_owned()));
            extra.push(("x-ratelimit-global", "true".to_owned()));
            (429, json!({"message": "You are being rate limited.", "retry_after": 0.5, "global": true, "code": 0}))
        } else if is_gone(state, &segments) {
            unknown_channel()
        } else if forbidden(state, &segments) {
            (403, json!({"code": 50013, "message": "Missing Permissions"}))
        } else {
            match fault {
                Some(Fault::Status(status)) => (status, json!({"code": 0, "message": "a fault"})),
                Some(Fault::Refuse(status, code)) => (status, json!({"code": code, "message": "a fault"})),
                Some(Fault::CutBefore) => {
                    cut = true;
                    (200, Value::Null)
                }
                Some(Fault::Limit { retry_after, global }) => {
                    extra.push(("retry-after", format!("{}", retry_after.ceil())));
                    extra.push(("x-ratelimit-scope", if global { "global" } else { "user" }.to_owned()));
                    if global {
                        extra.push(("x-ratelimit-global", "true".to_owned()));
                    }
                    (429, json!({"message": "You are being rate limited.", "retry_after": retry_after, "global": global, "code": 0}))
                }
                other => match count(state, &call, &mut extra) {
                    Some((retry_after, announced)) => {
                        limited = announced;
                        (429, json!({"message": "You are being rate limited.", "retry_after": retry_after, "global": false, "code": 0}))
                    }
                    None => {
                        cut = matches!(other, Some(Fault::CutAfter));
                        if let Some(Fault::Slow(by)) = other {
                            slow += by;
                        }
                        done(state, &call)
                    }
                },
            }
        };
        let status = if cut { 0 } else { outcome.0 };
        let body = String::from_utf8_lossy(&body).into_owned();
        state.requests.push(Request { at: Instant::now(), method: method.to_string(), path: path.clone(), body, status, limited });
        (if cut { None } else { Some(outcome) }, extra, slow)
    });
    world.notify();
    tokio::time::sleep(slow).await;
    respond(answer, extra)
}

struct Call<'a> {
    method: &'a str,
    segments: &'a [&'a str],
    query: &'a str,
    host: String,
    body: Value,
    files: Vec<multipart::File>,
}

fn respond(answer: Option<Outcome>, extra: Vec<(&'static str, String)>) -> Response<Body> {
    let mut response = Response::builder().header("content-type", "application/json");
    for (name, value) in extra {
        response = response.header(name, value);
    }
    let Some((status, value)) = answer else {
        // A body that ends early makes the server cut the connection.
        let broken =
            futures_util::stream::once(async { Err::<Bytes, _>(std::io::Error::other("cut")) });
        return response
            .header("content-length", 1_000)
            .body(Body::from_stream(broken))
            .expect("a response");
    };
    let body = if status == 204 { Body::empty() } else { Body::from(value.to_string()) };
    response.status(StatusCode::from_u16(status).expect("a status")).body(body).expect("a response")
}

/// Checks a request against Discord's OpenAPI description and the rules that it does not contain.
fn violations(
    method: &Method,
    path: &str,
    segments: &[&str],
    headers: &HeaderMap,
    raw: &Bytes,
    body: Option<&Value>,
) -> Vec<String> {
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut found = Vec::new();
    if !path.starts_with("/api/v10/") {
        found.push(format!("{path} is not below /api/v10"));
        return found;
    }
    let agent = header("user-agent");
    if !(agent.starts_with("DiscordBot (http") && agent.contains(", ") && agent.contains(')')) {
        found.push(format!("the user agent {agent:?} is not `DiscordBot (url, version)`"));
    }
    if !header("authorization").starts_with("Bot ") {
        found.push(format!("{method} {path} has no bot authorization"));
    }
    let typed = header("content-type") == "application/json"
        || header("content-type").starts_with("multipart/form-data; ");
    if !raw.is_empty() && (body.is_none() || !typed) {
        found.push(format!("{method} {path} has a body that is not JSON or not declared as JSON"));
    }
    found.extend(schema::faults(method.as_str(), segments, body));
    let Some(body) = body.filter(|body| body.is_object()) else { return found };
    let message = match segments {
        ["channels", _, "messages", _, "threads"] => return found,
        ["channels", _, "messages", ..] | ["webhooks", ..] => body,
        ["interactions", ..] => &body["data"],
        _ => return found,
    };
    found.extend(presses::faults(&message["components"]));
    // A mere acknowledgement, a modal window and suggestions contain no message.
    if let (["interactions", ..], Some(6 | 8 | 9)) = (segments, body["type"].as_u64()) {
        return found;
    }
    let named = |user: &str| {
        message["content"].as_str().is_some_and(|text| text.contains(&format!("<@{user}>")))
    };
    let question = |mentions: &Value| {
        mentions["users"][0]
            .as_str()
            .is_some_and(|user| named(user) && *mentions == json!({"parse": [], "users": [user]}))
    };
    if message["allowed_mentions"] != json!({"parse": []})
        && !question(&message["allowed_mentions"])
    {
        found.push(format!("{method} {path} could ping: {}", message["allowed_mentions"]));
    }
    if message["content"].as_str().is_some_and(|text| text.chars().count() > 2_000) {
        found.push(format!("{method} {path} is longer than 2000 characters"));
    }
    if let ["channels", _, "messages"] = segments {
        if !(message["nonce"].as_str().is_some_and(|nonce| !nonce.is_empty())
            && message["enforce_nonce"] == true)
        {
            found.push(format!("{method} {path} has no enforced nonce"));
        }
        if !message["message_reference"].is_null()
            && message["message_reference"]["fail_if_not_exists"] != false
        {
            found.push(format!("{method} {path} fails when the message it replies to is gone"));
        }
    }
    found
}

/// Counts a request against the limit per second and returns whether it is exceeded. Answers to
/// interactions do not count.
fn crowded(state: &mut State, segments: &[&str]) -> bool {
    if matches!(segments, ["interactions" | "webhooks", ..]) {
        return false;
    }
    let now = Instant::now();
    while state.second.front().is_some_and(|at| now - *at >= Duration::from_secs(1)) {
        state.second.pop_front();
    }
    if state.second.len() >= state.most_per_second {
        state.crowded += 1;
        return true;
    }
    state.second.push_back(now);
    false
}

/// Returns whether a request is about a deleted channel.
fn is_gone(state: &State, segments: &[&str]) -> bool {
    matches!(segments, ["channels", channel, ..] if id(channel).is_some_and(|id| state.gone.contains(&id)))
}

/// Returns whether the bot has no permissions in the channel of a request.
fn forbidden(state: &State, segments: &[&str]) -> bool {
    matches!(segments, ["channels", channel, _, ..] if id(channel).is_some_and(|id| state.closed.contains(&id)))
}

/// Counts a request against the window of its route. If that is used up, returns the seconds to
/// wait, and whether an earlier answer announced the limit.
fn count(
    state: &mut State,
    call: &Call,
    extra: &mut Vec<(&'static str, String)>,
) -> Option<(f64, bool)> {
    let (template, major) = match call.segments {
        ["channels", channel, "messages"] if call.method == "POST" => ("POST messages", *channel),
        ["channels", channel, "messages", _] if call.method == "PATCH" => {
            ("PATCH message", *channel)
        }
        ["channels", channel, "typing"] => ("POST typing", *channel),
        ["interactions", ..] => return None,
        // A webhook's bucket depends on its id and token together (Discord's documentation,
        // topics/rate-limits).
        ["webhooks", _, token, ..] => ("webhooks", *token),
        [first, second, ..] => (*first, *second),
        _ => return None,
    };
    let (most, span) = state.limits.get(template).copied().unwrap_or((20, Duration::from_secs(1)));
    let now = Instant::now();
    let window = state
        .windows
        .entry((template.to_owned(), major.to_owned()))
        .and_modify(|window| {
            if window.ends <= now {
                *window = Window { left: most, ends: now + span, announced: false };
            }
        })
        .or_insert(Window { left: most, ends: now + span, announced: false });
    let reset = (window.ends - now).as_secs_f64();
    extra.push(("x-ratelimit-limit", most.to_string()));
    extra.push(("x-ratelimit-reset-after", format!("{reset:.3}")));
    extra.push((
        "x-ratelimit-bucket",
        format!(
            "{:x}",
            template.bytes().fold(7_u64, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte))
        ),
    ));
    let refused = window.left == 0;
    let announced = std::mem::replace(&mut window.announced, true);
    window.left = window.left.saturating_sub(1);
    extra.push(("x-ratelimit-remaining", window.left.to_string()));
    refused.then(|| {
        extra.push(("retry-after", reset.ceil().to_string()));
        extra.push(("x-ratelimit-scope", "user".to_owned()));
        (reset, announced)
    })
}

fn done(state: &mut State, call: &Call) -> Outcome {
    let text = call.body["content"].as_str().unwrap_or_default();
    match (call.method, call.segments) {
        ("GET", ["users", "@me"]) => (200, user_json(BOT)),
        ("GET", ["users", "@me", "guilds"]) => {
            let guild = json!({"id": GUILD.to_string(), "name": "Loopback", "icon": null, "banner": null, "owner": false, "permissions": "0", "features": []});
            (200, if state.uninvited { json!([]) } else { json!([guild]) })
        }
        ("GET", ["users", user]) => match id(user) {
            Some(user) if user_json(user)["username"] != "somebody" => (200, user_json(user)),
            _ => (404, json!({"code": 10013, "message": "Unknown User"})),
        },
        ("GET", ["applications", "@me"]) => (
            200,
            json!({"id": APPLICATION.to_string(), "name": "aetheel", "owner": user_json(OWNER), "team": null, "flags": state.flags | if state.reads { 1 << 19 } else { 0 }}),
        ),
        ("GET", ["gateway"]) => (200, json!({"url": state.gateway.url_for(&call.host)})),
        ("GET", ["gateway", "bot"]) => {
            state.windows.values_mut().for_each(|window| window.announced = false);
            let limit = json!({"total": 1000, "remaining": state.gateway.logins_left, "reset_after": 3_600_000, "max_concurrency": state.gateway.max_concurrency});
            (
                200,
                json!({"url": state.gateway.url_for(&call.host), "shards": state.gateway.shards, "session_start_limit": limit}),
            )
        }
        ("GET", ["applications", _, "commands"]) => (200, state.commands.clone()),
        ("PUT", ["applications", _, "commands"]) => {
            let mut commands = call.body.clone();
            for command in commands.as_array_mut().into_iter().flatten() {
                command["id"] = json!(state.id().to_string());
                command["version"] = json!(state.id().to_string());
                if command["options"] == json!([]) {
                    command.as_object_mut().expect("an object").remove("options");
                }
            }
            state.commands = commands.clone();
            (200, commands)
        }
        ("GET", ["channels", channel]) => {
            match id(channel).and_then(|id| Some((id, state.channel_json(id)?))) {
                Some((id, mut channel)) => {
                    if let Some(overwrites) = state.overwrites.get(&id) {
                        channel["permission_overwrites"] = overwrites.clone();
                    }
                    (200, channel)
                }
                None => unknown_channel(),
            }
        }
        ("GET", ["guilds", guild]) if id(guild) == Some(GUILD) => {
            let mut guild = guild_json();
            guild["roles"][0]["permissions"] = json!(state.everyone.to_string());
            (200, guild)
        }
        ("GET", ["guilds", guild, "roles"]) if id(guild) == Some(GUILD) => {
            (200, guild_json()["roles"].clone())
        }
        ("GET", ["guilds", _, "members", user])
            if id(user).is_some_and(|user| state.left.contains(&user)) =>
        {
            (404, json!({"code": 10007, "message": "Unknown Member"}))
        }
        ("GET", ["guilds", guild, "members", user]) if id(guild) == Some(GUILD) => {
            (200, member_json(id(user).unwrap_or(0)))
        }
        ("POST", ["channels", channel, "typing"]) => {
            state.typing.push((id(channel).unwrap_or(0), Instant::now()));
            (204, Value::Null)
        }
        ("PUT", ["channels", _, "messages", message, "reactions", emoji, "@me"]) => {
            state.marked.push(id(message).unwrap_or(0));
            state.reactions.push((id(message).unwrap_or(0), decoded(emoji)));
            (204, Value::Null)
        }
        ("DELETE", ["channels", _, "messages", message, "reactions", emoji, "@me"]) => {
            let taken_back = (id(message).unwrap_or(0), decoded(emoji));
            state.reactions.retain(|reaction| *reaction != taken_back);
            (204, Value::Null)
        }
        ("POST", ["channels", channel, "messages", message, "threads"]) => {
            open_thread(state, id(channel), id(message), call)
        }
        ("GET", ["channels", channel, "messages"]) => {
            let asked = |name: &str| {
                call.query.split('&').find_map(|pair| {
                    pair.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok()
                })
            };
            let (after, limit) = (asked("after"), asked("limit").unwrap_or(50) as usize);
            let (first, end) = (after.unwrap_or(0), asked("before").unwrap_or(u64::MAX));
            let channel = id(channel).unwrap_or(0);
            let mut page: Vec<_> = state
                .messages
                .values()
                .filter(|m| m.channel == channel && m.id > first && m.id < end)
                .filter(|m| !m.deleted && !m.ephemeral)
                .cloned()
                .collect();
            // Discord returns the messages nearest to `after` or `before`.
            match after {
                Some(_) => page.truncate(limit),
                None => drop(page.drain(..page.len().saturating_sub(limit))),
            }
            (200, page.iter().rev().map(|message| state.message_json(message, false)).collect())
        }
        ("POST", ["channels", channel, "messages"]) => post(state, id(channel).unwrap_or(0), call),
        ("GET", ["channels", _, "messages", message]) => {
            match id(message).and_then(|id| state.messages.get(&id)) {
                Some(message) if !message.deleted => {
                    let mut found = state.message_json(message, false);
                    let shown = state.reactions.iter().filter(|(on, _)| *on == message.id);
                    let reaction = |(_, emoji): &(u64, String)| {
                        json!({"emoji": {"id": null, "name": emoji}, "me": true, "me_burst": false, "count": 1,
                        "count_details": {"burst": 0, "normal": 1}, "burst_colors": []})
                    };
                    found["reactions"] = shown.map(reaction).collect();
                    (200, found)
                }
                _ => unknown_message(),
            }
        }
        ("PATCH", ["channels", _, "messages", message]) => {
            edit(state, id(message), text, &call.body["components"])
        }
        ("DELETE", ["channels", _, "messages", message]) => {
            match id(message).and_then(|id| state.messages.get_mut(&id)) {
                Some(message) if !message.deleted => {
                    message.deleted = true;
                    (204, Value::Null)
                }
                _ => unknown_message(),
            }
        }
        ("POST", ["interactions", interaction, token, "callback"]) => {
            acknowledge(state, id(interaction), token, &call.body)
        }
        ("PATCH", ["webhooks", _, token, "messages", "@original"]) => {
            match interaction(state, token).map(|found| found.original) {
                Some(Some(original)) => edit(state, Some(original), text, &call.body["components"]),
                Some(None) => unknown_message(),
                None => expired(),
            }
        }
        ("POST", ["webhooks", _, token]) => {
            match interaction(state, token).map(|found| found.channel) {
                Some(channel) => {
                    let mut message = state.post(channel, BOT, text, None);
                    message.ephemeral = call.body["flags"].as_u64().unwrap_or(0) & 64 != 0;
                    state.messages.insert(message.id, message.clone());
                    (200, state.message_json(&message, false))
                }
                None => expired(),
            }
        }
        (method, segments) => {
            state.violations.push(format!(
                "not implemented by the local Discord: {method} /{}",
                segments.join("/")
            ));
            (404, json!({"code": 0, "message": "404: Not Found"}))
        }
    }
}

fn post(state: &mut State, channel: u64, call: &Call) -> Outcome {
    if state.channel_json(channel).is_none() {
        return unknown_channel();
    }
    let text = call.body["content"].as_str().unwrap_or_default();
    if text.trim().is_empty() && call.files.is_empty() {
        return (400, json!({"code": 50006, "message": "Cannot send an empty message"}));
    }
    let nonce = (channel, call.body["nonce"].as_str().unwrap_or_default().to_owned());
    if let Some(known) = state.nonces.get(&nonce) {
        let message = state.messages[known].clone();
        return (200, state.message_json(&message, false));
    }
    let reply_to = call.body["message_reference"]["message_id"].as_str().and_then(id);
    let reply_to =
        reply_to.filter(|id| state.messages.get(id).is_some_and(|message| !message.deleted));
    let mut message = state.post(channel, BOT, text, reply_to);
    message.files.clone_from(&call.files);
    state.messages.insert(message.id, message.clone());
    if !call.body["components"].is_null() {
        message.components = call.body["components"].clone();
        state.messages.insert(message.id, message.clone());
    }
    state.nonces.insert(nonce, message.id);
    // Discord also sends the bot events about its own messages.
    let event = state.message_json(&message, true);
    state.dispatch("MESSAGE_CREATE", &event);
    (200, state.message_json(&message, false))
}

pub(super) fn edit(
    state: &mut State,
    message: Option<u64>,
    text: &str,
    components: &Value,
) -> Outcome {
    let Some(message) =
        message.and_then(|id| state.messages.get_mut(&id)).filter(|message| !message.deleted)
    else {
        return unknown_message();
    };
    if text.trim().is_empty() {
        return (400, json!({"code": 50006, "message": "Cannot send an empty message"}));
    }
    message.content = text.to_owned();
    if !components.is_null() {
        message.components = components.clone();
    }
    message.edits.push((Instant::now(), text.to_owned()));
    let message = message.clone();
    let event = state.message_json(&message, true);
    state.dispatch("MESSAGE_UPDATE", &event);
    (200, state.message_json(&message, false))
}

fn acknowledge(state: &mut State, interaction: Option<u64>, token: &str, body: &Value) -> Outcome {
    let Some(at) = state
        .interactions
        .iter()
        .position(|known| Some(known.id) == interaction && known.token == token)
    else {
        return (404, json!({"code": 10062, "message": "Unknown interaction"}));
    };
    if state.interactions[at].used.elapsed() > ACK {
        return (404, json!({"code": 10062, "message": "Unknown interaction"}));
    }
    if state.interactions[at].acknowledged.is_some() {
        return (
            400,
            json!({"code": 40060, "message": "Interaction has already been acknowledged."}),
        );
    }
    let kind = body["type"].as_u64().unwrap_or(0);
    if matches!(kind, 6 | 7 | 9) {
        return presses::acknowledge(state, at, body);
    }
    if (kind == 8) != (state.interactions[at].kind == 4) {
        state.violations.push(format!(
            "callback type {kind} does not fit interaction type {}",
            state.interactions[at].kind
        ));
        return (400, json!({"code": 50035, "message": "Invalid Form Body"}));
    }
    if kind == 8 {
        state.interactions[at].acknowledged = Some((Instant::now(), kind));
        state.interactions[at].suggested = Some(body["data"]["choices"].clone());
        return (204, Value::Null);
    }
    let text = body["data"]["content"].as_str().unwrap_or_default().to_owned();
    let channel = state.interactions[at].channel;
    let message = state.post(channel, BOT, &text, None);
    let posted = state.messages.get_mut(&message.id).expect("just posted");
    posted.ephemeral = body["data"]["flags"].as_u64().unwrap_or(0) & 64 != 0;
    if !body["data"]["components"].is_null() {
        posted.components = body["data"]["components"].clone();
    }
    state.interactions[at].acknowledged = Some((Instant::now(), kind));
    state.interactions[at].original = Some(message.id);
    (204, Value::Null)
}

fn interaction(state: &State, token: &str) -> Option<Interaction> {
    state
        .interactions
        .iter()
        .find(|known| known.token == token && known.used.elapsed() < Duration::from_secs(15 * 60))
        .cloned()
}

/// Opens a thread on a message. The thread has the message's id.
fn open_thread(
    state: &mut State,
    channel: Option<u64>,
    message: Option<u64>,
    call: &Call,
) -> Outcome {
    let (Some(channel), Some(message)) = (channel, message) else { return unknown_channel() };
    if ![CHANNEL, OTHER].contains(&channel) {
        return (
            400,
            json!({"code": 50024, "message": "Cannot execute action on this channel type"}),
        );
    }
    if state
        .messages
        .get(&message)
        .is_none_or(|message| message.deleted || message.channel != channel)
    {
        return unknown_message();
    }
    if state.threads.contains_key(&message) {
        return (
            400,
            json!({"code": 160004, "message": "A thread has already been created for this message"}),
        );
    }
    let name = call.body["name"].as_str().unwrap_or_default().to_owned();
    state.threads.insert(message, (channel, name, BOT));
    (201, state.channel_json(message).expect("just opened"))
}

/// Serves an attachment.
fn kept(world: &World, path: &str, headers: &HeaderMap) -> Response<Body> {
    if headers.contains_key("authorization") {
        world.with(|state| {
            state.violations.push(format!("GET {path} of a file carries the bot's token"))
        });
    }
    let found = world.with(|state| state.kept.get(path).cloned());
    let Some((status, announced, bytes)) = found else {
        return respond(Some((404, Value::Null)), Vec::new());
    };
    let mut response = Response::builder().status(status);
    if (300..400).contains(&status) {
        response = response.header("location", "http://127.0.0.1:9/elsewhere");
    }
    // Without a length, the body is sent in chunks.
    let body = match announced {
        Some(length) => {
            response = response.header("content-length", length);
            Body::from(bytes)
        }
        None => Body::from_stream(futures_util::stream::iter(
            bytes
                .chunks(4_096)
                .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)))
                .collect::<Vec<_>>(),
        )),
    };
    response.body(body).expect("a response")
}

/// Decodes a percent-encoded emoji such as `%E2%8F%B3`.
fn decoded(text: &str) -> String {
    let bytes = text.split('%').skip(1).map(|hex| u8::from_str_radix(hex, 16).expect("two digits"));
    String::from_utf8(bytes.collect()).expect("an emoji")
}

fn id(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn unknown_channel() -> Outcome {
    (404, json!({"code": 10003, "message": "Unknown Channel"}))
}

fn unknown_message() -> Outcome {
    (404, json!({"code": 10008, "message": "Unknown Message"}))
}

fn expired() -> Outcome {
    (401, json!({"code": 50027, "message": "Invalid Webhook Token"}))
}

/// Makes the event of a slash command that a user runs.
pub(super) fn slash_json(
    state: &mut State,
    channel: u64,
    user: u64,
    name: &str,
    prompt: Option<&str>,
) -> Value {
    // The options that the text names in lines `NAME:=VALUE`; other text belongs to the first one.
    let registered =
        state.commands.as_array().into_iter().flatten().find(|command| command["name"] == name);
    let first = registered
        .and_then(|command| command["options"][0]["name"].as_str())
        .unwrap_or("prompt")
        .to_owned();
    let kind = |option: &str| {
        let options = registered.and_then(|command| command["options"].as_array());
        let known = options.into_iter().flatten().find(|known| known["name"] == option);
        known.and_then(|known| known["type"].as_u64()).unwrap_or(3)
    };
    let (mut options, mut attachments) = (Vec::new(), json!({}));
    let (named, plain): (Vec<&str>, Vec<&str>) =
        prompt.unwrap_or_default().split('\n').partition(|line| line.contains(":="));
    if prompt.is_some() && (named.is_empty() || plain.iter().any(|line| !line.is_empty())) {
        options.push(json!({"name": first, "type": 3, "value": plain.join("\n")}));
    }
    for (option, value) in named.iter().filter_map(|line| line.split_once(":=")) {
        if kind(option) == 11 {
            let id = (800 + options.len()).to_string();
            attachments[&id] = json!({"id": id, "filename": "notes.txt", "content_type": "text/plain", "size": 5, "url": value});
            options.push(json!({"name": option, "type": 11, "value": id}));
        } else {
            options.push(json!({"name": option, "type": 3, "value": value}));
        }
    }
    let data = json!({"id": "900", "name": name, "type": 1, "options": options, "resolved": {"attachments": attachments}});
    interaction_json(state, channel, user, 2, &data, None)
}

/// Makes the event of a command whose option a user is typing.
pub(super) fn typing_json(
    state: &mut State,
    channel: u64,
    user: u64,
    name: &str,
    option: &Value,
    typed: &str,
) -> Value {
    let option = json!({"name": option["name"], "type": 3, "value": typed, "focused": true});
    let data = json!({"id": "900", "name": name, "type": 1, "options": [option]});
    interaction_json(state, channel, user, 4, &data, None)
}

/// Adds an interaction and returns its event.
pub(super) fn interaction_json(
    state: &mut State,
    channel: u64,
    user: u64,
    kind: u8,
    data: &Value,
    message: Option<u64>,
) -> Value {
    let id = state.id();
    let token = format!("interaction-token-{id}");
    state.interactions.push(Interaction {
        id,
        token: token.clone(),
        channel,
        used: Instant::now(),
        acknowledged: None,
        original: None,
        kind,
        message,
        window: None,
        suggested: None,
    });
    let mut value = json!({
        "id": id.to_string(), "application_id": APPLICATION.to_string(), "type": kind, "token": token, "version": 1,
        "channel_id": channel.to_string(), "channel": state.channel_json(channel), "locale": "en-US", "entitlements": [],
        "app_permissions": "2147483647", "authorizing_integration_owners": {}, "context": 0, "attachment_size_limit": 10_485_760,
        "data": data,
    });
    if state.channel_json(channel).is_some_and(|found| found["guild_id"].is_string())
        || channel == CHANNEL
    {
        value["guild_id"] = json!(GUILD.to_string());
        value["guild_locale"] = json!("en-US");
        value["member"] = member_json(user);
    } else {
        value["user"] = user_json(user);
    }
    value
}
