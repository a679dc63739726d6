//! Telling the operator of components that wait for what they may do to be accepted. Pinned by `tests/gateway/capabilities.rs`.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;

use super::roster::Roster;
use crate::backend::{AdmissionError, LoadReport, Wants};
use crate::dispatch::{Notice, Outlet};

/// Follows what comes, for ever: those that wait already, then each one that is refused.
pub async fn follow(roster: Arc<Roster>, outlet: Arc<dyn Outlet>) {
    let mut news = roster.news();
    for (path, wants) in roster.waiting() {
        tell(&path, &wants, &*outlet).await;
    }
    loop {
        match news.recv().await {
            Ok(LoadReport::Refused { path, reason }) => {
                if let AdmissionError::Unaccepted(wants) = &*reason {
                    tell(&path, wants, &*outlet).await;
                }
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

async fn tell(path: &Path, wants: &Wants, outlet: &dyn Outlet) {
    let (name, file) = (&wants.descriptor.name, path.file_name().unwrap_or_default().display());
    let text: String = format!("`{file}` {wants}").chars().take(1_700).collect();
    let text = format!("{text}.\nUntil `aetheel backend approve {name}` nothing of it is started.");
    // Without a channel for it the log says it.
    let _ = outlet.notify(Notice { channel: None, about: None, text, offer: None }).await;
}
