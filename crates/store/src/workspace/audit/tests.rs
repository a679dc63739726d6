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

    /// Replaces the lines of the file.
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
        place.files.save_head(&head).unwrap();
        fs::write(place.file(), &text[..text.len() - cut]).unwrap();
        assert_eq!(place.fault(), "");
        assert_eq!(place.report().notes.len(), 1);
        place.append(1);
        assert_eq!(place.fault(), "", "{}", place.text());
        assert_eq!(place.text().contains("line-torn"), cut > 1, "{}", place.text());
    }
}

#[test]
fn a_second_writer_is_refused() {
    let place = AuditPlace::new();
    let first = AuditChain::open(&place.files, &redactor()).unwrap();
    let second = AuditChain::open(&place.files, &redactor()).unwrap_err();
    assert_eq!(second.kind(), std::io::ErrorKind::WouldBlock);
    drop(first);
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
