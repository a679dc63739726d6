//! The webhooks that can be called: the valid definitions of `webhooks.md` with their secrets.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};

use super::signature::{SecretError, WebhookKey};
use aetheel_store::workspace::{CallRate, Webhook, WebhookFile, Webhooks};

/// The secrets, by the names of their environment variables.
pub type WebhookSecrets = HashMap<String, SecretString>;

/// A webhook that can be called.
#[derive(Debug)]
pub(super) struct CallableWebhook {
    pub(super) webhook: Webhook,
    pub(super) keys: Vec<WebhookKey>,
    limiter: DefaultDirectRateLimiter,
}

type All = BTreeMap<String, Arc<CallableWebhook>>;

/// The definitions of webhooks. They are read again when the file changes.
#[derive(Debug)]
pub struct Definitions {
    file: WebhookFile,
    secrets: WebhookSecrets,
    armed: Mutex<Option<Arc<All>>>,
}

impl Definitions {
    /// Creates the definitions from a file. `secrets` has the secrets that were read when the
    /// program started.
    #[must_use]
    pub fn new(file: WebhookFile, secrets: WebhookSecrets) -> Self {
        Self { file, secrets, armed: Mutex::default() }
    }

    /// Returns the webhooks that can be called now. Logs new faults.
    pub(super) async fn current(&self) -> Arc<All> {
        let (webhooks, changed) = self.file.refresh().await;
        let mut armed = self.armed.lock();
        match &*armed {
            Some(all) if !changed => Arc::clone(all),
            _ => {
                let (all, warnings) = callable_webhooks(&webhooks, &self.secrets);
                for warning in warnings {
                    tracing::warn!("{warning}");
                }
                tracing::info!(webhooks = ?all.keys().collect::<Vec<_>>(), "webhooks can be called");
                Arc::clone(armed.insert(Arc::new(all)))
            }
        }
    }
}

impl CallableWebhook {
    /// Counts a call. Returns the time to wait if it exceeds the rate limit.
    pub(super) fn admit(&self) -> Result<(), Duration> {
        self.limiter.check().map_err(|until| until.wait_time_from(DefaultClock::default().now()))
    }
}

/// Returns the faults of definitions and their secrets, one line each.
#[must_use]
pub fn faults(webhooks: &Webhooks, secrets: &WebhookSecrets) -> Vec<String> {
    callable_webhooks(webhooks, secrets).1
}

fn callable_webhooks(webhooks: &Webhooks, secrets: &WebhookSecrets) -> (All, Vec<String>) {
    let (mut all, mut warnings) = (All::new(), webhooks.warnings.clone());
    for (name, webhook) in &webhooks.all {
        match keys(webhook, secrets) {
            Ok(keys) => {
                let limiter = RateLimiter::direct(quota(webhook.rate));
                all.insert(
                    name.clone(),
                    Arc::new(CallableWebhook { webhook: webhook.clone(), keys, limiter }),
                );
            }
            Err(fault) => warnings.push(format!(
                "webhooks.md line {}: webhook `{name}` cannot be called: {fault}",
                webhook.line
            )),
        }
    }
    (all, warnings)
}

/// The reason why a webhook has no keys.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    /// The variable with this name is not set.
    #[error("`{0}` was not set when the gateway started; set it and start again")]
    Unset(String),
    /// The secret in the variable with this name cannot be used.
    #[error("`{0}` {1}")]
    Secret(String, SecretError),
}

fn keys(webhook: &Webhook, secrets: &WebhookSecrets) -> Result<Vec<WebhookKey>, KeyError> {
    let key = |name: &String| {
        let secret = secrets.get(name).ok_or_else(|| KeyError::Unset(name.clone()))?;
        WebhookKey::new(webhook.scheme, secret.expose_secret())
            .map_err(|error| KeyError::Secret(name.clone(), error))
    };
    webhook.secrets.iter().map(key).collect()
}

fn quota(CallRate { per_minute, burst }: CallRate) -> Quota {
    Quota::per_minute(per_minute).allow_burst(burst.max(NonZeroU32::MIN))
}
