use proptest::prelude::*;

use super::record::{Finished, Mark, Record};
use super::{Journal, Pages};
use crate::event::{EventKind, Lane, NewEvent, Origin};

fn event(sequence: u64, prompt: &str) -> crate::event::Event {
    let origin = Origin::Message { channel: 5, message: 100 + sequence };
    let mut event = NewEvent::new(EventKind::Message, Lane::Channel(5), origin, prompt);
    event.key = Some(format!("discord:{sequence}`%\u{85}"));
    event.accepted(sequence, 1_700_000_000_000)
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let mark = prop_oneof![
        Just(Mark::Started),
        Just(Mark::Tool),
        proptest::collection::vec(any::<u64>(), 0..3).prop_map(Mark::Posted),
        ".{0,20}".prop_map(Mark::Answered),
        Just(Mark::Waiting),
        (any::<i64>(), any::<bool>()).prop_map(|(at_ms, aside)| Mark::Offered { at_ms, aside }),
        Just(Mark::Again),
        (0..i64::MAX).prop_map(|at_ms| Mark::Finished(Finished { at_ms, key: Some("k".to_owned()), message: Some((5, 6)) })),
    ];
    let record = prop_oneof![
        (1..5_u64, ".{0,30}", proptest::option::of(".{0,20}"))
            .prop_map(|(sequence, prompt, answer)| Record::Accepted(Box::new(event(sequence, &prompt)), answer)),
        (1..5_u64, mark).prop_map(|(sequence, mark)| Record::Mark(sequence, mark)),
    ];
    proptest::collection::vec(record, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_file_cut_anywhere_says_exactly_what_its_whole_lines_say(records in records()) {
        let lines: Vec<String> = records.iter().map(Record::write).collect();
        let text = lines.concat();
        for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            let (mut wanted, mut length) = (Pages::default(), 0);
            for (record, line) in records.iter().zip(&lines) {
                length += line.len();
                if length > cut {
                    break;
                }
                wanted.apply(record);
            }
            let (found, warnings) = Pages::read(&text[..cut]);
            prop_assert_eq!(&found, &wanted, "cut at {}", cut);
            let torn = cut > 0 && !text[..cut].ends_with('\n');
            prop_assert_eq!(warnings.len(), usize::from(torn));
        }
    }

    #[test]
    fn a_file_made_short_says_the_same(records in records()) {
        let mut pages = Pages::default();
        records.iter().for_each(|record| pages.apply(record));
        let (again, warnings) = Pages::read(&pages.render());
        prop_assert_eq!(warnings, Vec::<String>::new());
        prop_assert_eq!(again, pages);
    }

    #[test]
    fn a_changed_letter_is_noticed(at in 0..200_usize, letter in "[a-z]") {
        let line = Record::Accepted(Box::new(event(7, "hello there")), None).write();
        let at = at % (line.len() - 1);
        prop_assume!(line.is_char_boundary(at) && line.is_char_boundary(at + 1) && !line[at..].starts_with(&letter));
        let mut changed = line.clone();
        changed.replace_range(at..=at, &letter);
        let (pages, _) = Pages::read(&changed);
        let found = pages.entry(7).map(|entry| entry.event.clone());
        // The check's own mark gone, it looks as if it were written by hand; the event is the same then.
        prop_assert!(found.is_none() || found == Some(event(7, "hello there")), "{}", changed);
    }
}

#[test]
fn a_line_mended_by_hand_needs_no_check_and_a_spoiled_one_is_named_and_kept() {
    let line = Record::Accepted(Box::new(event(7, "helo")), None).write();
    let spoiled = line.replace("helo", "hello");
    let (pages, warnings) = Pages::read(&spoiled);
    assert!(pages.entry(7).is_none() && warnings.len() == 1 && warnings[0].contains("line 1"), "{warnings:?}");
    assert!(pages.render().contains(spoiled.trim_end()), "it is kept for whoever mends it");
    let mended = spoiled.rsplit_once(" `#").unwrap().0.to_owned() + "\n";
    let (pages, warnings) = Pages::read(&mended);
    assert_eq!((pages.entry(7).unwrap().event.prompt.as_str(), warnings.len()), ("hello", 0));
    let (pages, _) = Pages::read(&format!("{mended}- [x] `7`\n"));
    assert!(pages.entry(7).is_none() && pages.knows(event(7, "").key.as_ref().unwrap()), "checked off by hand");
}

#[tokio::test]
async fn numbers_and_keys_go_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.md");
    let now = 1_800_000_000_000;
    let first = Journal::begin(&path, now).unwrap();
    assert_eq!(first.last(), 0);
    for sequence in 1..=3 {
        assert!(first.accepted(&event(sequence, "hello")).done().await);
    }
    first.finished(&event(3, "hello"), now);
    first.started(1);
    assert!(first.flush().await);
    drop(first);
    let second = Journal::begin(&path, now + 1000).unwrap();
    assert_eq!(second.last(), 3);
    assert!((1..=3).all(|sequence| second.knows(event(sequence, "").key.as_ref().unwrap())));
    let open: Vec<(u64, u32)> = second.open_events().iter().map(|entry| (entry.event.sequence, entry.started)).collect();
    assert_eq!(open, [(1, 1), (2, 0)]);
    assert_eq!(second.messages().len(), 3);
    drop(second);
    // A day later the finished one is forgotten, and its number is not given again.
    let third = Journal::begin(&path, now + 25 * 3_600_000).unwrap();
    assert_eq!(third.last(), 3);
    assert!(!third.knows(event(3, "").key.as_ref().unwrap()));
}

#[tokio::test]
async fn an_offer_nobody_took_for_a_week_is_withdrawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.md");
    let now = 1_800_000_000_000;
    let journal = Journal::begin(&path, now).unwrap();
    assert!(journal.accepted(&event(1, "hello")).done().await);
    journal.offered(1, now, false);
    assert!(journal.flush().await);
    drop(journal);
    assert_eq!(Journal::begin(&path, now + super::OFFER_SPAN_MS).unwrap().open_events().len(), 1);
    assert_eq!(Journal::begin(&path, now + super::OFFER_SPAN_MS + 1).unwrap().open_events().len(), 0);
}

#[tokio::test]
async fn what_cannot_be_written_is_said_and_goes_on_once_it_can() {
    // Nothing can be written to a full device; the journal is pointed at one by a link.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.md");
    let journal = Journal::begin(&path, 0).unwrap();
    assert!(journal.accepted(&event(1, "hello")).done().await);
    let (jobs, received) = std::sync::mpsc::channel();
    let full = folder.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let writer = super::Writer::open(full, journal.pages.clone(), received).unwrap();
    std::thread::spawn(move || writer.run());
    let full = Journal { pages: journal.pages.clone(), jobs: std::sync::Arc::new(std::sync::Mutex::new(jobs)) };
    assert!(!full.accepted(&event(2, "hello")).done().await);
    full.forget(2);
    assert!(!full.knows(event(2, "").key.as_ref().unwrap()), "it may be sent again");
    assert!(journal.accepted(&event(3, "hello")).done().await);
}
