//! Tests of events that a newer version wrote into the journal.

use super::super::checksum::{content_of, with_checksum};
use super::super::record::{FinishedEvent, JournalMark, Record};
use super::super::{Journal, JournalState};
use aetheel_model::event::{BLOCK_BITS, Event, EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::{ChannelId, MessageId};

const KNOWN: &str = r#""kind":"message""#;
const NEWER: &str = r#""kind":"of-a-later-version""#;

fn event(sequence: u64, channel: u64) -> Event {
    let (channel, message) = (ChannelId::discord(channel), MessageId::discord(sequence + 100));
    let origin = EventOrigin::Message { channel, message };
    let mut event = NewEvent::new(EventKind::Message, Lane::Channel(channel), origin, "`hi` %");
    event.key = Some(format!("discord:{sequence}"));
    event.accepted(sequence, 1_700_000_000_000)
}

fn accepted(sequence: u64, channel: u64) -> String {
    Record::Accepted(Box::new(event(sequence, channel)), None).write()
}

fn mark(sequence: u64, mark: JournalMark) -> String {
    Record::Mark(sequence, mark).write()
}

/// Replaces a text in lines, and corrects their checksums.
fn replaced(text: &str, from: &str, to: &str) -> String {
    let line = |line: &str| with_checksum(content_of(line).replace(from, to)) + "\n";
    text.lines().filter(|line| line.starts_with("- ")).map(line).collect()
}

/// An event that this version cannot read, in a lane of this channel, whose turn had begun.
fn of_newer_version(sequence: u64, channel: u64) -> String {
    let marks = [
        mark(sequence, JournalMark::Started),
        mark(sequence, JournalMark::UsedTool),
        mark(sequence, JournalMark::Posted(vec![MessageId::discord(70)])),
        with_checksum(format!("- `{sequence}` dreamed `x`")) + "\n",
    ];
    replaced(&accepted(sequence, channel), KNOWN, NEWER) + &marks.concat()
}

#[test]
fn an_event_of_a_newer_version_keeps_its_number_key_message_and_progress_for_it() {
    let text = of_newer_version(7, 5) + &accepted(6, 5);
    let (pages, warnings) = JournalState::read(&text, 0);
    let [warning] = &warnings[..] else { panic!("one warning: {warnings:?}") };
    for part in ["event 7 in channel:5", "newer version", "of-a-later-version", "hint: upgrade"] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
    assert_eq!(pages.open().map(|entry| entry.event.sequence).collect::<Vec<_>>(), [6]);
    assert_eq!((pages.last(), pages.highest()), (7, 7), "its number is not assigned again");
    assert!(pages.contains_key("discord:7"), "the same cause is not accepted again");
    assert!(pages.messages().any(|(_, message)| message == MessageId::discord(107)));
    // This version compacts the file more than once, and the newer one continues.
    let (again, _) = JournalState::read(&pages.render(), 0);
    assert_eq!(again, pages);
    let (newer, warnings) = JournalState::read(&replaced(&again.render(), NEWER, KNOWN), 0);
    let entry = newer.entry(7).expect("the newer version reads it");
    assert_eq!(entry.event, event(7, 5));
    assert_eq!((entry.started, entry.used_tool, entry.posted.len()), (1, true, 1));
    assert_eq!(warnings.len(), 1, "only the mark is unknown now: {warnings:?}");
}

#[test]
fn an_event_of_a_newer_version_ends_with_its_last_line() {
    let end = JournalMark::Finished(FinishedEvent::of(&event(7, 5), 1));
    for (end, is_known) in [
        (mark(7, end), true),
        ("- [x] `7`\n".to_owned(), true),
        (mark(7, JournalMark::Moved), false),
    ] {
        let (pages, warnings) = JournalState::read(&(of_newer_version(7, 5) + &end), 0);
        assert_eq!(warnings, [""; 0], "{end}");
        assert!(!pages.render().contains("of-a-later-version"), "{end}");
        assert_eq!(pages.contains_key("discord:7"), is_known, "{end}");
        // The line of a crashed compaction may come again.
        let (again, _) = JournalState::read(&(pages.render() + &of_newer_version(7, 5)), 0);
        assert_eq!(again.newer.0.is_empty(), is_known, "{end}");
    }
}

#[test]
fn only_whole_lines_of_programs_are_of_a_newer_version() {
    let line = of_newer_version(7, 5).lines().next().expect("a line").to_owned();
    let by_hand = format!("{}\n", content_of(&line));
    let damaged = format!("{}\n", line.replace("hi", "ho"));
    for text in [by_hand, damaged] {
        let (pages, warnings) = JournalState::read(&text, 0);
        assert!(pages.newer.0.is_empty() && warnings[0].contains("is left out"), "{warnings:?}");
        assert!(pages.render().contains(text.trim_end()));
    }
}

#[test]
fn an_event_of_a_newer_version_gets_a_number_of_its_nodes_block() {
    let first = 3 << BLOCK_BITS;
    let (pages, _) = JournalState::read(&of_newer_version(7, 5), first);
    assert_eq!(pages.newer.0.keys().copied().collect::<Vec<_>>(), [first | 7]);
    let (newer, _) = JournalState::read(&replaced(&pages.render(), NEWER, KNOWN), first);
    let entry = newer.entry(first | 7).expect("its JSON has the new number too");
    assert_eq!((entry.event.prompt.as_str(), entry.started), ("`hi` %", 1));
    assert!(pages.newer.0[&(first | 7)].text().contains(" dreamed `x`"));
}

#[tokio::test]
async fn an_event_of_a_newer_version_moves_with_its_lane_and_others_continue() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("queue.md");
    std::fs::write(&path, of_newer_version(7, 5) + &of_newer_version(8, 6)).expect("written");
    let own = Journal::begin(&path, 0).expect("it starts");
    assert!(own.accepted(&event(9, 6)).done().await, "the lane goes on");
    assert_eq!(own.newer_lanes().len(), 2);
    let moved = |lane: &Lane| *lane == Lane::Channel(ChannelId::discord(5));
    let lines = own.lines_of(moved);
    assert_eq!(Journal::open_lanes(&lines), [Lane::Channel(ChannelId::discord(5))]);
    let other = Journal::begin(&folder.path().join("other.md"), 0).expect("it starts");
    for _ in 0..2 {
        assert_eq!(other.import(&lines, moved).await.expect("written"), [0; 0]);
    }
    assert!(other.contains_key("discord:7") && !other.contains_key("discord:8"));
    assert!(own.forget_lanes(moved).await);
    let left = std::fs::read_to_string(&path).expect("read");
    let there = std::fs::read_to_string(folder.path().join("other.md")).expect("read");
    for (text, number) in [(left, 8), (there, 7)] {
        let (pages, _) = JournalState::read(&text, 0);
        assert_eq!(pages.newer.0.keys().copied().collect::<Vec<_>>(), [number]);
        assert_eq!(pages.newer.0[&number].text(), of_newer_version(number, number - 2));
    }
}
