//! The response to the press of a button.

use serde_json::Value;

#[derive(Debug)]
pub(super) enum PressResponse {
    /// Changes nothing, because the message will be edited soon.
    Accept,
    /// Changes the text and the buttons of the message.
    Show(String, Value),
    /// Changes the text of the message, removes its buttons, and shows a private text.
    Close(String, String),
    Window(Value),
    /// Shows a text that only the person who pressed can see.
    Private(String),
}
