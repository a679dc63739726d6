//! Credentials for a registry of backends, as an operator writes them.

use std::str::FromStr;

use secrecy::SecretString;

/// The reason why a text is not the credentials of a registry. The text is left out, because it
/// contains a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not USER:PASSWORD@HOST or USER:PASSWORD@HOST:PORT")]
pub struct RegistryKeyError;

/// User and password for one registry: `USER:PASSWORD@HOST`.
#[derive(Clone, Debug)]
pub struct RegistryKey {
    /// The host of the registry, with a port if it has one.
    pub registry: String,
    /// The name of the user.
    pub user: String,
    /// The password, or a token that the registry accepts in its place.
    pub password: SecretString,
}

impl FromStr for RegistryKey {
    type Err = RegistryKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A password may contain `@` and `:`.
        let (login, registry) = text.trim().rsplit_once('@').ok_or(RegistryKeyError)?;
        let (user, password) = login.split_once(':').ok_or(RegistryKeyError)?;
        let is_empty = [registry, user, password].iter().any(|part| part.is_empty());
        if is_empty || registry.contains(['/', ' ']) {
            return Err(RegistryKeyError);
        }
        Ok(Self {
            registry: registry.to_owned(),
            user: user.to_owned(),
            password: SecretString::from(password),
        })
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn a_password_may_contain_any_sign() {
        let key: RegistryKey = "ci:a@b:c@registry.example:5000".parse().expect("valid");
        assert_eq!(
            (key.user.as_str(), key.password.expose_secret(), key.registry.as_str()),
            ("ci", "a@b:c", "registry.example:5000")
        );
        for text in ["", "token", "ci@registry.example", "ci:pw@", ":pw@r", "ci:@r", "ci:pw@r/n"] {
            assert_eq!(text.parse::<RegistryKey>().expect_err(text), RegistryKeyError);
        }
    }
}
