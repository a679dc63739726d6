use proptest::prelude::*;

use super::record::{FinishedEvent, JournalMark, Record};
use super::{Journal, JournalState};
use aetheel_model::event::{BLOCK_BITS, EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::{ChannelId, MessageId};

mod newer;

fn event(sequence: u64, prompt: &str) -> aetheel_model::event::Event {
    let origin = EventOrigin::Message {
        channel: ChannelId::discord(5),
        message: MessageId::discord(sequence.wrapping_add(100)),
    };
    let mut event =
        NewEvent::new(EventKind::Message, Lane::Channel(ChannelId::discord(5)), origin, prompt);
    event.key = Some(format!("discord:{sequence}`%\u{85}"));
    event.accepted(sequence, 1_700_000_000_000)
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let mark = prop_oneof![
        Just(JournalMark::Started),
        Just(JournalMark::UsedTool),
        Just(JournalMark::Doubtful),
        Just(JournalMark::CutOff),
        proptest::collection::vec(any::<u64>().prop_map(MessageId::discord), 0..3)
            .prop_map(JournalMark::Posted),
        ".{0,20}".prop_map(JournalMark::Answered),
        Just(JournalMark::Waiting),
        any::<u64>().prop_map(JournalMark::JoinedTurn),
        (any::<i64>(), any::<bool>())
            .prop_map(|(at_ms, aside)| JournalMark::Offered { at_ms, aside }),
        Just(JournalMark::Retry),
        (0..i64::MAX).prop_map(|at_ms| JournalMark::Finished(FinishedEvent {
            at_ms,
            key: Some("k".to_owned()),
            message: Some((ChannelId::discord(5), MessageId::discord(6)))
        })),
    ];
    let record = prop_oneof![
        (1..5_u64, ".{0,30}", proptest::option::of(".{0,20}")).prop_map(
            |(sequence, prompt, answer)| Record::Accepted(
                Box::new(event(sequence, &prompt)),
                answer
            )
        ),
        (1..5_u64, mark).prop_map(|(sequence, mark)| Record::Mark(sequence, mark)),
    ];
    proptest::collection::vec(record, 1..12)
}

/// Checks that a file of these lines, cut at any byte, has the content of its whole lines.
fn whole_lines_count(records: &[Record], first: u64) -> Result<(), TestCaseError> {
    let lines: Vec<String> = records.iter().map(Record::write).collect();
    let text = lines.concat();
    for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
        let (mut wanted, mut length) = (JournalState::read("", first).0, 0);
        for (record, line) in records.iter().zip(&lines) {
            length += line.len();
            // A line that lacks only its end is complete.
            if length > cut + 1 {
                break;
            }
            wanted.apply(record);
        }
        let (found, warnings) = JournalState::read(&text[..cut], first);
        prop_assert_eq!(&found, &wanted, "cut at {}", cut);
        let torn = cut > 0 && !text[..cut].ends_with('\n') && !text[cut..].starts_with('\n');
        prop_assert_eq!(warnings.len(), usize::from(torn));
    }
    Ok(())
}

