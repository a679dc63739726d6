//! Telling people on their devices that an agent asks, by Web Push (RFC 8030).
//!
//! A push has no content: it wakes the worker of the page (`assets/worker.js`), which asks
//! `/push/waiting` with the session of that browser what waits. So a push service learns nothing
//! but when somebody was woken, and whoever is not signed in any more is told nothing but that
//! there may be something. Pinned by `tests/gateway/dashboard/push.rs`.
//!
//! | room | owns |
//! |---|---|
//! | [`services`] | which push services are sent to, and where they may be |
//! | [`vapid`] | the key, and what is signed with it |
//! | [`devices`] | how many devices there may be |
//! | [`rounds`] | whom a push is for, over time |
//! | [`sender`] | one push |
//! | [`mod@watch`] | the task that looks for questions, and sends |
//! | [`pages`] | what is switched on and off, and what waits |

mod devices;
pub(super) mod pages;
mod rounds;
mod sender;
mod services;
mod vapid;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;

use self::sender::{Answer, Sender};
pub use self::services::Services;
use self::vapid::Key;
pub(super) use self::watch::watch;
use super::Origin;
use crate::figures;
use crate::plain::with_causes;
use crate::workspace::{PushNotes, Subscription};

/// How people of push services reach the operator where nothing else is known. Apple's take no
/// such address.
const NOBODY: &str = "mailto:aetheel@localhost";

/// Whether a text is an address by which somebody is reached, as push services want it.
#[must_use]
pub fn is_contact(text: &str) -> bool {
    let known = ["mailto:", "https://"]
        .into_iter()
        .any(|start| text.strip_prefix(start).is_some_and(|rest| !rest.is_empty()));
    known && text.len() <= 200 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What pushes are made with.
pub struct Push {
    notes: PushNotes,
    services: Arc<Services>,
    key: Key,
    contact: String,
    sender: Sender,
    /// Told when a device is new.
    new: Notify,
}

impl Push {
    /// Gets ready to send; makes the key where there is none yet. `contact`: how people of push
    /// services reach the operator; none: by the address of the dashboard. `lifetime`: how long a
    /// question is open at most.
    ///
    /// # Errors
    /// Why it cannot, with what to do next.
    pub async fn open(
        notes: PushNotes,
        services: Services,
        contact: Option<String>,
        origin: &Origin,
        lifetime: Duration,
    ) -> Result<Self, String> {
        let key = match notes.key() {
            Some(kept) => Key::read(&kept).map_err(|why| {
                format!("cannot read the key in `state/push.md`: {why}; hint: take that line out, and have people switch pushes on again")
            })?,
            None => {
                let made = Key::make()?;
                notes.keep_key(made.clone()).await.map_err(|error| with_causes(&error))?;
                Key::read(&made)?
            }
        };
        let services = Arc::new(services);
        let sender = Sender::new(Arc::clone(&services), lifetime);
        let contact = contact.unwrap_or_else(|| match origin.is_secure() {
            true => origin.to_string(),
            false => NOBODY.to_owned(),
        });
        Ok(Self {
            notes,
            services,
            key,
            contact,
            sender: sender.map_err(|error| with_causes(&error))?,
            new: Notify::new(),
        })
    }

    /// Forgets all devices of somebody.
    pub(super) async fn forget(&self, user: u64) {
        let forgotten = self.notes.change(move |all| devices::forget(all, user, None)).await;
        match forgotten {
            Ok(0) => {}
            Ok(count) => tracing::info!(user, count, "a user is not told on any device any more"),
            Err(error) => {
                tracing::error!(user, error = %with_causes(&error), "devices of a user are forgotten until the next restart only")
            }
        }
    }

    /// Forgets one device, unless it is somebody else's by now.
    async fn drop_device(&self, device: Subscription, why: &'static str) {
        let user = device.user;
        let gone =
            move |all: &mut Vec<Subscription>| devices::forget(all, user, Some(&device.endpoint));
        match self.notes.change(gone).await {
            Ok(_) => tracing::info!(user, why, "a device is not woken any more"),
            Err(error) => {
                tracing::error!(user, why, error = %with_causes(&error), "a device is forgotten until the next restart only")
            }
        }
    }

    /// Wakes a device. Returns at once; what becomes of it is seen in the log.
    fn wake(self: &Arc<Self>, device: Subscription) {
        let Some(place) = self.sender.place() else {
            figures::pushed("left-out");
            tracing::warn!(user = device.user, "too many pushes are under way; one is left out");
            return;
        };
        let push = Arc::clone(self);
        tokio::spawn(async move {
            let Ok(endpoint) = push.services.endpoint(&device.endpoint) else {
                let why = "its push service is not listed any more";
                return push.drop_device(device, why).await;
            };
            let host = endpoint.host_str().unwrap_or_default().to_owned();
            let audience = endpoint.origin().ascii_serialization();
            let signed = push.key.authorization(&audience, &push.contact, Timestamp::now());
            let answer = match signed {
                Ok(authorization) => push.sender.send(endpoint, &authorization).await,
                Err(error) => return tracing::error!(error, "cannot sign a push"),
            };
            drop(place);
            figures::pushed(answer.word());
            match answer {
                Answer::Taken => tracing::debug!(user = device.user, host, "a device is woken"),
                Answer::Gone => {
                    push.drop_device(device, "its push service does not know it any more").await
                }
                Answer::Refused(status) => tracing::warn!(
                    host,
                    status,
                    "a push service refuses a push; hint: PUSH_CONTACT must be an address of yours, and the clock right"
                ),
                Answer::Silent => tracing::warn!(
                    host,
                    "a push service does not answer, or is at no public address"
                ),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_an_address_of_somebody() {
        for contact in ["mailto:ann@example.com", "https://example.com/about"] {
            assert!(is_contact(contact), "{contact}");
        }
        for contact in ["", "mailto:", "ann@example.com", "http://example.com", "mailto:a b"] {
            assert!(!is_contact(contact), "{contact}");
        }
    }
}
