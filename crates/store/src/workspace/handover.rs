//! What the state files of one machine say about lanes that another one gets.

use super::{BindingsError, Workspace};
use aetheel_model::event::{Lane, Lanes};

const SESSIONS: &str = "sessions.md";
const HISTORY: &str = "history.md";

impl Workspace {
    /// What the state files say about some lanes: each file with its lines. `discord.md` is not
    /// among them.
    pub async fn give(&self, lanes: Lanes) -> Vec<(String, String)> {
        let sessions = self.bindings.lines_of(lanes.clone()).await;
        let history = self.history.lines_of(lanes).await;
        vec![(SESSIONS.to_owned(), sessions), (HISTORY.to_owned(), history)]
    }

    /// Forgets what [`Workspace::give`] told of some lanes: another machine has them.
    ///
    /// # Errors
    /// [`BindingsError::File`]; it can be done again.
    pub async fn given(&self, lanes: Lanes) -> Result<(), BindingsError> {
        self.bindings.forget_all(lanes.clone()).await?;
        Ok(self.history.forget_all(lanes).await?)
    }

    /// The lanes that the state files say something about.
    pub async fn lanes(&self) -> Vec<Lane> {
        let mut lanes = self.bindings.lanes().await;
        lanes.extend(self.history.lanes().await);
        lanes.sort();
        lanes.dedup();
        lanes
    }

    /// Takes over what the state files of another machine say, whole files or some lines of them.
    /// What is known here stays; files of other names are left out. The sessions are on that machine:
    /// [`super::Binding::moved`] says that there was one. Done again it changes nothing.
    ///
    /// # Errors
    /// [`BindingsError::File`]; it can be done again.
    pub async fn absorb(&self, files: &[(String, String)]) -> Result<(), BindingsError> {
        for (name, lines) in files {
            match name.as_str() {
                SESSIONS => self.bindings.absorb(lines).await?,
                HISTORY => self.history.absorb(lines).await?,
                _ => {}
            }
        }
        Ok(())
    }
}
