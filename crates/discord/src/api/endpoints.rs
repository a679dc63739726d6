//! Discord's endpoints that the bot uses, and the bodies of messages.

use reqwest::Method;
use serde_json::Value;

use crate::rest::RestRequest;

/// An endpoint of Discord's API.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Endpoint<'a> {
    Me,
    User(u64),
    Application,
    Gateway,
    Guilds,
    Channel(u64),
    Guild(u64),
    ThreadMember { thread: u64, user: u64 },
    Member { guild: u64, user: u64 },
    Roles { guild: u64 },
    Message { channel: u64, message: u64 },
    MessagesAfter { channel: u64, after: u64 },
    MessagesBefore { channel: u64, before: u64, limit: usize },
    Commands { application: u64 },
    PutCommands { application: u64 },
    Typing { channel: u64 },
    OpenThread { channel: u64, message: u64 },
    Post { channel: u64 },
    Edit { channel: u64, message: u64 },
    Delete { channel: u64, message: u64 },
    React { channel: u64, message: u64, emoji: &'a str },
    Unreact { channel: u64, message: u64, emoji: &'a str },
    Callback(TokenRef<'a>),
    EditOriginal { application: u64, token: TokenRef<'a> },
    FollowUp { application: u64, token: TokenRef<'a> },
}

/// The id and the token of an interaction. Has no useful `Debug`, so that it is never logged.
#[derive(Clone, Copy)]
pub(crate) struct TokenRef<'a> {
    pub(crate) interaction: u64,
    pub(crate) token: &'a str,
}

impl std::fmt::Debug for TokenRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenRef({})", self.interaction)
    }
}

impl Endpoint<'_> {
    /// Returns the name of the endpoint, which begins with its method, the id that its rate limit
    /// depends on, and its path after `/api/v10`.
    fn row(self) -> (&'static str, u64, String) {
        let message =
            |channel: u64, message: u64| format!("/channels/{channel}/messages/{message}");
        let reaction = |channel: u64, id: u64, emoji: &str| {
            let emoji: String = emoji.bytes().map(|byte| format!("%{byte:02X}")).collect();
            format!("{}/reactions/{emoji}/@me", message(channel, id))
        };
        match self {
            Self::Me => ("GET me", 0, "/users/@me".to_owned()),
            Self::User(id) => ("GET user", id, format!("/users/{id}")),
            Self::Application => ("GET application", 0, "/applications/@me".to_owned()),
            Self::Gateway => ("GET gateway", 0, "/gateway/bot".to_owned()),
            Self::Guilds => ("GET guilds", 0, "/users/@me/guilds".to_owned()),
            Self::Channel(id) => ("GET channel", id, format!("/channels/{id}")),
            Self::Guild(id) => ("GET guild", id, format!("/guilds/{id}")),
            Self::ThreadMember { thread, user } => {
                let path = format!("/channels/{thread}/thread-members/{user}");
                ("GET thread member", thread, path)
            }
            Self::Member { guild, user } => {
                ("GET member", guild, format!("/guilds/{guild}/members/{user}"))
            }
            Self::Roles { guild } => ("GET roles", guild, format!("/guilds/{guild}/roles")),
            Self::Message { channel, message: id } => {
                ("GET message", channel, message(channel, id))
            }
            Self::MessagesAfter { channel, after } => {
                let path = format!("/channels/{channel}/messages?after={after}&limit=100");
                ("GET messages", channel, path)
            }
            Self::MessagesBefore { channel, before, limit } => {
                let path = format!("/channels/{channel}/messages?before={before}&limit={limit}");
                ("GET messages", channel, path)
            }
            Self::Commands { application: id } => {
                ("GET commands", id, format!("/applications/{id}/commands"))
            }
            Self::PutCommands { application: id } => {
                ("PUT commands", id, format!("/applications/{id}/commands"))
            }
            Self::Typing { channel } => {
                ("POST typing", channel, format!("/channels/{channel}/typing"))
            }
            Self::OpenThread { channel, message: id } => {
                ("POST thread", channel, format!("{}/threads", message(channel, id)))
            }
            Self::Post { channel } => {
                ("POST message", channel, format!("/channels/{channel}/messages"))
            }
            Self::Edit { channel, message: id } => ("PATCH message", channel, message(channel, id)),
            Self::Delete { channel, message: id } => {
                ("DELETE message", channel, message(channel, id))
            }
            // Adding and removing reactions share a limit.
            Self::React { channel, message, emoji } => {
                ("PUT reaction", channel, reaction(channel, message, emoji))
            }
            Self::Unreact { channel, message, emoji } => {
                ("DELETE reaction", channel, reaction(channel, message, emoji))
            }
            Self::Callback(TokenRef { interaction, token }) => {
                let path = format!("/interactions/{interaction}/{token}/callback");
                ("POST callback", interaction, path)
            }
            Self::EditOriginal { application, token: TokenRef { interaction, token } } => {
                let path = format!("/webhooks/{application}/{token}/messages/@original");
                ("PATCH original", interaction, path)
            }
            Self::FollowUp { application, token: TokenRef { interaction, token } } => {
                let path = format!("/webhooks/{application}/{token}?wait=true");
                ("POST follow-up", interaction, path)
            }
        }
    }

    /// Returns a request to this endpoint.
    pub(crate) fn request(self, body: Option<Value>) -> RestRequest {
        let (name, id, path) = self.row();
        let method = match name.split_once(' ').map_or(name, |(method, _)| method) {
            "PUT" => Method::PUT,
            "POST" => Method::POST,
            "PATCH" => Method::PATCH,
            "DELETE" => Method::DELETE,
            _ => Method::GET,
        };
        let bucket = match self {
            Self::Callback(_) => None,
            Self::Unreact { channel, .. } => Some(("PUT reaction", channel)),
            _ => Some((name, id)),
        };
        let by_interaction =
            matches!(self, Self::Callback(_) | Self::EditOriginal { .. } | Self::FollowUp { .. });
        RestRequest { method, path, bucket, body, by_interaction }
    }

    /// Returns the name of the endpoint for errors, for example `GET me`.
    pub(crate) fn name(self) -> &'static str {
        self.row().0
    }
}
