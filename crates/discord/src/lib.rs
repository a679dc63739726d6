//! The Discord adapter: prompts arrive by mention, reply, direct message and slash command, and
//! answers are delivered.
//!
//! Owns the connection to Discord, its requests and their limits, and the layout of messages,
//! questions and buttons. Must not decide anything about turns or sessions: the
//! [`Dispatcher`](aetheel_dispatch::Dispatcher) does that, and [`aetheel_model::access`] decides
//! who may use the bot. This is the only crate that uses `serenity`, which keeps the gateway
//! connection. Requests use the client in `rest`, which explains why. `tests/discord/` tests this
//! crate against a simulated Discord server, which checks every request against Discord's own API
//! description.
//!
//! ```text
//! gateway thread: serenity → handler ─(GatewayEvent)─▶ router ─(in order)─▶ inbound ─▶ Dispatcher
//!                                                        ├─(buttons)─▶ questions ─▶ Dispatcher
//!                                                        └─(menus, commands)─▶ panel ─▶ Dispatcher
//! several nodes:  serenity → handler ─(GatewayEvent)─▶ poster ─(ClusterMessage)─▶ ClusterMail
//!                 ClusterChat::receive ─(GatewayEvent)─▶ router
//! other runtime:  Outlet::open → reply (one task per turn) ─▶ live (messages) ─▶ api → rest
//! ```
//!
//! With several nodes, `router` runs in the caller's runtime, as everything in the last line does.
//!
//! | module | content |
//! |---|---|
//! | [`connection`] | logins to Discord's gateway, each on a thread of its own, and their events |
//! | [`inbound`] | the events in the order of their channels: prompts, commands, missed messages |
//! | [`access`] | access of people to the bot, and of the bot to channels |
//! | [`delivery`] | answers, notices and markers |
//! | [`questions`], [`button`] | questions of agents, and the ids of buttons |
//! | [`panel`] | commands and menus that show or change something |
//! | [`bot`], [`setup`] | the bot for the rest of the program, its options and its checks |
//! | [`api`], [`rest`] | the requests to Discord: their purposes; limits and retries |
//! | [`wire`], [`ids`], [`text`] | Discord's objects, ids and formatting |
//! | [`notes`] | the notes that survive a restart, in `state/discord.md` |

mod access;
mod api;
mod bot;
mod button;
mod connection;
mod delivery;
mod ids;
mod inbound;
mod notes;
mod panel;
mod questions;
mod rest;
mod setup;
mod text;
mod wire;

pub use access::permissions::MissingPermissions;
pub use bot::Discord;
pub use bot::dashboard_notices::NoticeError;
pub use bot::listener::GatewayListener;
pub use connection::gateway_event::{GatewayEvent, Parent};
pub use connection::receipt::Receipt;
pub use connection::sharing::{EventSharing, SharedEvents};
pub use inbound::probes::ProbeSender;
pub use panel::dashboard::{SignInService, TooManyLinks};
pub use questions::OfferHandler;
pub use rest::RestError;
pub use rest::clock::OffsetClock;
pub use setup::checkup::{ApplicationOwner, BotProfile, ChannelCheck, Checkup};
pub use setup::options::{DiscordOptions, TimeLimits};
pub use setup::start_error::StartError;
pub use setup::token::bot_id_of;
