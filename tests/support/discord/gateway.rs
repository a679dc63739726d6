//! The WebSocket half of the local Discord: login, heartbeat, resume, and faults.
//!
//! It has its own listener because only then a connection can be reset or refused.

use std::sync::Arc;
use std::time::Instant;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::World;
use super::state::{APPLICATION, BOT, Control, GUILD, Session, TOKEN, shard_of, user_json};
use super::tls::Stream;

pub(super) async fn serve(world: Arc<World>, listener: TcpListener, acceptor: Option<TlsAcceptor>) {
    while let Ok((stream, _)) = listener.accept().await {
        let refused = world.with(|state| {
            state.gateway.refused += usize::from(state.gateway.refuse);
            state.gateway.refuse
        });
        if refused {
            let _ = stream.set_zero_linger();
            world.notify();
            continue;
        }
        tokio::spawn(connection(Arc::clone(&world), stream, acceptor.clone()));
    }
}

async fn connection(world: Arc<World>, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
    let Ok(stream) = Stream::open(stream, acceptor).await else { return };
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    let (control, mut controls) = mpsc::unbounded_channel();
    let heartbeat = world.with(|state| {
        state.gateway.connections.push(control.clone());
        state.gateway.heartbeat
    });
    let hello = json!({"op": 10, "s": null, "t": null, "d": {"heartbeat_interval": heartbeat.as_millis() as u64}});
    let _ = send(&mut socket, &hello).await;
    loop {
        tokio::select! {
            frame = socket.next() => match frame {
                Some(Ok(Frame::Text(text))) => {
                    let payload: Value = serde_json::from_str(&text).unwrap_or_default();
                    for answer in world.with(|state| payload_taken(state, &payload, &control)) {
                        let _ = control.send(answer);
                    }
                    world.notify();
                }
                Some(Ok(Frame::Close(frame))) => {
                    let code = frame.map(|frame| frame.code.into());
                    world.with(|state| {
                        state.gateway.closed_with.push(code);
                        // A clean close ends the session.
                        state.gateway.sessions.retain(|session| {
                            !(matches!(code, Some(1000 | 1001)) && session.connection.as_ref().is_some_and(|c| c.same_channel(&control)))
                        });
                    });
                    world.notify();
                }
                Some(Ok(_)) => {}
                _ => break,
            },
            control = controls.recv() => match control {
                Some(Control::Send(value)) => {
                    if send(&mut socket, &value).await.is_err() {
                        break;
                    }
                }
                Some(Control::Close(code)) => {
                    let _ = socket.close(Some(CloseFrame { code: code.into(), reason: "".into() })).await;
                }
                Some(Control::Drop) | None => break,
                Some(Control::Reset) => {
                    socket.get_ref().reset();
                    break;
                }
                Some(Control::Freeze) => {
                    while !matches!(controls.recv().await, None | Some(Control::Drop | Control::Reset)) {}
                    break;
                }
            },
        }
    }
    world.with(|state| {
        state.gateway.connections.retain(|other| !other.same_channel(&control));
        for session in &mut state.gateway.sessions {
            if session.connection.as_ref().is_some_and(|other| other.same_channel(&control)) {
                session.connection = None;
            }
        }
    });
    world.notify();
}

