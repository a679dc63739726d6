//! The calls of the host's tools in the recordings of a previous process, so that a restart gives no
//! lane a new allowance. Blocks.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};

use super::Recorder;
use super::retention::{self, StoredRecording};
use crate::format::{EntryKind, Header, RecordingEntry};
use crate::lines::RecordingLines;
use aetheel_model::agent::{Action, Input, SessionKey, ToolRequest, ToolResult};
use aetheel_model::event::Lane;
use aetheel_model::host_tool::HostToolKind;

/// Maximum length of a line that is read, in bytes. Calls are shorter.
const LINE_LIMIT: usize = 4 << 20;
/// Maximum number of hand-offs of a recording whose results may be outstanding.
const MAX_OPEN: usize = 64;
/// The beginnings of the lines that are parsed, after their time.
const PARSED: [&[u8]; 5] = [
    br#""turn":{"#,
    br#""out":{"tool-request":"#,
    br#""in":{"tool-result":"#,
    br#""called":"#,
    br#""returned":"#,
];

/// A recorded hand-off that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedHandOff {
    /// The lane whose agent handed the work over.
    pub from: Lane,
    /// When the call returned.
    pub at: Timestamp,
    /// The input of the call, as the agent wrote it.
    pub input: String,
}

impl Recorder {
    /// Passes the calls that were made since a time to `called`, those of a recording in their order.
    /// Returns the hand-offs that succeeded since then. Recordings that cannot be read are skipped.
    ///
    /// # Errors
    /// The system's error if the folder cannot be listed.
    pub fn recent_calls(
        &self,
        since: Timestamp,
        mut called: impl FnMut(&Lane, Timestamp),
    ) -> io::Result<Vec<RecordedHandOff>> {
        let oldest = SystemTime::from(since);
        let mut files = retention::recordings(&self.folder, SystemTime::now())?;
        files.retain(|file| file.modified >= oldest);
        files.sort();
        let mut hand_offs = Vec::new();
        for StoredRecording { path, .. } in files {
            if let Err(error) = read(&path, since, &mut called, &mut hand_offs) {
                let path = path.display();
                tracing::warn!(%path, %error, "cannot count the calls of host tools in a recording");
            }
        }
        Ok(hand_offs)
    }
}

fn read(
    path: &Path,
    since: Timestamp,
    called: &mut impl FnMut(&Lane, Timestamp),
    hand_offs: &mut Vec<RecordedHandOff>,
) -> io::Result<()> {
    let mut lines = RecordingLines::new(File::open(path)?, LINE_LIMIT);
    let Some(first) = lines.next_line()? else { return Ok(()) };
    let Ok(header) = Header::parse(first.bytes) else { return Ok(()) };
    let Ok(opened) = header.started.parse::<Timestamp>() else { return Ok(()) };
    let mut lanes: HashMap<SessionKey, Lane> = HashMap::new();
    let mut open: HashMap<u32, (Lane, String)> = HashMap::new();
    while let Some(line) = lines.next_line()? {
        let Some(RecordingEntry { t, kind }) = parse(line.bytes) else { continue };
        let at = opened.checked_add(SignedDuration::from_millis(t as i64)).unwrap_or(opened);
        match kind {
            EntryKind::Turn { lane, session, .. } => {
                if let Ok(lane) = lane.parse() {
                    lanes.insert(session, lane);
                }
            }
            EntryKind::Out(Action::ToolRequest(request)) | EntryKind::Called(request)
                if at >= since =>
            {
                let ToolRequest { call, session, name, input, .. } = request;
                let Some(lane) = lanes.get(&session) else { continue };
                called(lane, at);
                let is_hand_off = name == HostToolKind::HandOff.name() && open.len() < MAX_OPEN;
                if is_hand_off {
                    open.insert(call, (lane.clone(), input));
                }
            }
            EntryKind::In(Input::ToolResult(ToolResult { call, failed, .. }))
            | EntryKind::Returned(ToolResult { call, failed, .. }) => {
                if let Some((from, input)) = open.remove(&call).filter(|_| !failed) {
                    hand_offs.push(RecordedHandOff { from, at, input });
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Parses a line if it is about a call or the beginning of a turn.
fn parse(line: &[u8]) -> Option<RecordingEntry> {
    let time = memchr::memchr(b',', line)?;
    let content = &line[time + 1..];
    let is_parsed = PARSED.iter().any(|start| content.starts_with(start));
    is_parsed.then(|| serde_json::from_slice(line).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::RecordingLimits;
    use super::*;
    use crate::format::FORMAT;
    use aetheel_model::redact::Redactor;

    #[tokio::test]
    async fn calls_and_hand_offs_are_read_with_their_lanes_and_times() {
        let folder = tempfile::tempdir().unwrap();
        let limits = RecordingLimits::UNLIMITED;
        let recorder = Recorder::new(folder.path().to_owned(), limits, Redactor::default());
        let (cron, now) = (|name: &str| Lane::Cron(name.to_owned()), Timestamp::now());
        let mut recording = recorder.begin(&Header {
            aetheel_recording: FORMAT,
            link: "t1".into(),
            backend: "demo".into(),
            backend_version: "1".into(),
            generation: 1,
            digest: "00".into(),
            agent_version: None,
            started: now.to_string(),
        });
        for (session, name) in [(1, "a"), (2, "b")] {
            recording.host(EntryKind::Turn {
                turn: name.into(),
                event: 1,
                lane: cron(name).to_string(),
                session,
                key: session,
            });
        }
        let call = |call, session, tool: HostToolKind, input: &str| ToolRequest {
            call,
            session,
            turn: session,
            name: tool.name().into(),
            input: input.into(),
        };
        let result = |call, failed| ToolResult { call, text: String::new(), failed };
        let hand_off = r#"{"channel":"8","text":"x"}"#;
        recording.action(&Action::ToolRequest(call(1, 1, HostToolKind::HandOff, hand_off)));
        recording.host(EntryKind::Called(call(2, 2, HostToolKind::HandOff, hand_off)));
        recording.host(EntryKind::Called(call(3, 2, HostToolKind::ListAgents, "{}")));
        recording.host(EntryKind::Called(call(4, 9, HostToolKind::ListAgents, "{}")));
        recording.host(EntryKind::Returned(result(2, false)));
        let failed = Input::ToolResult(result(1, true));
        recording
            .input(&aetheel_model::agent::TimedInput { at_ms: recording.now(), input: failed });
        // An agent cannot add calls with a text.
        recording.host(EntryKind::Host(r#","called":{"call":9}"#.to_owned()));
        std::fs::write(folder.path().join("damaged.jsonl"), "x").unwrap();
        let read = |since| {
            let mut called = Vec::new();
            let hand_offs =
                recorder.recent_calls(since, |lane, _| called.push(lane.clone())).unwrap();
            (called, hand_offs.into_iter().map(|hand_off| hand_off.from).collect::<Vec<_>>())
        };
        let second = SignedDuration::from_secs(1);
        assert_eq!(read(now - second).0.len(), 0, "the lines are still in memory");
        recording.write_soon();
        let written = async {
            while read(now - second).1.is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), written).await.expect("written");
        assert_eq!(read(now - second), (vec![cron("a"), cron("b"), cron("b")], vec![cron("b")]));
        assert_eq!(read(now + second * 3_600), (vec![], vec![]));
    }
}
