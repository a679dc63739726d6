//! One message of an answer, and its buttons.

use serde_json::{Value, json};

use crate::button::{Button, ButtonStyle, row};

/// Label of the disabled button below a message while the next one does not exist.
const MORE: &str = "⏳ The rest follows";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotButtons {
    /// The buttons are not known, for example because a previous process set them.
    Unknown,
    Nothing,
    /// A disabled button that says that the rest follows.
    More,
    Stop,
}

impl SlotButtons {
    /// Returns the buttons for Discord. `stop_event` is the event whose turn the stop button stops.
    pub(super) fn rows(self, stop_event: Option<u64>) -> Value {
        match (self, stop_event) {
            (Self::More, _) => {
                let button = json!({"type": 2, "style": 2, "label": MORE, "custom_id": "more", "disabled": true});
                json!([row(vec![button])])
            }
            (Self::Stop, Some(event)) => {
                let mut button = Button::Stop(event).show("Stop", ButtonStyle::Grey);
                button["emoji"] = json!({"name": "⏹️"});
                json!([row(vec![button])])
            }
            _ => json!([]),
        }
    }
}

#[derive(Debug)]
pub(super) struct AnswerSlot {
    pub(super) nonce: String,
    /// The id of the message. `None` if it does not exist, or is not known to exist.
    pub(super) id: Option<u64>,
    pub(super) shown: String,
    pub(super) buttons: SlotButtons,
    /// Whether the message was sent through a command, because the bot may not post. Such a message
    /// is never edited.
    pub(super) fixed: bool,
}

impl AnswerSlot {
    /// Returns whether the message already shows this text and these buttons.
    pub(super) fn shows(&self, piece: &str, below: SlotButtons) -> bool {
        self.fixed || (self.shown == piece && self.buttons == below)
    }
}