fn payload_taken(
    state: &mut super::State,
    payload: &Value,
    control: &mpsc::UnboundedSender<Control>,
) -> Vec<Control> {
    // serenity sends the token with the prefix `Bot `, and Discord accepts that.
    let token = payload["d"]["token"].as_str().map(|token| token.trim_start_matches("Bot "));
    match payload["op"].as_u64() {
        Some(1) => vec![Control::Send(json!({"op": 11, "s": null, "t": null, "d": null}))],
        Some(2) if token != Some(TOKEN) || state.token_refused => vec![Control::Close(4004)],
        Some(2) => {
            if let Some(code) = state.gateway.close_identify {
                return vec![Control::Close(code)];
            }
            let privileged = (1 << 1) | (1 << 8) | if state.reads { 0 } else { 1 << 15 };
            if payload["d"]["intents"].as_u64().unwrap_or(0) & privileged != 0 {
                state.violations.push("the bot asked for a privileged intent".to_owned());
            }
            let shard = &payload["d"]["shard"];
            let (id, count) = (shard[0].as_u64().unwrap_or(0), shard[1].as_u64().unwrap_or(1));
            if id >= count {
                state.violations.push(format!("shard {id} of {count} does not exist"));
                return vec![Control::Close(4010)];
            }
            let (line, pace) = (id % state.gateway.max_concurrency, state.gateway.pace);
            let too_soon = |(other, _, at): &&(u64, u64, Instant)| {
                other % state.gateway.max_concurrency == line && at.elapsed() < pace
            };
            if let Some((other, _, at)) = state.gateway.logins.iter().find(too_soon) {
                state
                    .violations
                    .push(format!("shard {id} logged in {:?} after shard {other}", at.elapsed()));
            }
            state.gateway.logins.push((id, count, Instant::now()));
            state.gateway.identified += 1;
            state.gateway.logins_left = state.gateway.logins_left.saturating_sub(1);
            // Otherwise, the sessions of programs that ended would keep all events for ever.
            let gone = state
                .gateway
                .sessions
                .iter()
                .filter(|session| session.connection.is_none())
                .count();
            let mut left = gone.saturating_sub(4);
            state.gateway.sessions.retain(|session| {
                let drop = session.connection.is_none() && left > 0;
                left -= usize::from(drop);
                !drop
            });
            let shard = (id, count);
            let has_guild = shard_of(GUILD, count) == id && !state.uninvited;
            let id = format!("session-{}", state.gateway.identified);
            let guilds = if has_guild {
                json!([{"id": GUILD.to_string(), "unavailable": true}])
            } else {
                json!([])
            };
            let ready = json!({"op": 0, "s": 1, "t": "READY", "d": {
                "v": 10, "user": user_json(BOT), "guilds": guilds, "session_id": id, "shard": [shard.0, shard.1],
                "resume_gateway_url": "ws://127.0.0.1:9", "session_type": "normal", "private_channels": [],
                "application": {"id": APPLICATION.to_string(), "flags": 0},
            }});
            let guild = json!({"op": 0, "s": 2, "t": "GUILD_CREATE", "d": state.guild_at_login()});
            let mut events = vec![ready];
            events.extend(has_guild.then_some(guild));
            state.gateway.sessions.push(Session {
                id,
                shard,
                sequence: events.len() as u64,
                events: events.clone(),
                connection: Some(control.clone()),
            });
            events.into_iter().map(Control::Send).collect()
        }
        Some(6) => {
            let (id, seen) = (
                payload["d"]["session_id"].as_str().unwrap_or_default(),
                payload["d"]["seq"].as_u64().unwrap_or(0),
            );
            let Some(session) = state
                .gateway
                .sessions
                .iter_mut()
                .find(|session| session.id == id && token == Some(TOKEN))
            else {
                return vec![Control::Send(json!({"op": 9, "s": null, "t": null, "d": false}))];
            };
            session.connection = Some(control.clone());
            let mut missed: Vec<Value> = session
                .events
                .iter()
                .filter(|event| event["s"].as_u64() > Some(seen))
                .cloned()
                .collect();
            session.sequence += 1;
            missed
                .push(json!({"op": 0, "s": session.sequence, "t": "RESUMED", "d": {"_trace": []}}));
            state.gateway.resumed += 1;
            missed.into_iter().map(Control::Send).collect()
        }
        _ => Vec::new(),
    }
}

async fn send(
    socket: &mut WebSocketStream<Stream>,
    value: &Value,
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    socket.send(Frame::Text(value.to_string())).await
}
