use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::chain::AuditChain;
use super::files::AuditFiles;
use super::*;
use aetheel_model::audit::{AuditEntry, AuditKind, AuditSink as _};
use aetheel_model::redact::Redactor;

struct AuditPlace {
    folder: tempfile::TempDir,
    files: AuditFiles,
}

impl AuditPlace {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { files: AuditFiles::new(folder.path()), folder }
    }

    /// Appends entries as a new process does.
    fn append(&self, count: u64) {
        let mut chain = AuditChain::open(&self.files, &redactor()).unwrap();
        for number in 0..count {
            let entry = AuditEntry::new(AuditKind::TurnBegun).with("turn", number);
            chain.append(&[(Timestamp::now(), entry)], &redactor()).unwrap();
        }
    }

    fn file(&self) -> PathBuf {
        self.files.of(*self.files.months().unwrap().last().unwrap())
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn report(&self) -> AuditReport {
        verify_audit(self.folder.path(), None).unwrap()
    }

    fn fault(&self) -> String {
        let report = self.report();
        report.fault.map_or_else(String::new, |fault| format!("{}: {}", fault.place, fault.problem))
    }

    fn edit_end(&self, bytes: &[u8]) {
        let mut file = fs::OpenOptions::new().append(true).open(self.file()).unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
    }

    fn edit(&self, edit: impl FnOnce(&mut Vec<String>)) {
        let mut lines: Vec<String> = self.text().lines().map(|line| format!("{line}\n")).collect();
        edit(&mut lines);
        fs::write(self.file(), lines.concat()).unwrap();
    }
}

fn redactor() -> Redactor {
    Redactor::new([])
}

#[test]
fn a_chain_of_two_processes_is_complete() {
    let place = AuditPlace::new();
    assert_eq!(place.report(), AuditReport::default());
    place.append(3);
    place.append(2);
    let report = place.report();
    assert_eq!((report.entries, report.fault, report.notes.len()), (5, None, 0));
    assert_eq!(report.head, place.files.head().unwrap());
}

#[test]
fn every_kind_of_damage_is_found_at_its_line() {
    type Damage = fn(&mut Vec<String>);
    let cases: [(Damage, &str); 7] = [
        (
            |lines| lines[2] = lines[2].replace("\"turn\":\"2\"", "\"turn\":\"7\""),
            "line 3: entry 3",
        ),
        (|lines| drop(lines.remove(2)), "line 3: the entries 3 to 3 before it are missing"),
        (|lines| lines.swap(1, 2), "line 2: the entries 2 to 2 before it"),
        (|lines| lines.truncate(3), "audit-head.md: names entry 5, but the chain ends with 3"),
        (|lines| drop(lines.drain(..2)), "line 1: the entries 1 to 2 before it are missing"),
        (|lines| lines.insert(2, lines[1].clone()), "line 3: entry 2 is in the wrong place"),
        (|lines| lines[2] = "{}\n".to_owned(), "line 3: was changed"),
    ];
    for (damage, expected) in cases {
        let place = AuditPlace::new();
        place.append(5);
        place.edit(damage);
        assert!(place.fault().contains(expected), "{} is not {expected}", place.fault());
        // The fault stays after the next start.
        place.append(1);
        assert!(!place.fault().is_empty(), "{expected}");
    }
}

#[test]
fn entries_cut_off_between_two_starts_stay_visible() {
    let place = AuditPlace::new();
    place.append(5);
    place.edit(|lines| lines.truncate(3));
    place.append(1);
    assert!(place.text().contains("chain-broken"), "{}", place.text());
    assert!(place.fault().contains("line 4: the entries 4 to 5 before it"), "{}", place.fault());
}

#[test]
fn a_chain_that_was_written_again_does_not_match_an_entry_stored_elsewhere() {
    let place = AuditPlace::new();
    place.append(3);
    let anchor = place.report().head.unwrap();
    assert_eq!(AuditHead::parse(&anchor.to_string()), Some(anchor.clone()));
    fs::remove_dir_all(place.folder.path().join("state")).unwrap();
    place.append(4);
    assert_eq!(place.fault(), "", "without an anchor it looks complete");
    let report = verify_audit(place.folder.path(), Some(&anchor)).unwrap();
    assert!(report.fault.unwrap().problem.contains("written again"));
}

