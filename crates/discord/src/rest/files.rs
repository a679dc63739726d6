//! Files that people attached. They are fetched only from Discord's servers.

use std::time::Duration;

use reqwest::{Client, Url, redirect};

use aetheel_model::event::AttachedFile;

/// Discord's file servers (Discord's documentation of message attachments, 2026-08).
const SERVERS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// The reason why a file was not fetched, worded for the person who attached it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchError {
    /// The address is not on one of Discord's servers.
    #[error("it is not stored by Discord")]
    Elsewhere,
    /// The file was deleted, or its address is no longer valid.
    #[error("Discord does not have it any more")]
    Gone,
    /// Discord answered with this status.
    #[error("Discord refused to send it ({0})")]
    Refused(u16),
    /// The file has more bytes than this limit.
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
    #[error("Discord took too long to send it")]
    TimedOut,
    #[error("Discord could not be reached")]
    Unreachable,
}

impl From<reqwest::Error> for FetchError {
    /// Leaves out the address of the file, because anybody who has the address can read the file.
    fn from(error: reqwest::Error) -> Self {
        if error.is_timeout() { Self::TimedOut } else { Self::Unreachable }
    }
}

/// Fetches files. Sends no token, because the addresses of attachments contain their own
/// permission.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    http: Client,
    /// The configured address of Discord, which in tests is a local server.
    base: String,
}

impl Fetcher {
    pub(crate) fn new(base: &str) -> Result<Self, reqwest::Error> {
        let http = Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .timeout(FETCH_TIMEOUT)
            .build()?;
        Ok(Self { http, base: base.to_owned() })
    }

    /// Fetches a file of at most `limit` bytes.
    ///
    /// # Errors
    /// [`FetchError`].
    pub(crate) async fn fetch(
        &self,
        file: &AttachedFile,
        limit: u64,
    ) -> Result<Vec<u8>, FetchError> {
        let url = allowed_url(&file.source, &self.base).ok_or(FetchError::Elsewhere)?;
        let mut response = self.http.get(url).send().await?;
        match response.status().as_u16() {
            200 => {}
            403 | 404 | 410 => return Err(FetchError::Gone),
            status => return Err(FetchError::Refused(status)),
        }
        if response.content_length().is_some_and(|length| length > limit) {
            return Err(FetchError::TooLarge(limit));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if (bytes.len() + chunk.len()) as u64 > limit {
                return Err(FetchError::TooLarge(limit));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

/// Parses an address. Returns `None` unless it is on one of Discord's file servers or on `base`.
fn allowed_url(source: &str, base: &str) -> Option<Url> {
    let url = Url::parse(source).ok()?;
    let plain = url.username().is_empty() && url.password().is_none();
    let server = url.scheme() == "https"
        && url.port().is_none()
        && url.host_str().is_some_and(|host| SERVERS.contains(&host));
    let same = Url::parse(base).is_ok_and(|base| base.origin() == url.origin());
    (plain && (server || same)).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_discord_are_allowed() {
        let base = "https://discord.com";
        for good in [
            "https://cdn.discordapp.com/attachments/1/2/a.png?ex=1",
            "https://media.discordapp.net/a",
            "https://discord.com/a",
        ] {
            assert!(allowed_url(good, base).is_some(), "{good}");
        }
        for bad in [
            "http://cdn.discordapp.com/a",
            "https://cdn.discordapp.com.evil.example/a",
            "https://cdn.discordapp.com:8443/a",
            "https://cdn.discordapp.com@evil.example/a",
            "https://user:word@cdn.discordapp.com/a",
            "https://evil.example/cdn.discordapp.com",
            "http://169.254.169.254/latest/meta-data",
            "file:///etc/passwd",
            "/attachments/1",
            "",
        ] {
            assert!(allowed_url(bad, base).is_none(), "{bad}");
        }
        assert!(allowed_url("http://127.0.0.1:4000/a", "http://127.0.0.1:4000").is_some());
        assert!(allowed_url("http://127.0.0.1:4001/a", "http://127.0.0.1:4000").is_none());
    }
}
