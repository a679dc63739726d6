//! Verifies the sender of a call.
//!
//! Pure: headers, body and time are arguments. The response time must not reveal anything. So the
//! body of every call is hashed equally often, whatever its scheme and its faults, and secrets are
//! compared in constant time. Tested with the test vectors of Standard Webhooks and GitHub, and
//! with property tests.

use std::array;
use std::hint::black_box;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};

use aetheel_model::plain::hex;
use aetheel_store::workspace::WebhookScheme;

/// Largest accepted difference of a sender's clock, in seconds.
pub const TOLERANCE: u64 = 300;
/// The largest number of secrets of a webhook.
pub const SECRETS: usize = 2;
/// Shortest accepted secret, in bytes.
const SHORTEST: usize = 16;
/// Longest accepted id of a delivery, in bytes.
const ID: usize = 256;

type SignatureTag = Hmac<Sha256>;

/// A secret, decoded for its scheme.
#[derive(Clone)]
pub struct WebhookKey(Vec<u8>);

impl std::fmt::Debug for WebhookKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// A verified call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The delivery's id, which stays the same when the delivery is repeated; `None` if the sender
    /// gave none.
    pub id: Option<String>,
}

/// The reason why a call is not authentic; for the log, never for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    /// A header is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A header occurs more than once, so that programs could disagree about its value.
    #[error("`{0}` occurs more than once")]
    Twice(&'static str),
    /// A header has an invalid value.
    #[error("`{0}` cannot be read")]
    Malformed(&'static str),
    /// The timestamp is too far from the current time.
    #[error("`webhook-timestamp` is {0} s off; check both clocks")]
    Stale(u64),
    /// The sender used another secret, or the call was changed in transit.
    #[error("the signature or token is wrong")]
    Wrong,
}

/// The reason why a secret cannot be the key of a webhook. The texts follow the name of the secret
/// and never contain the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// A secret of the scheme `standard` has another form.
    #[error("is not `whsec_` and base64")]
    NotBase64,
    /// A secret of the scheme `bearer` cannot be sent in a header.
    #[error("contains blanks or other characters that a token cannot contain")]
    NotAToken,
    /// The secret can be guessed.
    #[error("is shorter than {SHORTEST} bytes")]
    TooShort,
}

impl WebhookKey {
    /// Creates a key from a secret.
    ///
    /// # Errors
    /// [`SecretError`] if the secret does not fit the scheme or is too short.
    pub fn new(scheme: WebhookScheme, secret: &str) -> Result<Self, SecretError> {
        let secret = secret.trim();
        let bytes = match scheme {
            WebhookScheme::Standard => {
                let text = secret.strip_prefix("whsec_").unwrap_or(secret);
                STANDARD.decode(text).map_err(|_| SecretError::NotBase64)?
            }
            WebhookScheme::Github => secret.as_bytes().to_vec(),
            WebhookScheme::Bearer if secret.bytes().all(|b| b.is_ascii_graphic()) => {
                secret.as_bytes().to_vec()
            }
            WebhookScheme::Bearer => return Err(SecretError::NotAToken),
        };
        if bytes.len() < SHORTEST {
            return Err(SecretError::TooShort);
        }
        Ok(Self(bytes))
    }

    /// Creates a random key.
    #[must_use]
    pub fn unknown() -> Self {
        Self([uuid::Uuid::new_v4().into_bytes(), uuid::Uuid::new_v4().into_bytes()].concat())
    }

    fn tag(&self, parts: &[&[u8]]) -> SignatureTag {
        let mut tag = SignatureTag::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        parts.iter().for_each(|part| tag.update(part));
        tag
    }
}

/// The claims of the headers, before they are verified.
struct SignatureClaims {
    /// The text that is signed in front of the body.
    before: String,
    /// The signatures, of which one must match.
    signatures: Vec<Vec<u8>>,
    id: Option<String>,
}

