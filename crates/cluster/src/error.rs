//! The errors of cluster operations.

/// Part of rustls's error message for an untrusted certificate.
const UNTRUSTED: &str = "invalid peer certificate";
/// SQLSTATE that the database functions raise for a process whose lease was taken over.
const LOST: &str = "AE001";

/// The error of a cluster operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The database cannot be reached, or does not answer. It is unknown whether the operation took
    /// effect.
    #[error("the database of the cluster cannot be reached: {0}")]
    Away(String),
    /// The database refuses the operation. Repeating it does not help.
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
            // Classes of SQLSTATE: connection failures, a read-only server, conflicts with other
            // transactions, lack of resources, and operator intervention (PostgreSQL 18, appendix
            // A).
            Some(code)
                if ["08", "25", "40", "53", "57", "58"]
                    .iter()
                    .any(|class| code.starts_with(class)) =>
            {
                Self::Away(why)
            }
            Some(_) => Self::Refused(why),
            None => Self::Away(why),
        }
    }
}
