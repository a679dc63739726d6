//! Checks the token and creates the bot.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use super::Discord;
use crate::access::identity::Identity;
use crate::api::endpoints::Endpoint;
use crate::connection::ConnectionContext;
use crate::connection::shards::Shards;
use crate::delivery::context::BotContext;
use crate::delivery::queue::DeliveryQueues;
use crate::notes::NotesCache;
use crate::panel::commands;
use crate::questions::QuestionBoard;
use crate::rest::RestError;
use crate::rest::files::Fetcher;
use crate::setup::options::DiscordOptions;
use crate::setup::servers;
use crate::setup::start_error::StartError;
use crate::wire::{Application, User};
use aetheel_store::workspace::DiscordNotes;

impl Discord {
    /// Checks the token, requests the bot's account, registers the slash commands, and reads the
    /// notes of the previous process. Can be cancelled without side effects other than registered
    /// commands.
    ///
    /// # Errors
    /// [`StartError`], after about a minute if Discord is not reachable.
    pub async fn connect(options: DiscordOptions, notes: DiscordNotes) -> Result<Self, StartError> {
        let api = options.api()?;
        let unreachable =
            |why: String| StartError::Unreachable { base: options.settings.api_base.clone(), why };
        let refused = |error: RestError| match error {
            RestError::TokenRefused => StartError::TokenRefused,
            RestError::Untrusted(why) => {
                StartError::Untrusted { base: options.settings.api_base.clone(), why }
            }
            other => unreachable(other.to_string()),
        };
        let files = Fetcher::new(&options.settings.api_base)
            .map_err(|error| unreachable(error.to_string()))?;
        let timeouts = options.time_limits.send;
        let me = api.get::<User>(Endpoint::Me {}, timeouts).await.map_err(refused)?;
        let application =
            api.get::<Application>(Endpoint::Application {}, timeouts).await.map_err(refused)?;
        let team =
            application.team.iter().flat_map(|team| &team.members).map(|member| member.user.id);
        let owners = application
            .owner
            .iter()
            .map(|owner| owner.id)
            .chain(team)
            .chain(options.settings.owners.iter().filter_map(|owner| owner.as_discord()))
            .collect();
        commands::register(&api, application.id, &options).await;
        let reads = application.reads_all();
        servers::warn_without_any(&api, application.id, timeouts).await;
        let identity = Arc::new(Identity {
            id: me.id,
            application: application.id,
            owners,
            allowed: options.settings.allowed.clone(),
            reads_all: reads,
            refusals: Mutex::default(),
        });
        let notes = Arc::new(NotesCache::read(notes).await);
        let questions = Arc::new(QuestionBoard::new(Arc::clone(&notes)));
        let options = Arc::new(options);
        let connection = ConnectionContext {
            options: Arc::clone(&options),
            api: api.clone(),
            identity: Arc::clone(&identity),
            logs_in: AtomicBool::new(true),
            shards: Shards::default(),
        };
        let inner = BotContext {
            options,
            api,
            identity,
            interactions: Arc::default(),
            queue_markers: Arc::default(),
            files,
            questions,
            notes,
            delivery_queues: DeliveryQueues::default(),
            started_ms: jiff::Timestamp::now().as_millisecond(),
        };
        Ok(Self {
            inner: Arc::new(inner),
            connection: Arc::new(connection),
            inbound: Arc::default(),
        })
    }
}
