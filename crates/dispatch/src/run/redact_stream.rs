//! Cleans an agent's events while they arrive: removes secrets, and characters that move a cursor
//! or hide or reorder text, even if these are split over several events.
//!
//! The end of a text that may be the beginning of a secret is held back until more text arrives.
//! Tested by the tests below and by `tests/gateway/terminal.rs`.

use std::collections::HashMap;

use aetheel_model::agent::{AgentEventKind, TextEvent, TextForm, ToolOutput};
use aetheel_model::plain::{Cleaner, clean_text, one_line};
use aetheel_model::redact::Redactor;

/// Cleans the events of one turn.
pub(crate) struct StreamRedactor<'a> {
    redactor: &'a Redactor,
    /// The end of a text that is held back.
    held: Option<(GrowingText, TextEvent)>,
    /// The text that was extended last, its number, and the state of its terminal sequences.
    cleaner: (GrowingText, u32, Cleaner),
    /// The output of running tools, by id.
    outputs: HashMap<String, PartialOutput>,
}

/// The output of one tool, which arrives in pieces.
#[derive(Default)]
struct PartialOutput {
    cleaner: Cleaner,
    /// The end of the output that is held back.
    held: String,
}

/// The maximum number of tools whose output is tracked at the same time. The output of further
/// tools is not shown while they run.
const OUTPUT_LIMIT: usize = 200;

/// The text that an event extends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum GrowingText {
    #[default]
    Answer,
    Thinking,
}

impl GrowingText {
    fn event(self, text: TextEvent) -> AgentEventKind {
        match self {
            Self::Answer => AgentEventKind::Text(text),
            Self::Thinking => AgentEventKind::Thinking(text),
        }
    }
}

impl<'a> StreamRedactor<'a> {
    pub(crate) fn new(redactor: &'a Redactor) -> Self {
        Self { redactor, held: None, cleaner: Default::default(), outputs: HashMap::new() }
    }

    /// Cleans an event and passes it to `show`, after held-back text that turned out not to be a
    /// secret.
    pub(crate) fn pass(&mut self, event: &AgentEventKind, mut show: impl FnMut(&AgentEventKind)) {
        match event {
            // The text of a sub-agent does not extend the answer.
            AgentEventKind::Text(text) if text.parent.is_none() => {
                return self.text(GrowingText::Answer, text, show);
            }
            AgentEventKind::Thinking(text) if text.parent.is_none() => {
                return self.text(GrowingText::Thinking, text, show);
            }
            AgentEventKind::ToolOutput(output) => return self.output(output, show),
            AgentEventKind::ToolStart(_) => self.flush(&mut show),
            AgentEventKind::ToolEnd(end) => {
                let held = self.outputs.remove(&end.id).map(|output| output.held);
                if let Some(text) = held.filter(|held| !held.is_empty()) {
                    let (id, replace) = (end.id.clone(), false);
                    show(&AgentEventKind::ToolOutput(ToolOutput { id, text, replace }));
                }
            }
            _ => {}
        }
        let mut event = event.clone();
        event.for_each_text(&mut |form, text| match form {
            TextForm::Block => *text = self.redactor.redact(clean_text(text).into_owned()),
            TextForm::Line => *text = self.redactor.redact(one_line(text)),
            // Ids must still match. Other data is cleaned where it is shown.
            TextForm::Data => {}
        });
        show(&event);
    }

    /// Passes held-back text to `show`, because no more text arrives.
    pub(crate) fn flush(&mut self, mut show: impl FnMut(&AgentEventKind)) {
        if let Some((growing, held)) = self.held.take() {
            show(&growing.event(held));
        }
    }

    fn output(&mut self, output: &ToolOutput, mut show: impl FnMut(&AgentEventKind)) {
        let known = self.outputs.contains_key(&output.id);
        if !known && self.outputs.len() >= OUTPUT_LIMIT {
            return;
        }
        let growing = self.outputs.entry(output.id.clone()).or_default();
        if output.replace {
            *growing = Default::default();
        }
        let mut whole = std::mem::take(&mut growing.held);
        whole.push_str(&growing.cleaner.clean(&output.text));
        whole = self.redactor.redact(whole);
        growing.held = whole.split_off(whole.len() - self.redactor.partial_secret_bytes(&whole));
        if output.replace || !whole.is_empty() {
            let (id, replace) = (output.id.clone(), output.replace);
            show(&AgentEventKind::ToolOutput(ToolOutput { id, text: whole, replace }));
        }
    }

