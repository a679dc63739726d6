//! The key by which push services know the gateway (VAPID, RFC 8292), and what is signed with it.
//!
//! A browser hands the public key to its push service when somebody switches pushes on; from then
//! on the service takes them only from whoever signs with the other half.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

/// How long a signature counts, seconds. Services take at most a day, and clocks differ.
const COUNTS: i64 = 3_600;

/// A pair of keys on the curve P-256.
pub(super) struct Key {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    /// As a browser wants it: uncompressed, in base64 of addresses.
    public: String,
}

impl Key {
    /// Makes a new one, as it is to be kept.
    pub(super) fn make() -> Result<SecretString, String> {
        let made =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let made = made.map_err(|_| "the system gives no random numbers".to_owned())?;
        Ok(URL_SAFE_NO_PAD.encode(made).into())
    }

    /// Reads one that was kept.
    ///
    /// # Errors
    /// Why it is none, without what it says.
    pub(super) fn read(kept: &SecretString) -> Result<Self, String> {
        let bytes = URL_SAFE_NO_PAD.decode(kept.expose_secret());
        let bytes = bytes.map_err(|_| "it is not in base64".to_owned())?;
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bytes, &random)
            .map_err(|why| why.to_string())?;
        let public = URL_SAFE_NO_PAD.encode(pair.public_key());
        Ok(Self { pair, random, public })
    }

    /// The public half.
    pub(super) fn public(&self) -> &str {
        &self.public
    }

    /// The value of `Authorization` for a push service: `audience` is its scheme, host and port,
    /// `contact` how its people reach the operator.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(super) fn authorization(
        &self,
        audience: &str,
        contact: &str,
        now: Timestamp,
    ) -> Result<String, String> {
        let claims = json!({"aud": audience, "exp": now.as_second() + COUNTS, "sub": contact});
        let [head, claims] = [json!({"typ": "JWT", "alg": "ES256"}), claims]
            .map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let said = format!("{head}.{claims}");
        let signed = self.pair.sign(&self.random, said.as_bytes());
        let signed = signed.map_err(|_| "the system gives no random numbers".to_owned())?;
        Ok(format!("vapid t={said}.{}, k={}", URL_SAFE_NO_PAD.encode(signed), self.public))
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_service_that_has_the_public_key_knows_who_signed_what() {
        let kept = Key::make().unwrap();
        let key = Key::read(&kept).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let header =
            key.authorization("https://push.example", "mailto:ann@example.com", now).unwrap();
        let (token, public) = header.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        assert_eq!(public, key.public());
        let public = URL_SAFE_NO_PAD.decode(public).unwrap();
        assert!(public.len() == 65 && public[0] == 4, "uncompressed");
        let (said, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let known = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &public);
        known.verify(said.as_bytes(), &signature).expect("it is signed with the other half");
        known.verify(b"something else", &signature).expect_err("not that");
        let parts: Vec<Value> = said
            .split('.')
            .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
            .collect();
        assert_eq!(parts[0], json!({"typ": "JWT", "alg": "ES256"}));
        let claims = json!({"aud": "https://push.example", "exp": 1_800_003_600, "sub": "mailto:ann@example.com"});
        assert_eq!(parts[1], claims);
    }

    #[test]
    fn a_key_is_the_same_after_it_was_kept_and_what_is_none_says_nothing_of_itself() {
        let kept = Key::make().unwrap();
        assert_eq!(Key::read(&kept).unwrap().public(), Key::read(&kept).unwrap().public());
        assert_ne!(
            Key::read(&Key::make().unwrap()).unwrap().public(),
            Key::read(&kept).unwrap().public()
        );
        for wrong in ["", "canary!", "Y2FuYXJ5"] {
            let Err(why) = Key::read(&wrong.to_owned().into()) else { panic!("{wrong}") };
            assert!(!why.contains("canary") && !why.contains("Y2Fu"), "{why}");
        }
    }
}
