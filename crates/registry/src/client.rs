//! Reads manifests and blobs of a registry (OCI distribution specification).
//!
//! Answers are read up to a limit. Redirects are followed here and not by the HTTP library, so that
//! credentials never reach another host.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use tokio::sync::Mutex;

use aetheel_model::plain::one_line;

use crate::challenge::Challenge;
use crate::error::RegistryError;
use crate::login::RegistryLogin;
use crate::reference::{ArtifactReference, is_loopback};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the next piece of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_REDIRECTS: usize = 5;
/// Maximum size of an error message or of a token, in bytes.
const MAX_TEXT_BYTES: u64 = 64 << 10;
/// Maximum length of the registry's own words in an error, in characters.
const MAX_DETAIL_CHARS: usize = 300;

/// The origins of Docker Hub and of its token service.
const DOCKER_HUB: &str = "https://registry-1.docker.io";
const DOCKER_TOKENS: &str = "https://auth.docker.io";

#[derive(Clone)]
enum Authorization {
    Basic(RegistryLogin),
    Bearer(SecretString),
}

/// A connection to the registry of one artifact.
pub struct RegistryClient {
    http: Client,
    reference: ArtifactReference,
    base: Url,
    login: Option<RegistryLogin>,
    authorization: Mutex<Option<Authorization>>,
}

/// The answer of the token service.
#[derive(Deserialize)]
struct TokenForm {
    token: Option<String>,
    access_token: Option<String>,
}

static HTTP: LazyLock<[reqwest::Result<Client>; 2]> = LazyLock::new(|| {
    let builder = || {
        Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .user_agent(concat!("aetheel/", env!("CARGO_PKG_VERSION")))
    };
    // A registry on this machine is never reached through a proxy.
    [builder().no_proxy().build(), builder().build()]
});

impl RegistryClient {
    /// Makes a client for reading the artifact of a reference. Does no I/O.
    ///
    /// # Errors
    /// [`RegistryError::Unreachable`] if the TLS library cannot be started.
    pub fn new(
        reference: &ArtifactReference,
        login: Option<RegistryLogin>,
    ) -> Result<Self, RegistryError> {
        let registry = reference.registry();
        let [local, remote] = &*HTTP;
        let (scheme, http) = if reference.is_local() { ("http", local) } else { ("https", remote) };
        let refused =
            |reason: String| RegistryError::SignIn { registry: registry.to_owned(), reason };
        let http = http.as_ref().map_err(|error| refused(error.to_string()))?.clone();
        let base = Url::parse(&format!("{scheme}://{registry}/v2/"))
            .map_err(|error| refused(error.to_string()))?;
        let reference = reference.clone();
        Ok(Self { http, reference, base, login, authorization: Mutex::new(None) })
    }

    /// Returns the address of a part of the artifact, such as `blobs/sha256:…`.
    fn address(&self, part: &str) -> Result<Url, RegistryError> {
        let path = format!("{}/{part}", self.reference.name());
        self.base.join(&path).map_err(|error| self.sign_in(error.to_string()))
    }

    /// Reads a part of the artifact, of at most `limit` bytes.
    pub(crate) async fn get(
        &self,
        part: &str,
        accept: &str,
        limit: u64,
    ) -> Result<Bytes, RegistryError> {
        let answer = self.send(self.address(part)?, accept).await?;
        let answer = self.expect_ok(answer).await?;
        self.body(answer, limit).await
    }

    /// Sends a request, signs in if the registry asks for it, and follows redirects. Credentials are
    /// sent only to the registry itself.
    async fn send(&self, address: Url, accept: &str) -> Result<Response, RegistryError> {
        let answer = self.follow(address.clone(), accept).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || !self.is_registry(answer.url()) {
            return Ok(answer);
        }
        let challenge = answer.headers().get(WWW_AUTHENTICATE).and_then(|it| it.to_str().ok());
        let Some(challenge) = challenge.and_then(Challenge::parse) else { return Ok(answer) };
        let Some(authorization) = self.sign_in_by(challenge).await? else { return Ok(answer) };
        *self.authorization.lock().await = Some(authorization);
        self.follow(address, accept).await
    }

    async fn follow(&self, mut address: Url, accept: &str) -> Result<Response, RegistryError> {
        for _ in 0..=MAX_REDIRECTS {
            self.check(&address)?;
            let mut request = self.http.get(address.clone()).header(ACCEPT, accept);
            if self.is_registry(&address) {
                request = match &*self.authorization.lock().await {
                    Some(Authorization::Basic(login)) => {
                        request.basic_auth(&login.user, Some(login.password.expose_secret()))
                    }
                    Some(Authorization::Bearer(token)) => {
                        request.bearer_auth(token.expose_secret())
                    }
                    None => request,
                };
            }
            let answer = request.send().await.map_err(|error| self.unreachable(error))?;
            if !answer.status().is_redirection() {
                return Ok(answer);
            }
            let target = answer.headers().get(LOCATION).and_then(|target| target.to_str().ok());
            let Some(target) = target.and_then(|target| address.join(target).ok()) else {
                return Ok(answer);
            };
            address = target;
        }
        Err(self.redirect(&address, "after too many redirects"))
    }

