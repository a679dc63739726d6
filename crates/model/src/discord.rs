//! Settings of the Discord adapter.

use crate::access::AllowLists;
use crate::choice::FooterPart;
use crate::id::{ChannelId, UserId};

/// The settings of the Discord adapter, except the token.
#[derive(Clone, Debug)]
pub struct DiscordSettings {
    /// Users with the rights of the application's owner, by id.
    pub owners: Vec<UserId>,
    /// The channel for the answers of schedules, hooks and webhooks that name no channel, and
    /// for notices to the operator.
    pub output_channel: Option<ChannelId>,
    /// Number of characters above which an answer is sent as a file.
    pub long_answer: Option<usize>,
    /// Parts of the line below an answer, in this order.
    pub footer: Vec<FooterPart>,
    /// The second name of the command `/ask`.
    pub command_alias: Option<String>,
    /// The address of Discord, without a trailing slash.
    pub api_base: String,
    /// Maximum number of requests to Discord in a second; 0 without a limit.
    pub requests_per_second: usize,
    /// The number of shards of the bot, or `None` for the number that Discord recommends.
    pub shards: Option<u32>,
    /// People, roles, channels and guilds that may use the bot.
    pub allowed: AllowLists,
}
