//! Credentials for registries: from `REGISTRY_KEY`, or from Docker's `config.json`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::SecretString;
use serde::Deserialize;

use aetheel_model::registry_key::RegistryKey;
use aetheel_runtime::ordinary::read_ordinary;

const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// The reason why Docker's file is not used.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The file cannot be read.
    #[error("cannot read Docker's {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The file cannot be parsed. The parser's message is left out, because it may quote a secret.
    #[error("Docker's {} is invalid at line {line}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The credentials of the registry are in a helper program or are of a kind that is not
    /// supported.
    #[error(
        "Docker's {} has no password for {registry}, but {instead}, which Aetheel does not use; set REGISTRY_KEY to USER:PASSWORD@{registry}",
        path.display()
    )]
    Elsewhere {
        /// The file.
        path: PathBuf,
        /// The registry.
        registry: String,
        /// The part of the file that names the registry.
        instead: String,
    },
}

/// User and password for one registry.
#[derive(Clone, Debug)]
pub struct RegistryLogin {
    pub(crate) user: String,
    pub(crate) password: SecretString,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct DockerConfig {
    auths: BTreeMap<String, DockerAuth>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DockerAuth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl RegistryLogin {
    /// Finds the credentials of a registry. `key` is the value of `REGISTRY_KEY`, which is used
    /// only for the host that it names. `docker` is Docker's file, which need not exist. Blocks.
    ///
    /// # Errors
    /// [`LoginError`] if the file exists, but its credentials cannot be used.
    pub fn find(
        registry: &str,
        key: Option<&RegistryKey>,
        docker: Option<&Path>,
    ) -> Result<Option<Self>, LoginError> {
        if let Some(key) = key.filter(|key| key.registry.eq_ignore_ascii_case(registry)) {
            return Ok(Some(Self { user: key.user.clone(), password: key.password.clone() }));
        }
        let Some(path) = docker.filter(|path| path.exists()) else { return Ok(None) };
        let text = read_ordinary(path, MAX_CONFIG_BYTES)
            .map_err(|error| LoginError::Read { path: path.to_owned(), error })?;
        let config: DockerConfig = serde_json::from_slice(&text)
            .map_err(|error| LoginError::Invalid { path: path.to_owned(), line: error.line() })?;
        config.login(registry).map_err(|NotHere(instead)| LoginError::Elsewhere {
            path: path.to_owned(),
            registry: registry.to_owned(),
            instead,
        })
    }
}

/// Describes an entry that has no password.
struct NotHere(String);

impl DockerConfig {
    fn login(&self, registry: &str) -> Result<Option<RegistryLogin>, NotHere> {
        if let Some((_, helper)) = self.cred_helpers.iter().find(|(of, _)| host(of) == registry) {
            return Err(NotHere(format!("the helper {helper:?}")));
        }
        let Some((_, auth)) = self.auths.iter().find(|(of, _)| host(of) == registry) else {
            return Ok(None);
        };
        if auth.identitytoken.as_ref().is_some_and(|token| !token.is_empty()) {
            return Err(NotHere("an identity token".to_owned()));
        }
        let decoded = auth.auth.as_ref().filter(|auth| !auth.is_empty()).and_then(|auth| {
            let text = String::from_utf8(BASE64_STANDARD.decode(auth).ok()?).ok()?;
            let (user, password) = text.split_once(':')?;
            Some((user.to_owned(), password.trim_end_matches('\0').to_owned()))
        });
        let named = || Some((auth.username.clone()?, auth.password.clone()?));
        match (decoded.or_else(named), &self.creds_store) {
            (Some((user, password)), _) => {
                Ok(Some(RegistryLogin { user, password: password.into() }))
            }
            (None, Some(store)) => Err(NotHere(format!("the helper {store:?}"))),
            (None, None) => Err(NotHere("an entry without a password".to_owned())),
        }
    }
}

/// Returns the host of a key of Docker's file, which may be a URL.
fn host(key: &str) -> String {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    key.split('/').next().unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn find(registry: &str, config: &str) -> Result<Option<(String, String)>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::fs::write(&path, config).unwrap();
        RegistryLogin::find(registry, None, Some(&path))
            .map(|login| login.map(|it| (it.user, it.password.expose_secret().to_owned())))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn dockers_file_gives_the_credentials_of_exactly_the_registry() {
        let config = r#"{"auths":{"https://Registry.example/v1/":{"auth":"bWU6czNjcjp0"},"other.example:5000":{"username":"you","password":"pw"}}}"#;
        assert_eq!(find("registry.example", config), Ok(Some(("me".into(), "s3cr:t".into()))));
        assert_eq!(find("other.example:5000", config), Ok(Some(("you".into(), "pw".into()))));
        for other in ["other.example", "example", "registry.example.evil", "registry.example:5000"]
        {
            assert_eq!(find(other, config), Ok(None), "{other}");
        }
    }

    #[test]
    fn credentials_that_are_elsewhere_are_reported_without_a_secret() {
        for (config, says) in [
            (r#"{"auths":{"r":{}},"credsStore":"desktop"}"#, "but the helper \"desktop\""),
            (r#"{"credHelpers":{"r":"cloud"}}"#, "but the helper \"cloud\""),
            (r#"{"auths":{"r":{"auth":"bWU6","identitytoken":"t0p"}}}"#, "an identity token"),
            (r#"{"auths":{"r":{"auth":"s3cret"}}}"#, "an entry without a password"),
            (r#"{"auths":{"r":{"auth":["s3cret"]}}}"#, "is invalid at line 1"),
        ] {
            let error = find("r", config).unwrap_err();
            assert!(error.contains(says), "{error}");
            assert!(!error.contains("s3cret") && !error.contains("t0p"), "{error}");
        }
    }

    #[test]
    fn the_key_counts_only_for_its_registry() {
        let key: RegistryKey = "me:s3cret@registry.example".parse().unwrap();
        let user = |registry: &str| {
            RegistryLogin::find(registry, Some(&key), None).unwrap().map(|login| login.user)
        };
        assert_eq!(user("registry.example").as_deref(), Some("me"));
        assert_eq!(user("registry.example:5000"), None);
    }
}