proptest! {
    // Each byte of a long line is a place to cut.
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn a_handover_in_a_file_cut_anywhere_is_imported_whole_or_not_at_all(
        mine in records(),
        theirs in records(),
    ) {
        let mut of_theirs = JournalState::default();
        // The events of the other node have numbers in a block of their own, as in a cluster.
        theirs.into_iter().for_each(|record| of_theirs.apply(&record.with_block(7 << BLOCK_BITS)));
        let absorbed = Record::Mark(0, JournalMark::Imported(of_theirs.lines()));
        let first = 5 << BLOCK_BITS;
        let mine = mine.into_iter().map(|record| record.with_block(first));
        let all: Vec<Record> = mine.chain([absorbed]).collect();
        whole_lines_count(&all, first)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_file_cut_anywhere_has_the_content_of_its_whole_lines(records in records()) {
        whole_lines_count(&records, 0)?;
    }

    #[test]
    fn numbers_of_all_blocks_stay_and_the_next_one_is_in_the_own_block(
        events in proptest::collection::btree_map((0..3_u64, 1..9_u64), any::<bool>(), 0..12),
        own in 0..4_u64,
    ) {
        // The first block is that of a gateway that serves alone; the last one has no event yet.
        let blocks = [0, 1 << 8, 1 << 20, (1 << 20) + 1].map(|start: u64| start << BLOCK_BITS);
        let first = blocks[usize::try_from(own).unwrap()];
        let mut text = String::new();
        let mut open = Vec::new();
        let mut last = first;
        for ((block, number), finished) in events {
            let sequence = blocks[usize::try_from(block).unwrap()] + number;
            let event = event(sequence, "hello");
            text += &Record::Accepted(Box::new(event.clone()), None).write();
            if finished {
                let over = JournalMark::Finished(FinishedEvent::of(&event, 1_700_000_000_000));
                text += &Record::Mark(sequence, over).write();
            }
            // If there are blocks, such an event moves into one of them.
            let lifted = if block == 0 { sequence | first } else { sequence };
            if block == 0 || block == own {
                last = last.max(lifted);
            }
            open.extend((!finished).then_some(lifted));
        }
        open.sort_unstable();
        open.dedup();
        let (pages, warnings) = JournalState::read(&text, first);
        prop_assert_eq!(warnings, Vec::<String>::new());
        if own == 0 || own == 3 {
            let found: Vec<u64> = pages.open().map(|entry| entry.event.sequence).collect();
            prop_assert_eq!(found, open);
        }
        if own > 0 {
            prop_assert_eq!(pages.last(), last);
        }
        let mut moved = pages;
        moved.use_block(9 << 50);
        prop_assert!(moved.last() >= last);
        prop_assert!(moved.highest() <= moved.last());
    }

    #[test]
    fn a_compacted_file_has_the_same_content(records in records()) {
        let mut pages = JournalState::default();
        records.iter().for_each(|record| pages.apply(record));
        let (again, warnings) = JournalState::read(&pages.render(), 0);
        prop_assert_eq!(warnings, Vec::<String>::new());
        prop_assert_eq!(again, pages);
    }

    #[test]
    fn a_changed_character_is_detected(at in 0..200_usize, letter in "[a-z]") {
        let line = Record::Accepted(Box::new(event(7, "hello there")), None).write();
        let at = at % (line.len() - 1);
        prop_assume!(line.is_char_boundary(at) && line.is_char_boundary(at + 1) && !line[at..].starts_with(&letter));
        let mut changed = line.clone();
        changed.replace_range(at..=at, &letter);
        let (pages, _) = JournalState::read(&changed, 0);
        let found = pages.entry(7).map(|entry| entry.event.clone());
        // Without the mark of its checksum, the line looks as if it were written by hand; then the
        // event must be the same.
        prop_assert!(found.is_none() || found == Some(event(7, "hello there")), "{}", changed);
    }
}

#[test]
fn a_line_edited_by_hand_needs_no_checksum_and_a_corrupt_one_is_reported_and_kept() {
    let line = Record::Accepted(Box::new(event(7, "helo")), None).write();
    let spoiled = line.replace("helo", "hello");
    let (pages, warnings) = JournalState::read(&spoiled, 0);
    assert!(
        pages.entry(7).is_none() && warnings.len() == 1 && warnings[0].contains("line 1"),
        "{warnings:?}"
    );
    assert!(pages.render().contains(spoiled.trim_end()), "it is kept so that it can be corrected");
    let mended = spoiled.rsplit_once(" `#").unwrap().0.to_owned() + "\n";
    let (pages, warnings) = JournalState::read(&mended, 0);
    assert_eq!((pages.entry(7).unwrap().event.prompt.as_str(), warnings.len()), ("hello", 0));
    let (pages, _) = JournalState::read(&format!("{mended}- [x] `7`\n"), 0);
    assert!(
        pages.entry(7).is_none() && pages.contains_key(event(7, "").key.as_ref().unwrap()),
        "marked as finished by hand"
    );
}

#[tokio::test]
async fn numbers_and_keys_continue_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.md");
    let now = 1_800_000_000_000;
    let first = Journal::begin(&path, now).unwrap();
    assert_eq!(first.last(), 0);
    for sequence in 1..=3 {
        assert!(first.accepted(&event(sequence, "hello")).done().await);
    }
    first.finished(&event(3, "hello"), now);
    drop(first.mark(1, JournalMark::Started));
    assert!(first.flush().await);
    drop(first);
    let second = Journal::begin(&path, now + 1000).unwrap();
    assert_eq!(second.last(), 3);
    assert!((1..=3).all(|sequence| second.contains_key(event(sequence, "").key.as_ref().unwrap())));
    let open: Vec<(u64, u32)> =
        second.open_events().iter().map(|entry| (entry.event.sequence, entry.started)).collect();
    assert_eq!(open, [(1, 1), (2, 0)]);
    assert_eq!(second.messages().len(), 3);
    drop(second);
    // A day later the finished event is forgotten, but its number is not assigned again.
    let third = Journal::begin(&path, now + 25 * 3_600_000).unwrap();
    assert_eq!(third.last(), 3);
    assert!(!third.contains_key(event(3, "").key.as_ref().unwrap()));
}

