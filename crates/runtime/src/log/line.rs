//! Formats log lines: as one flat JSON object, or as text for people.
//!
//! The JSON object contains the fields of the event and of its spans at the top level, so that
//! `jq 'select(.turn == "1f0c9a2e")'` finds every line of a turn. If several have a field with the
//! same name, the value of the event or else of the innermost span is used.

use std::fmt;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, JsonFields, Writer};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::flood::{Flood, LineDecision};
use crate::figures;

/// Note on the last line before similar ones are omitted.
const LEFT_OUT: &str = "more lines like this are left out for up to a minute";

/// Limits the number of warnings from each position in the code.
#[derive(Debug, Default)]
struct WarningLimiter(Mutex<Flood<Identifier>>);

impl WarningLimiter {
    fn admit(&self, event: &Event<'_>) -> LineDecision {
        let metadata = event.metadata();
        // All lines of libraries that use `log` have the same callsite.
        if *metadata.level() != Level::WARN || metadata.target() == "log" {
            return LineDecision::Show;
        }
        let verdict = self.0.lock().admit(metadata.callsite(), Instant::now());
        if verdict == LineDecision::LeaveOut {
            figures::log_line_left_out();
        }
        verdict
    }
}

/// Writes lines in the standard format of `tracing` for terminals.
#[derive(Debug)]
pub(super) struct Human {
    format: Format<Full, SystemTime>,
    limiter: WarningLimiter,
}

impl Human {
    pub(super) fn new() -> Self {
        Self { format: Format::default().with_target(false), limiter: WarningLimiter::default() }
    }
}

impl<S, N> FormatEvent<S, N> for Human
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match self.limiter.admit(event) {
            LineDecision::LeaveOut => return Ok(()),
            LineDecision::Last => write!(writer, "({LEFT_OUT}) ")?,
            LineDecision::Show => {}
        }
        self.format.format_event(context, writer, event)
    }
}

/// Writes each line as one JSON object.
#[derive(Debug, Default)]
pub(super) struct Flat {
    limiter: WarningLimiter,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> FormatEvent<S, JsonFields> for Flat {
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let verdict = self.limiter.admit(event);
        if verdict == LineDecision::LeaveOut {
            return Ok(());
        }
        let mut fields = Map::new();
        for span in context
            .event_scope()
            .into_iter()
            .flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            let extensions = span.extensions();
            let formatted = extensions.get::<FormattedFields<JsonFields>>();
            if let Some(Ok(of_span)) =
                formatted.map(|formatted| serde_json::from_str::<Map<String, Value>>(formatted))
            {
                fields.extend(of_span);
            }
        }
        event.record(&mut FieldCollector(&mut fields));
        if verdict == LineDecision::Last {
            fields.insert("left_out".to_owned(), LEFT_OUT.into());
        }
        let message = fields.remove("message").unwrap_or_default();
        let (now, level) = (jiff::Timestamp::now(), event.metadata().level());
        write!(writer, r#"{{"timestamp":"{now:.6}","level":"{level}","message":{message}"#)?;
        for (name, value) in
            fields.iter().filter(|(name, _)| !["timestamp", "level"].contains(&name.as_str()))
        {
            write!(writer, ",{}:{value}", Value::from(name.as_str()))?;
        }
        writeln!(writer, "}}")
    }
}

struct FieldCollector<'a>(&'a mut Map<String, Value>);

impl FieldCollector<'_> {
    fn set(&mut self, field: &Field, value: Value) {
        let name = field.name();
        // `log` adds the position in the library's code, which is not useful here.
        if !name.starts_with("log.") {
            self.0.insert(name.trim_start_matches("r#").to_owned(), value);
        }
    }
}

impl Visit for FieldCollector<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(act: impl FnOnce()) -> Vec<Value> {
        let memory = Memory::default();
        let writer = memory.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_writer(move || writer.clone())
            .fmt_fields(JsonFields::new())
            .event_format(Flat::default())
            .finish();
        tracing::subscriber::with_default(subscriber, act);
        let text = String::from_utf8(memory.0.lock().clone()).unwrap();
        text.lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
            })
            .collect()
    }

    #[test]
    fn the_fields_of_all_spans_are_at_the_top_level_and_inner_ones_win() {
        let lines = logged(|| {
            let outer = tracing::info_span!(
                "turn",
                turn = "1f0c9a2e",
                event = 7_u64,
                backend = tracing::field::Empty
            );
            let _outer = outer.enter();
            outer.record("backend", "demo");
            let _inner = tracing::info_span!("link", link = "aa", backend = "other").entered();
            tracing::info!(lane = %aetheel_model::event::Lane::Channel(aetheel_model::id::ChannelId::discord(5)), r#type = "x", ok = true, "say \"{}\"\n{{", 1);
        });
        let [line] = &lines[..] else { panic!("{lines:?}") };
        for (name, value) in [
            ("message", Value::from("say \"1\"\n{")),
            ("level", "INFO".into()),
            ("turn", "1f0c9a2e".into()),
            ("event", 7.into()),
            ("backend", "other".into()),
            ("lane", "channel:5".into()),
            ("type", "x".into()),
            ("ok", true.into()),
        ] {
            assert_eq!(line[name], value, "{name} in {line}");
        }
        assert!(line["timestamp"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{line}");
    }

    #[test]
    fn a_field_cannot_replace_the_level_or_the_time() {
        let lines = logged(|| tracing::info!(level = "ERROR", timestamp = "then", "hello"));
        assert_eq!(lines[0]["level"], "INFO", "{lines:?}");
        assert_ne!(lines[0]["timestamp"], "then");
    }

    #[test]
    fn a_flood_of_warnings_ends_with_a_note_and_other_levels_are_not_limited() {
        let lines = logged(|| {
            for n in 0..500 {
                tracing::warn!(n, "the queue is full");
                tracing::info!(n, "event accepted");
            }
        });
        let warnings: Vec<&Value> = lines.iter().filter(|line| line["level"] == "WARN").collect();
        assert_eq!((warnings.len(), lines.len()), (200, 700));
        assert_eq!(warnings.iter().filter(|line| line["left_out"] == LEFT_OUT).count(), 1);
        assert_eq!(warnings[199]["left_out"], LEFT_OUT);
    }
}
