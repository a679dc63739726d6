//! What was said in a lane whose session is on another machine: the agent begins anew, and is told.

use crate::Inner;
use aetheel_model::event::Event;
use aetheel_model::prompt::{self, Expansion};

impl Inner {
    /// The last messages before an event, quoted, without secrets; none: there are none, or they
    /// cannot be had now.
    pub(super) async fn recap(&self, event: &Event, expansion: &Expansion) -> Option<String> {
        let said = self.parts.outlet.recap(event).await;
        let said: Vec<(Option<String>, String)> = said
            .into_iter()
            .map(|said| (said.author, self.parts.redactor.clean(said.text)))
            .collect();
        let said: Vec<_> =
            said.iter().map(|(author, text)| (author.as_deref(), text.as_str())).collect();
        prompt::recap(&said, expansion)
    }
}
