use std::fs;
use std::path::Path;

use super::ledger::LedgerFile;
use super::line::code;
use super::*;
use crate::disk::Stamp;
use crate::workspace::stable_read;

#[derive(Clone, Debug, PartialEq)]
struct Item(String, String);

impl StateEntry for Item {
    type Key = String;
    const FILE: &str = "items.md";
    const HEADING: &str = "";

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        match tokens {
            [Token::Code(key), Token::Code(value)] => Ok(Self(key.clone(), value.clone())),
            _ => Err(EntryError::Parts("two values")),
        }
    }

    fn key(&self) -> String {
        self.0.clone()
    }

    fn write(&self) -> String {
        format!("{} {}", code(&self.0), code(&self.1))
    }
}

fn item(key: &str, value: &str) -> Item {
    Item(key.to_owned(), value.to_owned())
}

fn stamp(path: &Path) -> Stamp {
    stable_read::stamp(path).unwrap().unwrap()
}

fn inode(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap())
}

#[test]
fn a_new_entry_is_appended_and_a_known_one_does_not_change_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.md");
    let mut ledger = LedgerFile::open(&path, "# Heading\n\n").unwrap();
    ledger.put(item("a", "1")).unwrap();
    let first = inode(&path);
    ledger.put(item("b", "2`%\n")).unwrap();
    assert_eq!(inode(&path), first, "the file was rewritten");
    let before = stamp(&path);
    ledger.put(item("a", "1")).unwrap();
    assert_eq!(stamp(&path), before);
    ledger.put(item("a", "3")).unwrap();
    ledger.entries.remove("b");
    ledger.save().unwrap();
    ledger.put(item("c", "4")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "# Heading\n\n- `a` `3`.\n- `c` `4`.\n");
    assert!(!ledger.refresh().unwrap(), "it knows the state after its own write");
    assert_eq!(LedgerFile::<Item>::open(&path, "").unwrap().entries, ledger.entries);
}

#[test]
fn an_entry_that_cannot_be_written_is_in_force_and_written_with_the_next_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.md");
    let mut ledger = LedgerFile::open(&path, "").unwrap();
    ledger.put(item("a", "1")).unwrap();
    // A full disk.
    let whole = (ledger.path.clone(), ledger.stamp);
    (ledger.path, ledger.stamp) = ("/dev/full".into(), Some(stamp(Path::new("/dev/full"))));
    ledger.put(item("b", "2")).unwrap_err();
    assert!(!ledger.refresh().unwrap() && ledger.entries.contains_key("b"), "it is forgotten");
    (ledger.path, ledger.stamp) = whole;
    ledger.put(item("b", "2")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "- `a` `1`.\n- `b` `2`.\n");
}

#[test]
fn a_last_line_that_was_cut_off_anywhere_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.md");
    let whole = "- `a` `1`.\n- `b` `2`.";
    for cut in 11..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut ledger = LedgerFile::<Item>::open(&path, "").unwrap();
        assert_eq!(ledger.entries.keys().collect::<Vec<_>>(), ["a"], "{}", &whole[..cut]);
        assert_eq!(ledger.warnings.len(), usize::from(cut > 13), "{:?}", ledger.warnings);
        // The result stays the same once another line follows.
        ledger.put(item("c", "4")).unwrap();
        let again = LedgerFile::<Item>::open(&path, "").unwrap();
        assert_eq!(again.entries.keys().collect::<Vec<_>>(), ["a", "c"], "{}", &whole[..cut]);
    }
    // An editor removed the line end.
    fs::write(&path, "- `a` `1`.\n- `b` `2`.").unwrap();
    let mut ledger = LedgerFile::<Item>::open(&path, "").unwrap();
    assert_eq!(ledger.entries.len(), 2);
    assert_eq!(ledger.warnings, Vec::<String>::new());
    ledger.put(item("c", "4")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "- `a` `1`.\n- `b` `2`.\n- `c` `4`.\n");
}

#[test]
fn a_line_is_appended_after_a_torn_one_and_changes_by_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.md");
    let mut ledger = LedgerFile::open(&path, "").unwrap();
    ledger.put(item("a", "1")).unwrap();
    // Another program changes the file, and the line is cut off.
    fs::write(&path, "- `a` `1`\n- `by hand` `5`").unwrap();
    ledger.put(item("b", "2")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "- `a` `1`\n- `by hand` `5`\n- `b` `2`.\n");
    assert!(ledger.refresh().unwrap());
    assert_eq!(ledger.entries.keys().collect::<Vec<_>>(), ["a", "b", "by hand"]);
}