#[tokio::test]
async fn a_number_without_room_for_larger_ones_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("queue.md"),
        Record::Accepted(Box::new(event(u64::MAX, "hello")), None).write(),
    )
    .unwrap();
    let refused = Journal::open(folder.path().to_owned(), 0).await.expect_err("it is refused");
    let told = aetheel_model::plain::with_causes(&refused);
    assert!(
        told.contains("queue.md")
            && told.contains("18446744073709551615")
            && told.contains("remove that line"),
        "{told}"
    );
}

#[tokio::test]
async fn an_offer_expires_after_a_week() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.md");
    let now = 1_800_000_000_000;
    let journal = Journal::begin(&path, now).unwrap();
    assert!(journal.accepted(&event(1, "hello")).done().await);
    journal.mark(1, JournalMark::Offered { at_ms: now, aside: false });
    assert!(journal.flush().await);
    drop(journal);
    assert_eq!(Journal::begin(&path, now + super::OFFER_SPAN_MS).unwrap().open_events().len(), 1);
    assert_eq!(
        Journal::begin(&path, now + super::OFFER_SPAN_MS + 1).unwrap().open_events().len(),
        0
    );
}

#[tokio::test]
async fn a_failing_write_is_reported_and_the_journal_continues_once_it_succeeds() {
    // Nothing can be written to a full device, so the journal is linked to one.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.md");
    let journal = Journal::begin(&path, 0).unwrap();
    assert!(journal.accepted(&event(1, "hello")).done().await);
    let full = folder.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let store = Box::new(super::LineFile::open(full).unwrap());
    let pages = journal.pages.clone();
    let lines = super::JournalLines::start(store, 0, pages.clone()).unwrap();
    let full = Journal { pages, lines };
    assert!(!full.accepted(&event(2, "hello")).done().await && full.is_failing());
    full.forget(2);
    assert!(!full.contains_key(event(2, "").key.as_ref().unwrap()), "it may be sent again");
    assert!(journal.accepted(&event(3, "hello")).done().await);
}

#[test]
fn a_last_line_without_an_end_is_complete_only_if_its_checksum_matches() {
    let line = Record::Accepted(Box::new(event(7, "hello")), None).write();
    let (pages, warnings) = JournalState::read(line.trim_end(), 0);
    assert_eq!(
        (pages.entry(7).map(|entry| entry.event.clone()), warnings.len()),
        (Some(event(7, "hello")), 0),
        "an editor removed the line end"
    );
    let without_check = line.rsplit_once(" `#").unwrap().0;
    let (pages, warnings) = JournalState::read(without_check, 0);
    assert!(
        pages.entry(7).is_none() && warnings.len() == 1,
        "it looks like a line that a crash cut off: {warnings:?}"
    );
}

/// A file in which a number of writes fail halfway, and a number of truncations fail.
#[derive(Clone, Default)]
struct Spoiled {
    text: std::sync::Arc<parking_lot::Mutex<Vec<u8>>>,
    writes: std::sync::Arc<std::sync::atomic::AtomicUsize>,
    cuts: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Spoiled {
    fn fails(left: &std::sync::atomic::AtomicUsize) -> std::io::Result<()> {
        use std::sync::atomic::Ordering::SeqCst;
        left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))
            .map_or(Ok(()), |_| Err(std::io::ErrorKind::StorageFull.into()))
    }
}

impl super::store::FileTail for Spoiled {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let failed = Self::fails(&self.writes);
        let length = if failed.is_err() { bytes.len() - 3 } else { bytes.len() };
        self.text.lock().extend_from_slice(&bytes[..length]);
        failed
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        Self::fails(&self.cuts)?;
        self.text.lock().truncate(usize::try_from(length).unwrap());
        Ok(())
    }
}

/// Returns a journal in such a file, and its folder.
fn spoiled() -> (Journal, Spoiled, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.md");
    let (file, pages) = (Spoiled::default(), std::sync::Arc::default());
    let store = super::LineFile::with_tail(Box::new(file.clone()), 0, path);
    let lines =
        super::JournalLines::start(Box::new(store), 0, std::sync::Arc::clone(&pages)).unwrap();
    (Journal { pages, lines }, file, folder)
}

