//! One push: a request without a body, so that a push service learns nothing but whom to wake.
//!
//! Nothing waits for it: each has its own task and its time, and where too many are under way,
//! one more is left out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, StatusCode, Url, header, redirect};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::services::Services;

/// Longest time for a push.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pushes under way at the same time.
const AT_ONCE: usize = 64;
/// A service keeps one push of this name for a device that is away.
const TOPIC: &str = "question";

/// Sends pushes.
pub(super) struct Sender {
    http: Client,
    places: Arc<Semaphore>,
    /// How long a service keeps a push for a device that is away, seconds.
    lifetime: u64,
}

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The service has it.
    Taken,
    /// There is no such device any more.
    Gone,
    /// The service does not want it, and says so by this status.
    Refused(u16),
    /// No answer came.
    Silent,
}

impl Answer {
    fn of(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => Self::Gone,
            status if status.is_success() => Self::Taken,
            status => Self::Refused(status.as_u16()),
        }
    }

    /// A word for the figures.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Gone => "gone",
            Self::Refused(_) => "refused",
            Self::Silent => "silent",
        }
    }
}

impl Sender {
    /// Makes one that reaches what the services may be at.
    pub(super) fn new(services: Arc<Services>, lifetime: Duration) -> Result<Self, reqwest::Error> {
        let http = Client::builder()
            .redirect(redirect::Policy::none())
            .timeout(TIMEOUT)
            .pool_max_idle_per_host(0)
            .dns_resolver(Arc::new(Names(services)))
            .build()?;
        let places = Arc::new(Semaphore::new(AT_ONCE));
        Ok(Self { http, places, lifetime: lifetime.as_secs() })
    }

    /// A place for one push; none: too many are under way.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Sends one, and ignores whatever the answer says beside its status.
    pub(super) async fn send(&self, endpoint: Url, authorization: &str) -> Answer {
        let request = self
            .http
            .post(endpoint)
            .header(header::AUTHORIZATION, authorization)
            .header("ttl", self.lifetime)
            .header("urgency", "high")
            .header("topic", TOPIC)
            // Nobody says this by itself of an empty body, and some refuse a request without.
            .header(header::CONTENT_LENGTH, 0);
        // The error would name the endpoint.
        request.send().await.map_or(Answer::Silent, |answer| Answer::of(answer.status()))
    }
}

/// Finds out where a host is, and leaves out where it must not be.
struct Names(Arc<Services>);

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let services = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str();
            let found = tokio::net::lookup_host((host, 0)).await?;
            let fit = |address: &SocketAddr| services.may_be_at(host, address.ip());
            let addresses: Vec<SocketAddr> = found.filter(fit).collect();
            if addresses.is_empty() {
                return Err("it has no public address".into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_leads_into_this_machine_leads_nowhere() {
        let other = Services::of_host("push.example.com");
        let host = "localhost";
        let resolve = |services: Services| Names(Arc::new(services)).resolve(host.parse().unwrap());
        // The operator's proxy may be here.
        assert!(resolve(other).await.is_ok());
        let named = Services::parse(&["http://localhost:9".to_owned()]).unwrap();
        assert!(resolve(named).await.is_ok(), "the operator wrote it");
        assert!(resolve(Services::of_host(host)).await.is_err());
    }
}
