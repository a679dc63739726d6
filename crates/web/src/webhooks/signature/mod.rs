//! Whether a call comes from who it says it comes from.
//!
//! Pure: headers, body and time come in. Every call costs the same passes over its body, whatever
//! its scheme and whatever is wrong with it, and secrets are compared in constant time, so that
//! answers tell nothing by when they come. Pinned by the vectors that Standard Webhooks and GitHub
//! publish, and by property tests.

use std::array;
use std::hint::black_box;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};

use aetheel_model::plain::hex;
use aetheel_store::workspace::Scheme;

/// How far a sender's clock may be off, seconds.
pub const TOLERANCE: u64 = 300;
/// Secrets a webhook may have at the same time.
pub const SECRETS: usize = 2;
/// Shortest secret that is taken, bytes.
const SHORTEST: usize = 16;
/// Longest id of a delivery that is taken, bytes.
const ID: usize = 256;

type Tag = Hmac<Sha256>;

/// A secret, as its scheme uses it.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// A call that is what it says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The delivery's id, the same when it comes again; none: its sender gave none.
    pub id: Option<String>,
}

/// Why a call is not believed; for the log, never for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is not there.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// It is there twice, so that two programs might each read another one.
    #[error("`{0}` is there more than once")]
    Twice(&'static str),
    /// It cannot be meant.
    #[error("`{0}` cannot be read")]
    Malformed(&'static str),
    /// Too old, or from the future.
    #[error("`webhook-timestamp` is {0} s off; check both clocks")]
    Stale(u64),
    /// Signed with another secret, or changed on the way.
    #[error("the signature or token is wrong")]
    Wrong,
}

impl Key {
    /// Makes one of what a variable holds.
    ///
    /// # Errors
    /// What is wrong with it, without it.
    pub fn new(scheme: Scheme, secret: &str) -> Result<Self, String> {
        let secret = secret.trim();
        let bytes = match scheme {
            Scheme::Standard => {
                let text = secret.strip_prefix("whsec_").unwrap_or(secret);
                STANDARD.decode(text).map_err(|_| "is not `whsec_` and base64".to_owned())?
            }
            Scheme::Github => secret.as_bytes().to_vec(),
            Scheme::Bearer if secret.bytes().all(|b| b.is_ascii_graphic()) => {
                secret.as_bytes().to_vec()
            }
            Scheme::Bearer => {
                return Err("holds blanks or strange characters, which a token cannot".to_owned());
            }
        };
        if bytes.len() < SHORTEST {
            return Err(format!("is shorter than {SHORTEST} bytes"));
        }
        Ok(Self(bytes))
    }

    /// One that nobody knows.
    #[must_use]
    pub fn unknown() -> Self {
        Self([uuid::Uuid::new_v4().into_bytes(), uuid::Uuid::new_v4().into_bytes()].concat())
    }

    fn tag(&self, parts: &[&[u8]]) -> Tag {
        let mut tag = Tag::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        parts.iter().for_each(|part| tag.update(part));
        tag
    }
}

/// The claims of the headers, before any of it is believed.
struct Said {
    /// Signed before the body.
    before: String,
    /// Each may be the right one.
    signatures: Vec<Vec<u8>>,
    id: Option<String>,
}

/// Decides about a call at `now_s`, seconds since 1970. `spare` stands in for secrets that there
/// are not.
///
/// # Errors
/// [`Fault`].
pub fn verify(
    scheme: Scheme,
    keys: &[Key],
    spare: &Key,
    headers: &HeaderMap,
    body: &[u8],
    now_s: i64,
) -> Result<Proof, Fault> {
    let said = match scheme {
        Scheme::Standard => standard(headers, now_s),
        Scheme::Github => github(headers),
        Scheme::Bearer => bearer(headers),
    };
    let before = said.as_ref().map_or("", |said| said.before.as_str());
    let tags: [Tag; SECRETS] =
        array::from_fn(|n| keys.get(n).unwrap_or(spare).tag(&[before.as_bytes(), body]));
    let tags = black_box(tags);
    let said = said?;
    let mut good = false;
    for (key, tag) in keys.iter().zip(tags) {
        for signature in &said.signatures {
            good |= match scheme {
                // Of both a tag is compared that nobody can foresee.
                Scheme::Bearer => spare
                    .tag(&[signature])
                    .verify_slice(&spare.tag(&[&key.0]).finalize().into_bytes())
                    .is_ok(),
                Scheme::Standard | Scheme::Github => tag.clone().verify_slice(signature).is_ok(),
            };
        }
    }
    if !good {
        return Err(Fault::Wrong);
    }
    // GitHub does not sign the id of a delivery: whoever saw one could send it again under another.
    let id = if scheme == Scheme::Github {
        Some(format!("sha256-{}", hex(&Sha256::digest(body))))
    } else {
        said.id
    };
    Ok(Proof { id })
}

/// `webhook-id`, `webhook-timestamp`, `webhook-signature`; see the specification of Standard
/// Webhooks, 1.0.0.
fn standard(headers: &HeaderMap, now_s: i64) -> Result<Said, Fault> {
    let id = id(headers, "webhook-id")?.ok_or(Fault::Missing("webhook-id"))?;
    // Full stops set apart what is signed: with one in the id, another split of the same signed
    // text would be good too.
    if id.contains('.') {
        return Err(Fault::Malformed("webhook-id"));
    }
    let time = only(headers, "webhook-timestamp")?.ok_or(Fault::Missing("webhook-timestamp"))?;
    let seconds =
        Some(time).filter(|time| time.len() <= 12 && time.bytes().all(|b| b.is_ascii_digit()));
    let seconds: i64 =
        seconds.and_then(|time| time.parse().ok()).ok_or(Fault::Malformed("webhook-timestamp"))?;
    let off = now_s.abs_diff(seconds);
    if off > TOLERANCE {
        return Err(Fault::Stale(off));
    }
    let list = only(headers, "webhook-signature")?.ok_or(Fault::Missing("webhook-signature"))?;
    // Other versions are other schemes.
    let signatures = list
        .split(' ')
        .filter_map(|item| item.strip_prefix("v1,"))
        .filter_map(|text| STANDARD.decode(text).ok());
    Ok(Said {
        before: format!("{id}.{time}."),
        signatures: signatures.collect(),
        id: Some(id.to_owned()),
    })
}

/// `X-Hub-Signature-256`; see GitHub's "Validating webhook deliveries", 2026-08.
fn github(headers: &HeaderMap) -> Result<Said, Fault> {
    const NAME: &str = "x-hub-signature-256";
    let text = only(headers, NAME)?.ok_or(Fault::Missing(NAME))?;
    let signature = text.strip_prefix("sha256=").and_then(unhex).ok_or(Fault::Malformed(NAME))?;
    Ok(Said { before: String::new(), signatures: vec![signature], id: None })
}

/// `Authorization: Bearer`, and an id where there is one.
fn bearer(headers: &HeaderMap) -> Result<Said, Fault> {
    let text = only(headers, "authorization")?.ok_or(Fault::Missing("authorization"))?;
    let (word, token) = text.split_once(' ').ok_or(Fault::Malformed("authorization"))?;
    if !word.eq_ignore_ascii_case("bearer") {
        return Err(Fault::Malformed("authorization"));
    }
    let id = match id(headers, "idempotency-key")? {
        Some(id) => Some(id),
        None => id(headers, "webhook-id")?,
    };
    Ok(Said {
        before: String::new(),
        signatures: vec![token.as_bytes().to_vec()],
        id: id.map(str::to_owned),
    })
}

fn id<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Fault> {
    let Some(id) = only(headers, name)? else { return Ok(None) };
    let fits = (1..=ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    if fits { Ok(Some(id)) } else { Err(Fault::Malformed(name)) }
}

/// The one value of a header.
fn only<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Fault> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(Fault::Twice(name));
    }
    first.map(|value| value.to_str().map_err(|_| Fault::Malformed(name))).transpose()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests;
