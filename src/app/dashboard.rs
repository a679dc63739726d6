//! The dashboard: what it asks of Discord, and how people get into it.

use std::sync::Arc;

use async_trait::async_trait;

use crate::access::{Standing, Visitor};
use crate::app::health::ProgramHealth;
use crate::cli::exit;
use crate::config::Config;
use crate::discord::{Discord, SignIn};
use crate::dispatch::Dispatcher;
use crate::startup::Refused;
use crate::web::dashboard::{Bound, Dashboard, Entry, House, Origin};

/// Takes the address, if the operator wants a dashboard.
///
/// # Errors
/// When it cannot be had.
pub(super) async fn bind(config: &Config) -> Result<Option<Bound>, Refused> {
    let Some(address) = config.dashboard_address else { return Ok(None) };
    let refused = |code, why: String| Refused::because(code, why);
    let origin = config.dashboard_url.as_deref().map(Origin::parse).transpose();
    let origin = origin.map_err(|why| refused(exit::CONFIG, format!("DASHBOARD_URL {why}")))?;
    let bound = Bound::take(address, origin).await.map_err(|error| {
        let hint = "choose another address, or end whatever listens there";
        let why = format!("DASHBOARD_ADDRESS: cannot listen at {address}: {error}; {hint}");
        refused(exit::UNAVAILABLE, why)
    })?;
    Ok(Some(bound))
}

/// Opens it, and has `/dashboard` let people in.
pub(super) fn open(
    bound: Bound,
    dispatcher: &Dispatcher,
    discord: &Discord,
    health: &ProgramHealth,
) -> Dashboard {
    let channels = Arc::new(Channels(discord.clone()));
    let dashboard = bound.serve(dispatcher.clone(), channels, Arc::new(health.clone()));
    discord.offer_sign_in(Arc::new(Doorkeeper(dashboard.entry())));
    dashboard
}

struct Channels(Discord);

#[async_trait]
impl House for Channels {
    async fn standing(&self, user: u64, channel: u64) -> Result<Standing, String> {
        self.0.standing(user, channel).await
    }

    async fn report(&self, channel: Option<u64>, who: &str, did: &str) -> Result<u64, String> {
        self.0.report(channel, who, did).await
    }

    async fn repeat(&self, channel: u64, who: &str, words: &str) -> Result<u64, String> {
        self.0.repeat(channel, who, words).await
    }
}

struct Doorkeeper(Entry);

impl SignIn for Doorkeeper {
    fn link(&self, visitor: Visitor) -> Result<String, String> {
        self.0.link(visitor).map_err(|wait| {
            format!("You asked for many links. Ask again in {} s.", wait.as_secs() + 1)
        })
    }

    fn revoke(&self, user: u64) -> usize {
        self.0.revoke(user)
    }
}
