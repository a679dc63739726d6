//! The table of Discord's endpoints that the bot uses.

use std::fmt;

use reqwest::Method;
use serde_json::Value;

use crate::rest::RestRequest;

/// Declares the endpoints. A row has a name and parameters, the method, the name of the rate limit,
/// the id for which Discord counts that limit, and the path after `/api/v10`.
macro_rules! endpoints {
    ($($name:ident { $($field:ident: $type:ty),* } => $method:ident $limit:literal $id:expr, $path:literal;)*) => {
        /// An endpoint of Discord's API. Has no `Debug`, because some contain tokens.
        #[derive(Clone, Copy)]
        pub(crate) enum Endpoint<'a> {
            $($name { $($field: $type),* },)*
        }

        impl Endpoint<'_> {
            fn row(self) -> (Method, &'static str, u64, String) {
                match self {
                    $(Self::$name { $($field),* } => (Method::$method, $limit, $id, format!($path)),)*
                }
            }
        }
    };
}

endpoints! {
    Me {} => GET "GET me" 0, "/users/@me";
    Guilds {} => GET "GET guilds" 0, "/users/@me/guilds";
    User { user: u64 } => GET "GET user" user, "/users/{user}";
    Application {} => GET "GET application" 0, "/applications/@me";
    Gateway {} => GET "GET gateway" 0, "/gateway/bot";
    Commands { application: u64 } => GET "GET commands" application, "/applications/{application}/commands";
    PutCommands { application: u64 } => PUT "PUT commands" application, "/applications/{application}/commands";
    Guild { guild: u64 } => GET "GET guild" guild, "/guilds/{guild}";
    Member { guild: u64, user: u64 } => GET "GET member" guild, "/guilds/{guild}/members/{user}";
    Roles { guild: u64 } => GET "GET roles" guild, "/guilds/{guild}/roles";
    Channel { channel: u64 } => GET "GET channel" channel, "/channels/{channel}";
    ThreadMember { thread: u64, user: u64 } => GET "GET thread member" thread, "/channels/{thread}/thread-members/{user}";
    OpenThread { channel: u64, message: u64 } => POST "POST thread" channel, "/channels/{channel}/messages/{message}/threads";
    Typing { channel: u64 } => POST "POST typing" channel, "/channels/{channel}/typing";
    Message { channel: u64, message: u64 } => GET "GET message" channel, "/channels/{channel}/messages/{message}";
    MessagesAfter { channel: u64, after: u64 } => GET "GET messages" channel, "/channels/{channel}/messages?after={after}&limit=100";
    MessagesBefore { channel: u64, before: u64, limit: usize } => GET "GET messages" channel, "/channels/{channel}/messages?before={before}&limit={limit}";
    Post { channel: u64 } => POST "POST message" channel, "/channels/{channel}/messages";
    Edit { channel: u64, message: u64 } => PATCH "PATCH message" channel, "/channels/{channel}/messages/{message}";
    Delete { channel: u64, message: u64 } => DELETE "DELETE message" channel, "/channels/{channel}/messages/{message}";
    React { channel: u64, message: u64, emoji: Emoji<'a> } => PUT "PUT reaction" channel, "/channels/{channel}/messages/{message}/reactions/{emoji}/@me";
    Unreact { channel: u64, message: u64, emoji: Emoji<'a> } => DELETE "PUT reaction" channel, "/channels/{channel}/messages/{message}/reactions/{emoji}/@me";
    Callback { interaction: u64, token: &'a str } => POST "POST callback" interaction, "/interactions/{interaction}/{token}/callback";
    EditOriginal { application: u64, interaction: u64, token: &'a str } => PATCH "PATCH original" interaction, "/webhooks/{application}/{token}/messages/@original";
    FollowUp { application: u64, interaction: u64, token: &'a str } => POST "POST follow-up" interaction, "/webhooks/{application}/{token}?wait=true";
}

/// An emoji, which is percent-encoded in a path.
#[derive(Clone, Copy)]
pub(crate) struct Emoji<'a>(pub(crate) &'a str);

impl fmt::Display for Emoji<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes().try_for_each(|byte| write!(f, "%{byte:02X}"))
    }
}

impl Endpoint<'_> {
    pub(crate) fn request(self, body: Option<Value>) -> RestRequest {
        let (method, limit, id, path) = self.row();
        // Discord has no limit for the first response to an interaction.
        let bucket = (!matches!(self, Self::Callback { .. })).then_some((limit, id));
        let by_interaction = matches!(
            self,
            Self::Callback { .. } | Self::EditOriginal { .. } | Self::FollowUp { .. }
        );
        RestRequest { method, path, bucket, body, by_interaction }
    }

    /// Returns the name of the endpoint for errors, for example `GET me`.
    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }
}
