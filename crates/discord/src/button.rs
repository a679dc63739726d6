//! Buttons and menus, and what their ids stand for.
//!
//! An id is all that comes back when a person presses a button, perhaps after a restart and on
//! another node, so it contains the whole choice. Ids of messages that exist stay readable.

use std::fmt;

use serde_json::{Value, json};

use aetheel_dispatch::Setting;
use aetheel_model::plain::short_line;

/// Discord's maximum number of characters of a label.
const MAX_LABEL_CHARS: usize = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Button<'a> {
    /// A choice in the question with this id.
    Ask(&'a str, AskChoice),
    /// The offer with this id.
    Offer(&'a str),
    /// Stops the turn of an event. People who may use `/stop` in the channel may press it.
    Stop(u64),
    /// A value of a setting. The menu of a setting has no value in its id.
    Setting(Setting, Option<&'a str>),
    LaterTurns(usize),
    /// Removes the later turn with this id from the list, which stays on its page.
    RemoveLaterTurn(usize, &'a str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskChoice {
    Allow,
    Always,
    Deny,
    DenyWithReason,
    Stop,
    /// Allow, with a changed input.
    Change,
    /// An option that the agent itself offers.
    AgentOption(usize),
    /// Skip a question of the list, which is optional.
    Skip(usize),
    /// An option of a question of the list.
    Option(usize, usize),
    /// Options of a question's menu.
    Menu(usize),
    /// A written answer to a question of the list.
    Write(usize),
}

impl fmt::Display for Button<'_> {
    /// Writes the id of the button, at most 100 characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask(question, choice) => write!(f, "ask:{question}:{choice}"),
            Self::Offer(id) => write!(f, "again:{id}"),
            Self::Stop(event) => write!(f, "stop:{event}"),
            Self::Setting(setting, None) => write!(f, "set:{}", setting.argument()),
            Self::Setting(setting, Some(value)) => write!(f, "set:{}:{value}", setting.argument()),
            Self::LaterTurns(page) => write!(f, "later:show:{page}"),
            Self::RemoveLaterTurn(page, id) => write!(f, "later:remove:{page}:{id}"),
        }
    }
}

impl fmt::Display for AskChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("allow"),
            Self::Always => f.write_str("always"),
            Self::Deny => f.write_str("deny"),
            Self::DenyWithReason => f.write_str("why"),
            Self::Stop => f.write_str("stop"),
            Self::Change => f.write_str("change"),
            Self::AgentOption(at) => write!(f, "a{at}"),
            Self::Skip(step) => write!(f, "s{step}"),
            Self::Option(step, at) => write!(f, "o{step}.{at}"),
            Self::Menu(step) => write!(f, "m{step}"),
            Self::Write(step) => write!(f, "w{step}"),
        }
    }
}

impl<'a> Button<'a> {
    /// Parses the id of a button or menu. Returns `None` if this version does not know it.
    pub(crate) fn read(id: &'a str) -> Option<Self> {
        let (kind, rest) = id.split_once(':')?;
        match kind {
            "ask" => {
                let (question, choice) = rest.split_once(':')?;
                Some(Self::Ask(question, AskChoice::read(choice)?))
            }
            "again" => Some(Self::Offer(rest)),
            "stop" => Some(Self::Stop(rest.parse().ok()?)),
            "set" => {
                let (name, value) =
                    rest.split_once(':').map_or((rest, None), |(name, value)| (name, Some(value)));
                let mut settings = Setting::ALL.into_iter();
                let setting = settings.find(|setting| setting.argument() == name)?;
                Some(Self::Setting(setting, value))
            }
            "later" => match rest.split_once(':')? {
                ("show", page) => Some(Self::LaterTurns(page.parse().ok()?)),
                ("remove", rest) => {
                    let (page, id) = rest.split_once(':')?;
                    Some(Self::RemoveLaterTurn(page.parse().ok()?, id))
                }
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn show(&self, label: &str, style: ButtonStyle) -> Value {
        let label = short_line(label, MAX_LABEL_CHARS);
        json!({"type": 2, "style": style as u8, "label": label, "custom_id": self.to_string()})
    }
}

impl AskChoice {
    fn read(choice: &str) -> Option<Self> {
        let known =
            [Self::Allow, Self::Always, Self::Deny, Self::DenyWithReason, Self::Stop, Self::Change];
        if let Some(choice) = known.into_iter().find(|known| known.to_string() == choice) {
            return Some(choice);
        }
        let (kind, numbers) = choice.split_at_checked(1)?;
        if kind == "o" {
            let (step, at) = numbers.split_once('.')?;
            return Some(Self::Option(step.parse().ok()?, at.parse().ok()?));
        }
        let number = numbers.parse().ok()?;
        match kind {
            "a" => Some(Self::AgentOption(number)),
            "s" => Some(Self::Skip(number)),
            "m" => Some(Self::Menu(number)),
            "w" => Some(Self::Write(number)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ButtonStyle {
    Blue = 1,
    Grey = 2,
    Green = 3,
    Red = 4,
}

/// Returns a row of buttons or menus.
pub(crate) fn row(components: Vec<Value>) -> Value {
    json!({"type": 1, "components": components})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_read_from_the_id_that_messages_contain() {
        let ask = |choice| Button::Ask("0a1b", choice);
        for (id, button) in [
            ("ask:0a1b:allow", ask(AskChoice::Allow)),
            ("ask:0a1b:always", ask(AskChoice::Always)),
            ("ask:0a1b:deny", ask(AskChoice::Deny)),
            ("ask:0a1b:why", ask(AskChoice::DenyWithReason)),
            ("ask:0a1b:stop", ask(AskChoice::Stop)),
            ("ask:0a1b:change", ask(AskChoice::Change)),
            ("ask:0a1b:a3", ask(AskChoice::AgentOption(3))),
            ("ask:0a1b:s1", ask(AskChoice::Skip(1))),
            ("ask:0a1b:o3.24", ask(AskChoice::Option(3, 24))),
            ("ask:0a1b:m0", ask(AskChoice::Menu(0))),
            ("ask:0a1b:w12", ask(AskChoice::Write(12))),
            ("again:bu-7:2", Button::Offer("bu-7:2")),
            ("stop:7", Button::Stop(7)),
            ("set:thinking", Button::Setting(Setting::Effort, None)),
            ("set:thinking:on", Button::Setting(Setting::Effort, Some("on"))),
            ("set:model:a:b", Button::Setting(Setting::Model, Some("a:b"))),
            ("later:show:3", Button::LaterTurns(3)),
            ("later:remove:0:0a1b2c3d4e", Button::RemoveLaterTurn(0, "0a1b2c3d4e")),
        ] {
            assert_eq!(Button::read(id), Some(button));
            assert_eq!(button.to_string(), id);
        }
        for setting in Setting::ALL {
            let id = Button::Setting(setting, None).to_string();
            assert_eq!(Button::read(&id), Some(Button::Setting(setting, None)));
        }
    }

    #[test]
    fn other_ids_are_refused() {
        for other in [
            "",
            "ask:",
            "ask:x",
            "ask:x:",
            "ask:x:o1",
            "ask:x:o1.",
            "ask:x:m",
            "ask:x:mm",
            "ask:x:é",
            "page:2:allow",
            "stop:",
            "stop:x",
            "set:",
            "set:colour",
            "settings:model",
            "later:",
            "later:show:",
            "later:show:x",
            "later:remove:a",
            "later:remove:1",
            "more",
        ] {
            assert_eq!(Button::read(other), None, "{other}");
        }
    }
}
