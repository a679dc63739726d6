//! Parses server-sent events from lines, according to the WHATWG HTML standard, 9.2.6 "Interpreting
//! an event stream".
//!
//! Pure. Its input consists of the lines of [`LineSplitter`](crate::lines), not of bytes.

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The field `event`, if the stream names one.
    pub name: Option<String>,
    /// The latest `id` of the stream.
    pub id: Option<String>,
    /// The lines of `data`, joined with newlines.
    pub data: String,
}

/// Collects the lines of an event.
#[derive(Debug, Default)]
pub struct SseParser {
    name: Option<String>,
    id: Option<String>,
    data: Option<String>,
}

impl SseParser {
    /// Adds a line without its terminator. Returns an event if that completes one.
    pub fn push_line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let (name, data) = (self.name.take(), self.data.take());
            // An id stays in force until the next one. An event without data is ignored.
            return data.map(|data| SseEvent { name, id: self.id.clone(), data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => self.name = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // Comments, `retry` and unknown fields are ignored.
            _ => {}
        }
        None
    }

    /// Returns the size, in bytes, of the event that is not complete yet.
    pub fn pending_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, String::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(text: &str) -> Vec<SseEvent> {
        let mut frames = SseParser::default();
        text.lines().filter_map(|line| frames.push_line(line)).collect()
    }

    fn frame(name: Option<&str>, id: Option<&str>, data: &str) -> SseEvent {
        SseEvent { name: name.map(str::to_owned), id: id.map(str::to_owned), data: data.to_owned() }
    }

    #[test]
    fn the_examples_of_the_standard_are_parsed_correctly() {
        assert_eq!(
            frames("data: YHOO\ndata: +2\ndata: 10\n\n"),
            [frame(None, None, "YHOO\n+2\n10")]
        );
        assert_eq!(
            frames(
                ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"
            ),
            [
                frame(None, Some("1"), "first event"),
                frame(None, Some(""), "second event"),
                frame(None, Some(""), " third event")
            ]
        );
        assert_eq!(
            frames("data\n\ndata\ndata\n\ndata:"),
            [frame(None, None, ""), frame(None, None, "\n")]
        );
        assert_eq!(
            frames("event: add\ndata: 73857293\n\nevent: gone\n\ndata: x\n\n"),
            [frame(Some("add"), None, "73857293"), frame(None, None, "x")]
        );
    }

    #[test]
    fn an_incomplete_event_is_not_returned() {
        assert_eq!(frames("data: half"), []);
        assert_eq!(frames(": heartbeat\n\n:\n\nretry: 5\n\n"), []);
    }
}
