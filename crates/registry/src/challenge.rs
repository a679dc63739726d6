//! The answer of a registry that wants to know who asks: `WWW-Authenticate`. Pure.

/// How a registry wants a client to sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// With user and password in each request.
    Basic,
    /// With a token of another service.
    Bearer {
        /// The address of that service.
        realm: String,
        /// The name by which it knows the registry.
        service: Option<String>,
    },
}

impl Challenge {
    /// Parses a header. Returns `None` if it has neither of the two schemes.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let value = |wanted: &str| {
            parameters_of(parameters)
                .into_iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value)
        };
        Some(Self::Bearer { realm: value("realm")?, service: value("service") })
    }
}

/// Splits `a="b",c=d`. A comma within quotes does not separate parameters.
fn parameters_of(text: &str) -> Vec<(String, String)> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',']).to_owned();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.push((name, value.trim().to_owned()));
        rest = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_schemes_are_read_and_others_are_not() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
        };
        for (header, wanted) in [
            ("Basic realm=\"Registry\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://auth.example/token\",service=\"r\",scope=\"repository:a:pull,push\"",
                bearer("https://auth.example/token", Some("r")),
            ),
            (
                "bearer scope=\"a,b\", Realm=https://auth.example",
                bearer("https://auth.example", None),
            ),
            ("Bearer service=\"r\"", None),
            ("Negotiate", None),
            ("", None),
        ] {
            assert_eq!(Challenge::parse(header), wanted, "{header}");
        }
    }
}