#[test]
fn a_torn_line_is_closed_by_an_entry() {
    for cut in [1, 20, 100] {
        let place = AuditPlace::new();
        place.append(3);
        let text = place.text();
        // The head names entry 2 at most when the third line was cut off.
        let second = text.lines().nth(1).unwrap();
        let hash = &second[second.len() - 66..second.len() - 2];
        let head = AuditHead { number: 2, hash: hash.to_owned() };
        place.files.save_head(&head, &[]).unwrap();
        fs::write(place.file(), &text[..text.len() - cut]).unwrap();
        assert_eq!(place.fault(), "");
        assert_eq!(place.report().notes.len(), 1);
        place.append(1);
        assert_eq!(place.fault(), "", "{}", place.text());
        assert_eq!(place.text().contains("line-torn"), cut > 1, "{}", place.text());
    }
}

#[test]
fn two_processes_append_to_one_chain() {
    let place = AuditPlace::new();
    let mut first = AuditChain::open(&place.files, &redactor()).unwrap();
    let mut second = AuditChain::open(&place.files, &redactor()).unwrap();
    for number in 0..6 {
        let chain = if number % 3 == 0 { &mut second } else { &mut first };
        let entry = AuditEntry::new(AuditKind::TurnBegun).with("turn", number);
        chain.append(&[(Timestamp::now(), entry)], &redactor()).unwrap();
    }
    assert_eq!((place.report().entries, place.fault()), (6, String::new()), "{}", place.text());
}