    fn text(
        &mut self,
        growing: GrowingText,
        text: &TextEvent,
        mut show: impl FnMut(&AgentEventKind),
    ) {
        let (part, replace) = (text.part, text.replace);
        if self.held.as_ref().is_some_and(|(of, held)| (*of, held.part) != (growing, part)) {
            self.flush(&mut show);
        }
        if replace || (self.cleaner.0, self.cleaner.1) != (growing, part) {
            self.cleaner = (growing, part, Cleaner::default());
        }
        let clean = self.cleaner.2.clean(&text.text);
        let mut whole = match self.held.take() {
            Some((_, held)) if !replace => held.text + &clean,
            // A replacement contains the held-back text.
            _ => clean.into_owned(),
        };
        whole = self.redactor.redact(whole);
        let held = whole.split_off(whole.len() - self.redactor.partial_secret_bytes(&whole));
        let of_part = |text, replace| TextEvent { part, text, replace, parent: None };
        // The text may be empty: it replaces the previous one, and its visible part is not known
        // yet.
        if !whole.is_empty() || held.is_empty() || replace {
            show(&growing.event(of_part(whole, replace)));
        }
        self.held = (!held.is_empty()).then(|| (growing, of_part(held, false)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::{
        AgentFailure, Artifact, ArtifactBody, FileDiff, PlanEntry, ToolEnd,
    };
    use aetheel_model::fold::Transcript;

    const SECRET: &str = "sk-canary-secret";

    /// Returns the visible text after each event and at the end.
    fn screens(events: &[AgentEventKind]) -> Vec<String> {
        let redactor = Redactor::new(&[SECRET.to_owned().into()]);
        let mut stream = StreamRedactor::new(&redactor);
        let mut seen = Transcript::default();
        let mut screens = Vec::new();
        for event in events {
            stream.pass(event, |event| seen.apply(event));
            screens.push(seen.text());
        }
        stream.flush(|event| seen.apply(event));
        screens.push(seen.text());
        screens
    }

    /// Returns the visible thoughts at the end.
    fn thoughts(events: &[AgentEventKind]) -> String {
        let redactor = Redactor::new(&[SECRET.to_owned().into()]);
        let (mut stream, mut seen) = (StreamRedactor::new(&redactor), Transcript::default());
        for event in events {
            stream.pass(event, |event| seen.apply(event));
            assert!(!seen.thinking().contains("sk-canary-"), "{}", seen.thinking());
        }
        stream.flush(|event| seen.apply(event));
        seen.thinking()
    }

    #[test]
    fn a_thought_in_pieces_shows_no_secret() {
        let said = format!("The key is {SECRET}, or sk-can, or {SECRET}");
        for size in 1..said.len() {
            let piece = |piece: &[u8]| String::from_utf8(piece.to_vec()).unwrap();
            let pieces = said.as_bytes().chunks(size).map(|bytes| {
                let text = piece(bytes);
                AgentEventKind::Thinking(TextEvent { part: 0, text, replace: false, parent: None })
            });
            let pieces: Vec<_> = pieces.collect();
            assert_eq!(thoughts(&pieces), "The key is ***, or sk-can, or ***");
        }
    }

    #[test]
    fn tool_output_in_pieces_shows_no_secret() {
        let redactor = Redactor::new(&[SECRET.to_owned().into()]);
        let said = format!("key={SECRET}\n\u{1b}[31mred\u{1b}[0m sk-can\n{SECRET}");
        let end = |id: &str| {
            AgentEventKind::ToolEnd(ToolEnd {
                id: id.to_owned(),
                status: aetheel_model::agent::ToolStatus::Ok,
                output: None,
                exit_code: None,
                diffs: Vec::new(),
            })
        };
        for size in 1..said.len() {
            let (mut stream, mut seen) = (StreamRedactor::new(&redactor), HashMap::new());
            let mut show = |event: &AgentEventKind| {
                if let AgentEventKind::ToolOutput(output) = event {
                    seen.entry(output.id.clone())
                        .or_insert_with(String::new)
                        .push_str(&output.text);
                }
            };
            let pieces = said.as_bytes().chunks(size);
            for text in pieces.map(|piece| String::from_utf8(piece.to_vec()).unwrap()) {
                // Two tools run at the same time.
                for id in ["a", "b"] {
                    let (id, text) = (id.to_owned(), text.clone());
                    stream.pass(
                        &AgentEventKind::ToolOutput(ToolOutput { id, text, replace: false }),
                        &mut show,
                    );
                }
            }
            stream.pass(&end("a"), &mut show);
            stream.pass(&end("b"), &mut show);
            for id in ["a", "b"] {
                assert_eq!(seen[id], "key=***\nred sk-can\n***", "in pieces of {size}");
            }
        }
    }

    #[test]
    fn output_that_replaces_the_earlier_one_shows_no_secret() {
        let redactor = Redactor::new(&[SECRET.to_owned().into()]);
        let (mut stream, mut seen) = (StreamRedactor::new(&redactor), String::new());
        let mut show = |event: &AgentEventKind| {
            if let AgentEventKind::ToolOutput(output) = event {
                if output.replace {
                    seen.clear();
                }
                seen.push_str(&output.text);
            }
        };
        let whole = format!("one\n{SECRET}\ntwo\n");
        for end in 1..=whole.len() {
            let text = whole[..end].to_owned();
            let output = ToolOutput { id: "t".into(), text, replace: true };
            stream.pass(&AgentEventKind::ToolOutput(output), &mut show);
        }
        let more = ToolOutput { id: "t".into(), text: "three".into(), replace: false };
        stream.pass(&AgentEventKind::ToolOutput(more), &mut show);
        assert_eq!(seen, "one\n***\ntwo\nthree");
    }

    #[test]
    fn a_thought_and_the_answer_are_separate_texts() {
        let (first, rest) = SECRET.split_at(5);
        let thought = TextEvent { part: 0, text: first.to_owned(), replace: false, parent: None };
        let events = [AgentEventKind::Thinking(thought), more(0, rest)];
        assert_eq!(screens(&events).last().unwrap(), rest);
        assert_eq!(thoughts(&events), first);
    }

    fn more(part: u32, text: &str) -> AgentEventKind {
        AgentEventKind::Text(TextEvent {
            part,
            text: text.to_owned(),
            replace: false,
            parent: None,
        })
    }

    fn whole(text: &str) -> AgentEventKind {
        AgentEventKind::Text(TextEvent {
            part: 0,
            text: text.to_owned(),
            replace: true,
            parent: None,
        })
    }

    #[test]
    fn a_text_in_any_pieces_shows_no_secret() {
        let said = format!("The key is {SECRET}, or sk-can, or {SECRET}");
        let clean = "The key is ***, or sk-can, or ***";
        for size in 1..said.len() {
            let pieces: Vec<String> = said
                .as_bytes()
                .chunks(size)
                .map(|piece| String::from_utf8(piece.to_vec()).unwrap())
                .collect();
            let screens_of_pieces =
                screens(&pieces.iter().map(|piece| more(0, piece)).collect::<Vec<_>>());
            assert!(
                screens_of_pieces.iter().all(|screen| clean.starts_with(screen.as_str())),
                "{screens_of_pieces:#?}"
            );
            assert_eq!(screens_of_pieces.last().unwrap(), clean);
            let growing: Vec<AgentEventKind> =
                (1..=pieces.len()).map(|count| whole(&pieces[..count].concat())).collect();
            let screens_of_growing = screens(&growing);
            assert!(
                screens_of_growing.iter().all(|screen| clean.starts_with(screen.as_str())),
                "{screens_of_growing:#?}"
            );
            assert_eq!(screens_of_growing.last().unwrap(), clean);
        }
    }

    #[test]
    fn a_text_in_any_pieces_shows_no_terminal_sequence() {
        let said = "a\u{1b}]52;c;Y29weQ==\u{7}b\u{1b}[31mc\u{202e}d\0e\u{9b}2Kf\u{1b}]8;;https://x\u{1b}\\g";
        for size in 1..said.len() {
            let mut pieces = Vec::new();
            let mut rest = said;
            while !rest.is_empty() {
                let cut = rest.ceil_char_boundary(size);
                pieces.push(more(0, &rest[..cut]));
                rest = &rest[cut..];
            }
            assert_eq!(screens(&pieces).last().unwrap(), "abcdefg", "in pieces of {size}");
        }
        assert_eq!(
            screens(&[whole("a\u{1b}["), whole("31m")]).last().unwrap(),
            "31m",
            "a new text starts outside of a sequence"
        );
    }

    #[test]
    fn all_texts_of_an_agent_are_plain_and_names_are_one_line() {
        let redactor = Redactor::new(&[SECRET.to_owned().into()]);
        let odd = format!("a\n\u{1b}]0;x\u{7}b\0\u{2067}\u{85}c{SECRET}");
        let start = aetheel_model::agent::ToolStart {
            id: "t".into(),
            parent: None,
            kind: "bash".into(),
            native_name: odd.clone(),
            title: odd.clone(),
            target: Some(odd.clone()),
            input: "{}".into(),
        };
        let failure = AgentFailure {
            kind: aetheel_model::agent::FailureKind::Other,
            message: odd.clone(),
            retry_after_ms: None,
        };
        let end = ToolEnd {
            id: "t".into(),
            status: aetheel_model::agent::ToolStatus::Ok,
            output: Some(odd.clone()),
            exit_code: None,
            diffs: vec![],
        };
        let events = [
            AgentEventKind::ToolStart(start),
            AgentEventKind::ToolEnd(end),
            AgentEventKind::ToolOutput(ToolOutput {
                id: "t".into(),
                text: odd.clone(),
                replace: false,
            }),
            AgentEventKind::Thinking(TextEvent {
                part: 0,
                text: odd.clone(),
                replace: false,
                parent: None,
            }),
            AgentEventKind::Plan(vec![PlanEntry {
                text: odd.clone(),
                status: aetheel_model::agent::PlanStatus::Active,
            }]),
            AgentEventKind::Retry(failure),
            AgentEventKind::Notice(odd.clone().into()),
            AgentEventKind::Mode(odd.clone()),
            AgentEventKind::Title(odd.clone()),
        ];
        for event in events {
            let mut shown = Vec::new();
            StreamRedactor::new(&redactor).pass(&event, |event| shown.push(format!("{event:?}")));
            let shown = shown.concat();
            // The texts are in the format of `Debug`. Multi-line texts keep their line breaks.
            assert!(
                !shown.contains("\\u{") && !shown.contains("\\0") && !shown.contains(SECRET),
                "{shown}"
            );
            assert!(shown.contains("a bc***") || shown.contains("a\\nbc***"), "{shown}");
            if let AgentEventKind::ToolStart(_) = event {
                assert!(shown.contains("native_name: \"a bc***\", title: \"a bc***\""), "{shown}");
            }
        }
    }

    #[test]
    fn ids_inputs_files_and_samples_pass_unchanged() {
        let redactor = Redactor::new(&[SECRET.to_owned().into()]);
        let data = format!("a\n{SECRET}");
        let artifact = Artifact {
            name: None,
            media_type: "image/png".into(),
            body: ArtifactBody::Base64(data.clone()),
            tool: Some(data.clone()),
        };
        let events = [
            AgentEventKind::ToolStart(aetheel_model::agent::ToolStart {
                id: data.clone(),
                parent: Some(data.clone()),
                kind: data.clone(),
                native_name: "x".into(),
                title: "x".into(),
                target: None,
                input: data.clone(),
            }),
            AgentEventKind::ToolEnd(ToolEnd {
                id: data.clone(),
                status: aetheel_model::agent::ToolStatus::Ok,
                output: None,
                exit_code: None,
                diffs: vec![FileDiff { path: data.clone(), ..FileDiff::default() }],
            }),
            AgentEventKind::Artifact(artifact),
            AgentEventKind::Unrecognised(aetheel_model::agent::Unrecognised {
                what: data.clone(),
                path: Some(data.clone()),
                sample: data.clone(),
                ..aetheel_model::agent::Unrecognised::default()
            }),
            AgentEventKind::Raw(data.clone()),
        ];
        for event in events {
            let mut shown = Vec::new();
            StreamRedactor::new(&redactor).pass(&event, |event| shown.push(event.clone()));
            assert_eq!(shown, [event]);
        }
    }

    #[test]
    fn held_back_text_is_shown_once_it_is_not_a_secret() {
        assert_eq!(screens(&[more(0, "ask"), more(0, " me")]), ["a", "ask me", "ask me"]);
        assert_eq!(screens(&[more(0, "desk"), more(1, "top")])[1], "desk\n\ntop");
        assert_eq!(screens(&[more(0, "at the end: sk-")]), ["at the end: ", "at the end: sk-"]);
        assert_eq!(screens(&[whole("gone"), whole("")]), ["gone", "", ""]);
    }
}
