//! References to artifacts: `oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::digest::BlobDigest;

const SCHEME: &str = "oci://";
/// Maximum length of a name, in bytes (OCI distribution specification).
const MAX_NAME_BYTES: usize = 255;
/// Maximum length of a tag, in bytes (OCI distribution specification).
const MAX_TAG_BYTES: usize = 128;

/// The reason why a text is not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The text has another form.
    #[error(
        "{0:?} is not a reference; write `oci://HOST/NAME:TAG` or `oci://HOST/NAME@sha256:DIGEST`"
    )]
    Form(String),
    /// The host is invalid, or contains a user name or a password.
    #[error(
        "{0:?} is not the host of a registry; write `HOST` or `HOST:PORT`, without user and password"
    )]
    Host(String),
    /// The name is invalid.
    #[error(
        "{0:?} is not a name in a registry; it consists of lower-case letters, digits, `.`, `_`, `-` and `/`"
    )]
    Name(String),
    /// The tag is invalid.
    #[error("{0:?} is not a tag; it consists of at most 128 letters, digits, `.`, `_` and `-`")]
    Tag(String),
    /// The digest is invalid.
    #[error("{0:?} is not a digest; write `sha256:` and 64 lower-case hexadecimal digits")]
    Digest(String),
    /// There is neither a tag nor a digest.
    #[error("{0} names no version; add `:TAG` or `@sha256:DIGEST`")]
    NoVersion(String),
}

/// The place of an artifact in a registry. It has a tag, a digest, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactReference {
    registry: String,
    name: String,
    tag: Option<String>,
    digest: Option<BlobDigest>,
}

impl ArtifactReference {
    /// Returns the registry: a host, with a port if it has one.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the name within the registry.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the digest of the manifest, if the reference names one.
    #[must_use]
    pub fn digest(&self) -> Option<&BlobDigest> {
        self.digest.as_ref()
    }

    /// Returns the same reference with this digest.
    #[must_use]
    pub fn with_digest(&self, digest: BlobDigest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// Returns the same reference without its digest, or `None` if it has no tag.
    #[must_use]
    pub fn tag_only(&self) -> Option<Self> {
        self.tag.is_some().then(|| Self { digest: None, ..self.clone() })
    }

    /// Returns the name by which a registry serves the manifest: the digest, otherwise the tag.
    #[must_use]
    pub fn version(&self) -> &str {
        // `from_str` refuses a reference without both.
        self.digest.as_ref().map_or(self.tag.as_deref().unwrap_or_default(), BlobDigest::as_str)
    }

    /// Returns whether the registry runs on this machine, so that plain HTTP is safe.
    #[must_use]
    pub fn is_local(&self) -> bool {
        is_loopback(host_of(&self.registry))
    }

    /// Returns the text of the reference without `oci://`.
    #[must_use]
    pub fn bare(&self) -> String {
        self.to_string().split_off(SCHEME.len())
    }
}

impl fmt::Display for ArtifactReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.name)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for ArtifactReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || ReferenceError::Form(text.to_owned());
        let (registry, rest) =
            text.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).ok_or_else(form)?;
        if !is_host(registry) {
            return Err(ReferenceError::Host(registry.to_owned()));
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (rest, None),
        };
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (rest, None),
        };
        if !is_name(name) {
            return Err(ReferenceError::Name(name.to_owned()));
        }
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Tag(tag.to_owned()));
        }
        let parse = |text: &str| {
            BlobDigest::parse(text).ok_or_else(|| ReferenceError::Digest(text.to_owned()))
        };
        let digest = digest.map(parse).transpose()?;
        if tag.is_none() && digest.is_none() {
            return Err(ReferenceError::NoVersion(text.to_owned()));
        }
        let registry = registry.to_ascii_lowercase();
        Ok(Self { registry, name: name.to_owned(), tag: tag.map(str::to_owned), digest })
    }
}

/// Returns a registry's host without its port and without the brackets of an IPv6 address.
fn host_of(registry: &str) -> &str {
    match registry.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => registry.split(':').next().unwrap_or_default(),
    }
}

pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn is_host(registry: &str) -> bool {
    let (host, port) = match registry.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", port),
            _ => return false,
        },
        None => registry.split_at(registry.find(':').unwrap_or(registry.len())),
    };
    let is_port =
        |port: &str| port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-')
    };
    host.len() <= MAX_NAME_BYTES
        && host.split('.').all(is_label)
        && (port.is_empty() || is_port(port))
}

fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let (alone, inner) = (
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit(),
            |byte: u8| matches!(byte, b'.' | b'_' | b'-'),
        );
        let bytes = part.as_bytes();
        bytes.first().copied().is_some_and(alone)
            && bytes.last().copied().is_some_and(alone)
            && bytes.iter().all(|byte| alone(*byte) || inner(*byte))
            && !part.contains("..")
    };
    name.len() <= MAX_NAME_BYTES && name.split('/').all(is_part)
}

fn is_tag(tag: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_TAG_BYTES).contains(&tag.len())
        && tag.bytes().all(inner)
        && !tag.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_reference_has_a_tag_or_a_digest_and_is_written_as_it_was_read() {
        for text in [
            "oci://registry.example/mini:1.0".to_owned(),
            "oci://registry.example:5000/team/back-ends/mini:1.0_rc.1".to_owned(),
            format!("oci://127.0.0.1:5000/mini@{DIGEST}"),
            format!("oci://[::1]:5000/mini:1@{DIGEST}"),
        ] {
            let reference: ArtifactReference = text.parse().unwrap();
            assert_eq!(reference.to_string(), text);
            assert_eq!(reference.bare(), text["oci://".len()..]);
        }
        let both: ArtifactReference = format!("oci://h/n:t@{DIGEST}").parse().unwrap();
        assert_eq!(both.version(), DIGEST);
        assert_eq!(both.tag_only().unwrap().version(), "t");
    }

    #[test]
    fn invalid_references_say_which_part_is_wrong() {
        let error = |text: &str| text.parse::<ArtifactReference>().unwrap_err().to_string();
        for (text, says) in [
            ("mini.wasm", "is not a reference"),
            ("oci://host", "is not a reference"),
            ("oci:///mini:1", "is not the host"),
            ("oci://user:secret@host/mini:1", "is not the host"),
            ("oci://host:port/mini:1", "is not the host"),
            ("oci://ho st/mini:1", "is not the host"),
            ("oci://host/Mini:1", "is not a name"),
            ("oci://host/../mini:1", "is not a name"),
            ("oci://host/a..b:1", "is not a name"),
            ("oci://host//mini:1", "is not a name"),
            ("oci://host/mini?x:1", "is not a name"),
            ("oci://host/mini:", "is not a tag"),
            ("oci://host/mini:a b", "is not a tag"),
            ("oci://host/mini@sha256:12", "is not a digest"),
            ("oci://host/mini", "names no version"),
        ] {
            assert!(error(text).contains(says), "{text}: {}", error(text));
        }
    }

    #[test]
    fn only_loopback_hosts_are_local() {
        for (text, local) in [
            ("oci://127.0.0.1:5000/a:1", true),
            ("oci://127.9.9.9/a:1", true),
            ("oci://localhost:5000/a:1", true),
            ("oci://[::1]:5000/a:1", true),
            ("oci://localhost.example/a:1", false),
            ("oci://127.0.0.1.example/a:1", false),
            ("oci://10.0.0.1/a:1", false),
            ("oci://[::2]/a:1", false),
        ] {
            assert_eq!(text.parse::<ArtifactReference>().unwrap().is_local(), local, "{text}");
        }
    }
}