#[tokio::test]
async fn the_rest_of_a_failed_write_is_removed_before_the_next_write_even_if_that_fails_at_first() {
    use std::sync::atomic::Ordering::SeqCst;
    let (journal, file, folder) = spoiled();
    let complete = folder.path().join("complete.md");
    assert!(journal.accepted(&event(1, "hello")).done().await && complete.exists());
    file.writes.store(1, SeqCst);
    file.cuts.store(2, SeqCst);
    assert!(!journal.accepted(&event(2, "hello")).done().await && !complete.exists());
    journal.forget(2);
    // No further record is needed for this.
    let again = async {
        while journal.is_failing() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), again)
        .await
        .expect("it retries without a further record");
    assert!(journal.accepted(&event(3, "hello")).done().await && complete.exists());
    let text = String::from_utf8(file.text.lock().clone()).unwrap();
    let (pages, warnings) = JournalState::read(&text, 0);
    assert_eq!(warnings, Vec::<String>::new(), "{text}");
    assert!(
        pages.entry(1).is_some() && pages.entry(2).is_none() && pages.entry(3).is_some(),
        "{text}"
    );
}

#[tokio::test]
async fn an_event_that_could_not_be_repeated_is_still_offered() {
    let (journal, file, _folder) = spoiled();
    assert!(journal.accepted(&event(1, "hello")).done().await);
    journal.mark(1, JournalMark::Offered { at_ms: 5, aside: false });
    assert!(journal.flush().await);
    let before = journal.entry(1).unwrap();
    file.writes.store(1, std::sync::atomic::Ordering::SeqCst);
    assert!(!journal.mark(1, JournalMark::Retry).done().await);
    journal.restore(before.clone());
    assert_eq!(journal.entry(1), Some(before));
    assert!(journal.accepted(&event(2, "hello")).done().await);
    let text = String::from_utf8(file.text.lock().clone()).unwrap();
    assert!(!text.contains(" again "), "nothing of it is written later: {text}");
    assert!(
        journal.mark(1, JournalMark::Retry).done().await
            && journal.entry(1).unwrap().offered_ms.is_none()
    );
}

#[tokio::test]
async fn thousands_of_prompts_leave_a_small_file_with_the_open_events() {
    const PROMPTS: u64 = 6_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.md");
    let now = 1_800_000_000_000;
    let journal = Journal::begin(&path, now).unwrap();
    let (prompt, answer) = ("word ".repeat(100), "word ".repeat(200));
    let (mut largest, mut written) = (0, 0);
    for sequence in 1..=PROMPTS {
        let event = event(sequence, &prompt);
        drop(journal.accepted(&event));
        drop(journal.mark(sequence, JournalMark::Started));
        drop(journal.mark(sequence, JournalMark::Answered(answer.clone())));
        drop(journal.finished(&event, now));
        written += prompt.len() + answer.len();
        // A batch of records must not be what limits the file.
        if sequence % 50 == 0 {
            assert!(journal.flush().await);
            largest = largest.max(std::fs::metadata(&path).unwrap().len());
        }
    }
    let open = event(PROMPTS + 1, "still open");
    assert!(journal.accepted(&open).done().await);
    let most = 2 * super::writer::COMPACTION_BYTES as u64;
    assert!(largest < most && (written as u64) > 4 * most, "{largest} bytes of {written}");
    drop(journal);
    let again = Journal::begin(&path, now).unwrap();
    assert_eq!(again.last(), PROMPTS + 1);
    let open_events: Vec<u64> =
        again.open_events().iter().map(|entry| entry.event.sequence).collect();
    assert_eq!(open_events, [PROMPTS + 1]);
    assert!(again.contains_key(event(PROMPTS, "").key.as_ref().unwrap()));
}

#[tokio::test]
async fn turns_that_had_begun_when_the_file_could_not_be_written_are_doubtful_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.md");
    let journal = Journal::begin(&path, 0).unwrap();
    for number in [1, 2, 3] {
        assert!(journal.accepted(&event(number, "hello")).done().await);
    }
    assert!(
        journal.mark(1, JournalMark::Started).done().await
            && journal.mark(2, JournalMark::Started).done().await
    );
    assert!(journal.mark(2, JournalMark::Answered("{}".to_owned())).done().await);
    let doubtful = |journal: &Journal| {
        [1, 2, 3].map(|number| journal.entry(number).is_some_and(|entry| entry.doubtful))
    };
    drop(journal);
    assert_eq!(doubtful(&Journal::begin(&path, 0).unwrap()), [false; 3], "a crash alone");
    std::fs::remove_file(folder.path().join("complete.md")).unwrap();
    for again in [false, true] {
        let journal = Journal::begin(&path, 0).unwrap();
        assert_eq!(doubtful(&journal), [true, false, false], "once more: {again}");
    }
}