    /// Refuses addresses to which nothing may be sent: without TLS, only a registry on this machine
    /// may refer to this machine.
    fn check(&self, address: &Url) -> Result<(), RegistryError> {
        let is_local = self.reference.is_local() && address.host_str().is_some_and(is_loopback);
        match address.scheme() {
            "https" => Ok(()),
            "http" if is_local => Ok(()),
            _ => Err(self.redirect(address, "which does not use TLS")),
        }
    }

    fn is_registry(&self, address: &Url) -> bool {
        address.origin() == self.base.origin()
    }

    /// Returns whether a token service may get the login: that of the registry itself (the same
    /// scheme, host and port), or the one of Docker Hub, which has a host of its own.
    fn is_token_service(&self, address: &Url) -> bool {
        let origin = |url: &Url| url.origin().ascii_serialization();
        self.is_registry(address)
            || (origin(&self.base), origin(address)) == (DOCKER_HUB.into(), DOCKER_TOKENS.into())
    }

    /// Gets the authorization that the registry asks for. Returns `None` if there are no credentials
    /// for it.
    async fn sign_in_by(
        &self,
        challenge: Challenge,
    ) -> Result<Option<Authorization>, RegistryError> {
        let (realm, service) = match challenge {
            Challenge::Basic => return Ok(self.login.clone().map(Authorization::Basic)),
            Challenge::Bearer { realm, service } => (realm, service),
        };
        let mut address = Url::parse(&realm)
            .map_err(|_| self.sign_in("it names an invalid token service".to_owned()))?;
        self.check(&address)?;
        let scope = format!("repository:{}:pull", self.reference.name());
        address.query_pairs_mut().append_pair("scope", &scope);
        if let Some(service) = service {
            address.query_pairs_mut().append_pair("service", &service);
        }
        let is_trusted = self.is_token_service(&address);
        let host = address.authority().to_owned();
        let mut request = self.http.get(address);
        if let Some(login) = self.login.as_ref().filter(|_| is_trusted) {
            request = request.basic_auth(&login.user, Some(login.password.expose_secret()));
        }
        let answer = request.send().await.map_err(|error| self.unreachable(error))?;
        let is_refused =
            matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_refused && self.login.is_some() && !is_trusted {
            return Err(self.sign_in(format!(
                "its token service {} is another server, which does not get the password; set REGISTRY_KEY for a registry that issues tokens itself",
                one_line(&host)
            )));
        }
        let answer = self.expect_ok(answer).await?;
        let text = self.body(answer, MAX_TEXT_BYTES).await?;
        let form: Option<TokenForm> = serde_json::from_slice(&text).ok();
        let token = form.and_then(|form| form.token.or(form.access_token));
        let token = token
            .ok_or_else(|| self.sign_in("its token service answered without a token".to_owned()))?;
        Ok(Some(Authorization::Bearer(token.into())))
    }

    /// Returns the answer if its status is 200, and otherwise the registry's own words.
    async fn expect_ok(&self, answer: Response) -> Result<Response, RegistryError> {
        let status = answer.status();
        if status == StatusCode::OK {
            return Ok(answer);
        }
        let text = self.body(answer, MAX_TEXT_BYTES).await.unwrap_or_default();
        let words: String =
            one_line(&String::from_utf8_lossy(&text)).chars().take(MAX_DETAIL_CHARS).collect();
        Err(RegistryError::Status {
            registry: self.reference.registry().to_owned(),
            reference: self.reference.to_string(),
            status: status.as_u16(),
            detail: if words.is_empty() { words } else { format!(": {words}") },
            with_login: self.login.is_some(),
        })
    }

    /// Reads an answer of at most `limit` bytes.
    async fn body(&self, mut answer: Response, limit: u64) -> Result<Bytes, RegistryError> {
        let too_large = || RegistryError::TooLarge { reference: self.reference.to_string(), limit };
        let mut body = BytesMut::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| self.unreachable(error))? {
            if (body.len() + piece.len()) as u64 > limit {
                return Err(too_large());
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }

    fn unreachable(&self, error: reqwest::Error) -> RegistryError {
        let registry = self.reference.registry().to_owned();
        RegistryError::Unreachable { registry, error: error.without_url() }
    }

    fn sign_in(&self, reason: String) -> RegistryError {
        RegistryError::SignIn { registry: self.reference.registry().to_owned(), reason }
    }

    fn redirect(&self, address: &Url, reason: &'static str) -> RegistryError {
        let host = one_line(address.host_str().unwrap_or("an address without a host"));
        RegistryError::Redirect {
            registry: self.reference.registry().to_owned(),
            address: format!("{}://{host}", address.scheme()),
            reason,
        }
    }
}
