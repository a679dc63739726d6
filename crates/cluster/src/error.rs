//! Why something in the database was not done.

/// Part of rustls's message about a certificate that it does not trust.
const UNTRUSTED: &str = "invalid peer certificate";
/// What functions of the database say to a process whose lease is over.
const LOST: &str = "AE001";

/// Why something in the database was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// It cannot be reached, or does not answer. Whether what was asked took effect is not known.
    #[error("the database of the cluster is away: {0}")]
    Away(String),
    /// It refuses, and will again.
    #[error("the database of the cluster cannot be used: {0}")]
    Refused(String),
    /// Its server's certificate is not trusted. Only those who connect for the first time are told:
    /// for a node that runs it is [`ClusterError::Away`].
    #[error(
        "the certificate of the database's server is not trusted: {0}; hint: name its authority in `SSL_CERT_FILE`, and its host in `CLUSTER_URL` as the certificate does"
    )]
    Untrusted(String),
    /// This process has left its place, or another one took over what it had, or has the seat.
    #[error("this node does not serve any more")]
    Fenced,
}

impl ClusterError {
    /// The error as somebody should see it who connects for the first time.
    pub(super) fn at_first(self) -> Self {
        match self {
            Self::Away(why) if why.contains(UNTRUSTED) => Self::Untrusted(why),
            error => error,
        }
    }

    pub(super) fn of(error: &tokio_postgres::Error) -> Self {
        let why = aetheel_model::plain::with_causes(error);
        match error.code().map(tokio_postgres::error::SqlState::code) {
            Some(LOST) => Self::Fenced,
            // Classes of SQLSTATE: connections, a server that is read-only, what is in the way of
            // another transaction, resources, and an operator's intervention (PostgreSQL 18,
            // appendix A).
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