#[test]
fn a_process_that_does_not_release_the_lock_delays_a_writer_for_a_short_time() {
    let place = AuditPlace::new();
    place.append(1);
    let lock = fs::File::open(place.folder.path().join("state/audit/lock")).unwrap();
    lock.lock().unwrap();
    let refused = AuditChain::open(&place.files, &redactor()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
    lock.unlock().unwrap();
    AuditChain::open(&place.files, &redactor()).unwrap();
}

#[test]
fn entries_stay_in_order_when_the_clock_is_set_back() {
    let place = AuditPlace::new();
    place.append(1);
    let later = place.folder.path().join("state/audit/2999-01.jsonl");
    fs::rename(place.file(), &later).unwrap();
    place.append(2);
    assert_eq!(place.file(), later);
    assert_eq!((place.report().entries, place.fault()), (3, String::new()));
}

#[test]
fn old_months_are_removed_and_the_rest_still_proves_its_beginning() {
    let place = AuditPlace::new();
    place.append(2);
    fs::rename(place.file(), place.folder.path().join("state/audit/2001-02.jsonl")).unwrap();
    place.append(1);
    let mut chain = AuditChain::open(&place.files, &redactor()).unwrap();
    chain.expire(Duration::MAX, &redactor()).unwrap();
    assert_eq!(place.files.months().unwrap().len(), 2);
    chain.expire(Duration::from_hours(24 * 400), &redactor()).unwrap();
    assert_eq!(place.files.months().unwrap().len(), 1);
    assert_eq!((place.report().entries, place.fault()), (2, String::new()), "{}", place.text());
    place.edit(|lines| drop(lines.remove(0)));
    assert!(place.fault().contains("before it are missing"), "{}", place.fault());
}

#[test]
fn names_cannot_forge_an_entry() {
    let place = AuditPlace::new();
    let log = AuditLog::start(place.folder.path(), Duration::MAX, redactor());
    let names = ["a\n{\"number\":9}", "\u{1b}[2K\r`b`", "c\",\"kind\":\"x", "d\u{202e}e", "\u{0}"];
    for name in names {
        log.note(AuditEntry::new(AuditKind::OfferPressed).with("name", name));
    }
    log.flush(Duration::from_secs(10));
    assert_eq!((place.report().entries, place.fault()), (names.len() as u64, String::new()));
    let mut read = Vec::new();
    read_audit(place.folder.path(), |record| read.push(record.fields["name"].clone())).unwrap();
    assert!(read.iter().all(|name| !name.chars().any(char::is_control)), "{read:?}");
    assert_eq!(read[2], "c\",\"kind\":\"x");
}

#[test]
fn entries_that_cannot_be_written_become_an_entry_about_the_gap() {
    let place = AuditPlace::new();
    fs::create_dir(place.folder.path().join("state")).unwrap();
    let obstacle = place.folder.path().join("state/audit");
    fs::write(&obstacle, "").unwrap();
    let log = AuditLog::start(place.folder.path(), Duration::MAX, redactor());
    for _ in 0..3 {
        log.note(AuditEntry::new(AuditKind::TurnBegun));
    }
    log.flush(Duration::from_secs(10));
    fs::remove_file(&obstacle).unwrap();
    log.note(AuditEntry::new(AuditKind::TurnEnded));
    log.flush(Duration::from_secs(10));
    let text = place.text();
    assert!(text.contains(r#""kind":"entries-lost","fields":{"count":"3""#), "{text}");
    assert_eq!(place.fault(), "");
}

/// Makes a folder in which the audit log cannot be written, and returns the obstacle.
fn obstructed() -> (AuditPlace, PathBuf) {
    let place = AuditPlace::new();
    fs::create_dir(place.folder.path().join("state")).unwrap();
    let obstacle = place.folder.path().join("state/audit");
    fs::write(&obstacle, "").unwrap();
    (place, obstacle)
}

/// Returns the numbers of lost entries, in order.
fn lost(place: &AuditPlace) -> Vec<u64> {
    let mut lost = Vec::new();
    read_audit(place.folder.path(), |record| {
        if record.kind == "entries-lost" {
            lost.push(record.fields["count"].parse().unwrap());
        }
    })
    .unwrap();
    lost
}

#[test]
fn the_number_of_lost_entries_survives_restarts_until_an_entry_has_it() {
    let (place, obstacle) = obstructed();
    for _ in 0..2 {
        let log = AuditLog::start(place.folder.path(), Duration::MAX, redactor());
        for _ in 0..3 {
            log.note(AuditEntry::new(AuditKind::TurnBegun));
        }
        log.flush(Duration::from_secs(10));
    }
    fs::remove_file(&obstacle).unwrap();
    for _ in 0..2 {
        let log = AuditLog::start(place.folder.path(), Duration::MAX, redactor());
        log.note(AuditEntry::new(AuditKind::TurnEnded));
        log.flush(Duration::from_secs(10));
        assert_eq!(lost(&place), [6]);
    }
    assert_eq!(place.fault(), "");
}

#[test]
fn a_gap_that_an_entry_has_is_not_counted_again_if_the_second_place_was_not_saved() {
    let (place, obstacle) = obstructed();
    let log = AuditLog::start(place.folder.path(), Duration::MAX, redactor());
    log.note(AuditEntry::new(AuditKind::TurnBegun));
    log.flush(Duration::from_secs(10));
    let second_place = place.folder.path().join("state/audit-head.md");
    let before = fs::read(&second_place).unwrap();
    fs::remove_file(&obstacle).unwrap();
    log.note(AuditEntry::new(AuditKind::TurnEnded));
    log.flush(Duration::from_secs(10));
    drop(log);
    assert_eq!(lost(&place), [1]);
    // As if the process was killed between both writes.
    fs::write(&second_place, before).unwrap();
    let next = AuditLog::start(place.folder.path(), Duration::MAX, redactor());
    next.note(AuditEntry::new(AuditKind::TurnEnded));
    next.flush(Duration::from_secs(10));
    assert_eq!(lost(&place), [1]);
    assert_eq!(place.fault(), "");
}

#[test]
fn a_gap_that_two_processes_know_is_counted_once() {
    let (place, obstacle) = obstructed();
    let start = || AuditLog::start(place.folder.path(), Duration::MAX, redactor());
    let note = |log: &AuditLog| {
        log.note(AuditEntry::new(AuditKind::TurnBegun));
        log.flush(Duration::from_secs(10));
    };
    let gateway = start();
    note(&gateway);
    // The console learns of that entry, and both lose another one.
    let console = start();
    note(&gateway);
    note(&console);
    fs::remove_file(&obstacle).unwrap();
    note(&console);
    note(&gateway);
    assert_eq!(lost(&place).iter().sum::<u64>(), 3, "{}", place.text());
    note(&start());
    note(&console);
    assert_eq!(lost(&place).iter().sum::<u64>(), 3, "{}", place.text());
    assert_eq!(place.fault(), "");
}

#[test]
fn a_gap_of_a_killed_process_stays_known_while_another_one_writes() {
    let (place, obstacle) = obstructed();
    let start = || AuditLog::start(place.folder.path(), Duration::MAX, redactor());
    let note = |log: &AuditLog| {
        log.note(AuditEntry::new(AuditKind::TurnBegun));
        log.flush(Duration::from_secs(10));
    };
    let (console, gateway) = (start(), start());
    note(&gateway);
    drop(gateway);
    fs::remove_file(&obstacle).unwrap();
    note(&console);
    assert!(lost(&place).is_empty());
    note(&start());
    assert_eq!(lost(&place), [1]);
    assert_eq!(place.fault(), "");
}

#[test]
fn entries_beyond_the_queue_are_counted_and_every_entry_is_either_written_or_counted() {
    const NOTED: u64 = 6_000;
    let place = AuditPlace::new();
    place.append(1);
    // The thread waits for this lock with its first batch, so that the queue fills up.
    let lock = fs::File::open(place.folder.path().join("state/audit/lock")).unwrap();
    lock.lock().unwrap();
    let log = AuditLog::start(place.folder.path(), Duration::MAX, redactor());
    for number in 0..NOTED {
        log.note(AuditEntry::new(AuditKind::TurnEnded).with("turn", number));
    }
    lock.unlock().unwrap();
    let written = || {
        let mut written = 0;
        read_audit(place.folder.path(), |record| {
            written += u64::from(record.kind == "turn-ended");
        })
        .unwrap();
        written + lost(&place).iter().sum::<u64>()
    };
    let limit = std::time::Instant::now() + Duration::from_secs(60);
    while written() < NOTED && std::time::Instant::now() < limit {
        // The queue may be full, and a flush then returns at once.
        log.flush(Duration::from_secs(1));
        log.note(AuditEntry::new(AuditKind::GatewayStarted));
    }
    assert!(!lost(&place).is_empty());
    assert!(written() >= NOTED, "{} of {NOTED}", written());
    assert_eq!(place.fault(), "");
}

#[test]
fn a_line_without_an_end_is_a_fault_and_is_not_held_in_memory() {
    let place = AuditPlace::new();
    place.append(2);
    let file = fs::OpenOptions::new().append(true).open(place.file()).unwrap();
    // A file with a hole: zeros, without a line break.
    file.set_len(64 << 20).unwrap();
    let report = place.report();
    assert_eq!((report.entries, report.fault), (2, None));
    assert!(report.notes[0].contains("line 3 was cut off"), "{:?}", report.notes);
    place.edit_end(b"\n{}\n");
    assert!(place.fault().contains("line 4: is not an entry"), "{}", place.fault());
}

fn read_part(place: &AuditPlace, query: &AuditQuery, before: Option<AuditPosition>) -> AuditSlice {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let reader = AuditReader::new(place.folder.path());
    runtime.block_on(reader.part(query.clone(), before, 20)).unwrap()
}

/// Returns the numbers of all entries that match, in the order of the parts.
fn read_backwards(place: &AuditPlace, query: &AuditQuery) -> (Vec<u64>, usize) {
    let (mut numbers, mut parts, mut before) = (Vec::new(), 0, None);
    loop {
        let slice = read_part(place, query, before);
        parts += 1;
        numbers.extend(slice.rows.iter().filter_map(|row| match row {
            AuditRow::Entry(record) => Some(record.number),
            AuditRow::NotAnEntry(_) => None,
        }));
        match slice.earlier {
            Some(earlier) => before = Some(earlier.to_string().parse().unwrap()),
            None => return (numbers, parts),
        }
    }
}

#[test]
fn entries_are_read_backwards_in_parts_over_blocks_and_months() {
    let place = AuditPlace::new();
    assert_eq!(read_part(&place, &AuditQuery::default(), None), AuditSlice::default());
    place.append(60);
    let early = place.files.of("2020-02-01".parse().unwrap());
    fs::rename(place.file(), early).unwrap();
    // Longer than a block in total, so that lines cross the ends of blocks.
    let mut chain = AuditChain::open(&place.files, &redactor()).unwrap();
    for _ in 0..2_000 {
        let entry = AuditEntry::new(AuditKind::TurnEnded).with("name", "Ann ".repeat(40));
        chain.append(&[(Timestamp::now(), entry)], &redactor()).unwrap();
    }
    let (numbers, parts) = read_backwards(&place, &AuditQuery::default());
    let expected: Vec<u64> = (1..=2_060).rev().collect();
    assert_eq!((numbers, parts), (expected, 103));
    let kind = |kind: &str| AuditQuery { kind: Some(kind.to_owned()), ..AuditQuery::default() };
    let (numbers, _) = read_backwards(&place, &kind("turn-begun"));
    assert_eq!(numbers, (1..=60).rev().collect::<Vec<u64>>());
    let ann = AuditQuery { person: Some("ANN".to_owned()), ..kind("turn-ended") };
    assert_eq!(read_backwards(&place, &ann).0.len(), 2_000);
    let other_day = AuditQuery { day: Some("2020-02-05".parse().unwrap()), ..ann };
    assert_eq!(read_backwards(&place, &other_day), (Vec::new(), 1));
}

#[test]
fn a_file_without_line_breaks_is_read_in_bounded_parts() {
    let place = AuditPlace::new();
    place.append(2);
    let mut text = "x".repeat(20 << 20);
    text.push_str(&place.text());
    fs::write(place.file(), text).unwrap();
    let first = read_part(&place, &AuditQuery::default(), None);
    let not_entries =
        first.rows.iter().filter(|row| matches!(row, AuditRow::NotAnEntry(_))).count();
    assert!(first.is_limited && first.earlier.is_some(), "{first:?}");
    assert!((10..20).contains(&not_entries), "{not_entries}");
    let (numbers, parts) = read_backwards(&place, &AuditQuery::default());
    assert_eq!((numbers.len(), parts), (1, 2), "the line break ends the long line");
    let kind = AuditQuery { kind: Some("no such kind".to_owned()), ..AuditQuery::default() };
    assert_eq!(read_backwards(&place, &kind).0, Vec::<u64>::new());
    assert!(place.fault().contains("line 1"), "{}", place.fault());
}

#[tokio::test]
async fn a_check_runs_once_at_a_time_and_reports_its_result() {
    let place = AuditPlace::new();
    place.append(3);
    let reader = AuditReader::new(place.folder.path());
    assert_eq!(reader.check(Duration::from_secs(30)).await, AuditCheck::NotStarted);
    reader.start_check();
    reader.start_check();
    let AuditCheck::Ended(_, report) = reader.check(Duration::from_secs(30)).await else {
        panic!("the check did not end");
    };
    assert_eq!((report.entries, report.fault), (3, None));
    fs::create_dir(place.files.of("2020-01-01".parse().unwrap())).unwrap();
    reader.start_check();
    let AuditCheck::Failed(_, why) = reader.check(Duration::from_secs(30)).await else {
        panic!("the folder was read");
    };
    assert!(why.starts_with("2020-01.jsonl: "), "{why}");
}