/// Verifies a call at the time `now_s`, in seconds since 1970. `spare` is used in place of missing
/// secrets.
///
/// # Errors
/// Returns the [`SignatureFault`].
pub fn verify(
    scheme: WebhookScheme,
    keys: &[WebhookKey],
    spare: &WebhookKey,
    headers: &HeaderMap,
    body: &[u8],
    now_s: i64,
) -> Result<Proof, SignatureFault> {
    let claims = match scheme {
        WebhookScheme::Standard => standard(headers, now_s),
        WebhookScheme::Github => github(headers),
        WebhookScheme::Bearer => bearer(headers),
    };
    let before = claims.as_ref().map_or("", |claims| claims.before.as_str());
    let tags: [SignatureTag; SECRETS] =
        array::from_fn(|n| keys.get(n).unwrap_or(spare).tag(&[before.as_bytes(), body]));
    let tags = black_box(tags);
    let claims = claims?;
    let mut good = false;
    for (key, tag) in keys.iter().zip(tags) {
        for signature in &claims.signatures {
            good |= match scheme {
                // Compares tags of the two tokens, which an attacker cannot predict.
                WebhookScheme::Bearer => spare
                    .tag(&[signature])
                    .verify_slice(&spare.tag(&[&key.0]).finalize().into_bytes())
                    .is_ok(),
                WebhookScheme::Standard | WebhookScheme::Github => {
                    tag.clone().verify_slice(signature).is_ok()
                }
            };
        }
    }
    if !good {
        return Err(SignatureFault::Wrong);
    }
    // GitHub does not sign a delivery's id, so an attacker could repeat a delivery with another id.
    let id = if scheme == WebhookScheme::Github {
        Some(format!("sha256-{}", hex(&Sha256::digest(body))))
    } else {
        claims.id
    };
    Ok(Proof { id })
}

/// Reads `webhook-id`, `webhook-timestamp` and `webhook-signature`; see the specification of
/// Standard Webhooks, 1.0.0.
fn standard(headers: &HeaderMap, now_s: i64) -> Result<SignatureClaims, SignatureFault> {
    let id = id(headers, "webhook-id")?.ok_or(SignatureFault::Missing("webhook-id"))?;
    // The signed parts are separated by full stops. With one in the id, the same signed text could
    // be split in another way.
    if id.contains('.') {
        return Err(SignatureFault::Malformed("webhook-id"));
    }
    let time =
        only(headers, "webhook-timestamp")?.ok_or(SignatureFault::Missing("webhook-timestamp"))?;
    let seconds =
        Some(time).filter(|time| time.len() <= 12 && time.bytes().all(|b| b.is_ascii_digit()));
    let seconds: i64 = seconds
        .and_then(|time| time.parse().ok())
        .ok_or(SignatureFault::Malformed("webhook-timestamp"))?;
    let off = now_s.abs_diff(seconds);
    if off > TOLERANCE {
        return Err(SignatureFault::Stale(off));
    }
    let list =
        only(headers, "webhook-signature")?.ok_or(SignatureFault::Missing("webhook-signature"))?;
    // Signatures of other versions use other schemes.
    let signatures = list
        .split(' ')
        .filter_map(|item| item.strip_prefix("v1,"))
        .filter_map(|text| STANDARD.decode(text).ok());
    Ok(SignatureClaims {
        before: format!("{id}.{time}."),
        signatures: signatures.collect(),
        id: Some(id.to_owned()),
    })
}

/// Reads `X-Hub-Signature-256`; see GitHub's "Validating webhook deliveries", 2026-08.
fn github(headers: &HeaderMap) -> Result<SignatureClaims, SignatureFault> {
    const NAME: &str = "x-hub-signature-256";
    let text = only(headers, NAME)?.ok_or(SignatureFault::Missing(NAME))?;
    let signature =
        text.strip_prefix("sha256=").and_then(unhex).ok_or(SignatureFault::Malformed(NAME))?;
    Ok(SignatureClaims { before: String::new(), signatures: vec![signature], id: None })
}

/// Reads `Authorization: Bearer`, and an optional id.
fn bearer(headers: &HeaderMap) -> Result<SignatureClaims, SignatureFault> {
    let text = only(headers, "authorization")?.ok_or(SignatureFault::Missing("authorization"))?;
    let (scheme_name, token) =
        text.split_once(' ').ok_or(SignatureFault::Malformed("authorization"))?;
    if !scheme_name.eq_ignore_ascii_case("bearer") {
        return Err(SignatureFault::Malformed("authorization"));
    }
    let id = match id(headers, "idempotency-key")? {
        Some(id) => Some(id),
        None => id(headers, "webhook-id")?,
    };
    Ok(SignatureClaims {
        before: String::new(),
        signatures: vec![token.as_bytes().to_vec()],
        id: id.map(str::to_owned),
    })
}

fn id<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, SignatureFault> {
    let Some(id) = only(headers, name)? else { return Ok(None) };
    let fits = (1..=ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    if fits { Ok(Some(id)) } else { Err(SignatureFault::Malformed(name)) }
}

/// Returns the only value of a header.
fn only<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, SignatureFault> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(SignatureFault::Twice(name));
    }
    first.map(|value| value.to_str().map_err(|_| SignatureFault::Malformed(name))).transpose()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests;
