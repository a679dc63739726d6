//! What people may see of an agent's events while they come: no secrets, also when one is said in pieces.
//!
//! The end of a text that may be the beginning of a secret is held back until more of the text tells what it is. Pinned
//! by the tests below and by `tests/gateway/terminal.rs`.

use crate::agent::{EventKind, Text, ToolOutput};
use crate::redact::Redactor;

/// Stands between one turn's events and its reply.
pub(super) struct Veil<'a> {
    redactor: &'a Redactor,
    /// More of a part, held back.
    held: Option<Text>,
}

impl<'a> Veil<'a> {
    pub(super) fn new(redactor: &'a Redactor) -> Self {
        Self { redactor, held: None }
    }

    /// Shows what may be seen of an event, and before it what was held back and is none of a secret.
    pub(super) fn pass(&mut self, event: &EventKind, mut show: impl FnMut(&EventKind)) {
        match event {
            EventKind::Text(text) => self.text(text, show),
            EventKind::ToolStart(start) => {
                self.lift(&mut show);
                let mut start = start.clone();
                start.title = self.redactor.clean(start.title);
                start.target = start.target.map(|target| self.redactor.clean(target));
                show(&EventKind::ToolStart(start));
            }
            EventKind::ToolOutput(output) => {
                let text = self.redactor.clean(output.text.clone());
                show(&EventKind::ToolOutput(ToolOutput { text, ..output.clone() }));
            }
            EventKind::Notice(notice) => show(&EventKind::Notice(self.redactor.clean(notice.clone()))),
            other => show(other),
        }
    }

    /// Shows what is held back: nothing more comes.
    pub(super) fn lift(&mut self, mut show: impl FnMut(&EventKind)) {
        if let Some(held) = self.held.take() {
            show(&EventKind::Text(held));
        }
    }

    fn text(&mut self, text: &Text, mut show: impl FnMut(&EventKind)) {
        let (part, replace) = (text.part, text.replace);
        if self.held.as_ref().is_some_and(|held| held.part != part) {
            self.lift(&mut show);
        }
        let mut whole = match self.held.take() {
            Some(held) if !replace => held.text + &text.text,
            // The whole part again holds what was held back.
            _ => text.text.clone(),
        };
        whole = self.redactor.clean(whole);
        let held = whole.split_off(whole.len() - self.redactor.unfinished(&whole));
        if !whole.is_empty() || held.is_empty() {
            show(&EventKind::Text(Text { part, text: whole, replace }));
        } else if replace {
            // Withdrawn until it is known what comes in its place.
            show(&EventKind::Text(Text { part, text: String::new(), replace }));
        }
        self.held = (!held.is_empty()).then_some(Text { part, text: held, replace: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Transcript;

    const SECRET: &str = "sk-canary-secret";

    /// What a reader had on the screen after each event, and at the end.
    fn screens(events: &[EventKind]) -> Vec<String> {
        let redactor = Redactor::new(&[SECRET.to_owned().into()]);
        let mut veil = Veil::new(&redactor);
        let mut seen = Transcript::default();
        let mut screens = Vec::new();
        for event in events {
            veil.pass(event, |event| seen.apply(event));
            screens.push(seen.text());
        }
        veil.lift(|event| seen.apply(event));
        screens.push(seen.text());
        screens
    }

    fn more(part: u32, text: &str) -> EventKind {
        EventKind::Text(Text { part, text: text.to_owned(), replace: false })
    }

    fn whole(text: &str) -> EventKind {
        EventKind::Text(Text { part: 0, text: text.to_owned(), replace: true })
    }

    #[test]
    fn no_cut_of_a_text_shows_more_than_the_whole_without_secrets() {
        let said = format!("The key is {SECRET}, or sk-can, or {SECRET}");
        let clean = "The key is ***, or sk-can, or ***";
        for size in 1..said.len() {
            let pieces: Vec<String> = said.as_bytes().chunks(size).map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect();
            let screens_of_pieces = screens(&pieces.iter().map(|piece| more(0, piece)).collect::<Vec<_>>());
            assert!(screens_of_pieces.iter().all(|screen| clean.starts_with(screen.as_str())), "{screens_of_pieces:#?}");
            assert_eq!(screens_of_pieces.last().unwrap(), clean);
            let growing: Vec<EventKind> = (1..=pieces.len()).map(|count| whole(&pieces[..count].concat())).collect();
            let screens_of_growing = screens(&growing);
            assert!(screens_of_growing.iter().all(|screen| clean.starts_with(screen.as_str())), "{screens_of_growing:#?}");
            assert_eq!(screens_of_growing.last().unwrap(), clean);
        }
    }

    #[test]
    fn what_turns_out_to_be_no_secret_is_shown() {
        assert_eq!(screens(&[more(0, "ask"), more(0, " me")]), ["a", "ask me", "ask me"]);
        assert_eq!(screens(&[more(0, "desk"), more(1, "top")])[1], "desk\n\ntop");
        assert_eq!(screens(&[more(0, "at the end: sk-")]), ["at the end: ", "at the end: sk-"]);
        assert_eq!(screens(&[whole("gone"), whole("")]), ["gone", "", ""]);
    }
}
