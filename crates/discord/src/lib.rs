//! The Discord adapter: prompts arrive by mention, reply, direct message and slash command, and
//! answers are delivered.
//!
//! Owns the connection to Discord, its requests and their limits, and the layout of messages,
//! questions and buttons. Must not decide anything about turns or sessions: the [`Dispatcher`](aetheel_dispatch::Dispatcher)
//! does that, and [`aetheel_model::access`] decides who may use the bot. This is the only crate
//! that uses `serenity`, which keeps the gateway connection. Requests use the client in `rest`,
//! which explains why. `tests/discord/` tests this crate against a simulated Discord server, which
//! checks every request against Discord's own API description.
//!
//! ```text
//! gateway thread: serenity → handler ─(GatewayEvent)─▶ router ─(in order)─▶ inbound ─▶ Dispatcher
//!                                                        ├─(buttons)─▶ questions ─▶ Dispatcher
//!                                                        └─(menus, commands)─▶ panel ─▶ Dispatcher
//! several nodes:  serenity → handler ─(GatewayEvent)─▶ EventSharing::outgoing
//!                                    EventSharing::incoming ─(GatewayEvent)─▶ router
//! other runtime:  Outlet::open → reply (one task per turn) ─▶ live (messages) ─▶ api → rest
//! ```
//!
//! With several nodes, `router` runs in the caller's runtime, as everything in the last line does.

mod api;
mod asker;
mod bot;
mod checkup;
mod clock;
mod commands;
mod connect;
mod connection;
mod context;
mod dashboard;
mod dashboard_notices;
mod deferred;
mod delivery_queue;
mod edits;
mod files;
mod footer;
mod gateway;
mod gateway_event;
mod gateway_sink;
mod handler;
mod identity;
mod inbound;
mod interactions;
mod listen;
mod listener;
mod live;
mod login;
mod markdown;
mod marker_cleanup;
mod mention;
mod notes;
mod notices;
mod null_reply;
mod obstacle;
mod options;
mod outlet;
mod panel;
mod permissions;
mod permit;
mod phase;
mod preview;
mod probes;
mod question_messages;
mod questions;
mod queue_marker;
mod quote;
mod rate_limits;
mod rate_share;
mod recap;
mod receipt;
mod reply;
mod rest;
mod router;
mod running;
mod servers;
mod shards;
mod sharing;
mod start_error;
mod stop_button;
mod threads;
mod token;
mod transfer;
mod typing;
mod user_permissions;
mod wire;

pub use bot::Discord;
pub use checkup::{ApplicationOwner, BotProfile, ChannelCheck, Checkup};
pub use clock::OffsetClock;
pub use dashboard::SignInService;
pub use gateway_event::{GatewayEvent, Parent};
pub use listener::GatewayListener;
pub use options::{DiscordOptions, TimeLimits};
pub use permissions::MissingPermissions;
pub use probes::ProbeSender;
pub use questions::OfferHandler;
pub use receipt::Receipt;
pub use sharing::{EventSharing, LoginHistory};
pub use start_error::StartError;
pub use token::bot_id_of;
