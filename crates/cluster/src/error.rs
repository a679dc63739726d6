//! The errors of cluster operations.

/// Part of rustls's error message for an untrusted certificate.
const UNTRUSTED: &str = "invalid peer certificate";
/// SQLSTATE that the database functions raise for a process whose lease was taken over.
const LOST: &str = "AE001";
/// Classes of SQLSTATE about the values of a statement: cardinality, data exceptions, integrity
/// constraints, and limits of the server (PostgreSQL 18, appendix A). All other errors may pass:
/// lost connections, a read-only server, a full disk, and also a changed password or revoked
/// rights, because an operator can restore them while this node runs.
const VALUE_CLASSES: [&str; 4] = ["21", "22", "23", "54"];

/// The error of a cluster operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The database cannot be reached, does not answer, or refuses this node or its writes for now.
    /// Another attempt may succeed. It is unknown whether the operation took effect.
    #[error("the database of the cluster cannot be reached or refuses this node: {0}")]
    Away(String),
    /// The database refuses this operation because of its values, or the node cannot join the
    /// cluster. Repeating it does not help.
    #[error("the database of the cluster cannot be used: {0}")]
    Refused(String),
    /// The server's certificate is not trusted. Only the first connection of a command or of a node
    /// returns this; a running node gets [`ClusterError::Away`].
    #[error(
        "the certificate of the database's server is not trusted: {0}; hint: name its authority in `SSL_CERT_FILE`, and its host in `CLUSTER_URL` as the certificate does"
    )]
    Untrusted(String),
    /// This process has left the cluster, another process took over its lanes, or another node is
    /// the leader.
    #[error("this node was replaced or has left the cluster")]
    Fenced,
}

/// The reason why `CLUSTER_URL` cannot be used. The texts never contain the URL itself, which has a
/// password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The URL cannot be parsed.
    #[error(
        "CLUSTER_URL is not the URL of a PostgreSQL database; write postgres://USER:PASSWORD@HOST/DATABASE"
    )]
    Invalid,
    /// The URL names no host.
    #[error("CLUSTER_URL has no host; write postgres://USER:PASSWORD@HOST/DATABASE")]
    NoHost,
    /// This machine has no certificates with which to check that of the server.
    #[error(
        "CLUSTER_URL needs the CA certificates of this machine, which are missing; install ca-certificates, or name a file in `SSL_CERT_FILE`"
    )]
    NoCertificates,
}

impl From<UrlError> for ClusterError {
    fn from(error: UrlError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl ClusterError {
    /// Converts the error for the first connection: distinguishes an untrusted certificate.
    pub(super) fn on_first_connect(self) -> Self {
        match self {
            Self::Away(why) if why.contains(UNTRUSTED) => Self::Untrusted(why),
            error => error,
        }
    }

    pub(super) fn of(error: &tokio_postgres::Error) -> Self {
        let why = aetheel_model::plain::with_causes(error);
        match error.code().map(tokio_postgres::error::SqlState::code) {
            Some(LOST) => Self::Fenced,
            Some(code) if VALUE_CLASSES.iter().any(|class| code.starts_with(class)) => {
                Self::Refused(why)
            }
            _ => Self::Away(why),
        }
    }
}
