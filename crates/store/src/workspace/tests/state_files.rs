//! Reads state files as earlier versions wrote them and as people edit them. Each kind of file is in
//! `fixtures/state/written` as the gateway writes it, and in `edited` with other forms that are read,
//! invalid lines and lines of newer versions. `read` has the entries and warnings of both, and
//! `rewritten` the edited file after the gateway wrote it again.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use aetheel_model::budget::BudgetGrant;
use aetheel_model::claim::Claim;

use super::super::bindings::SavedBinding;
use super::super::deliveries::WebhookDelivery;
use super::super::discord_notes::DiscordNote;
use super::super::state_file::LedgerFile;
use super::super::*;

/// Reads and writes a copy of a file. Returns its entries and warnings, and the text that was
/// written.
fn reread<E: StateEntry>(text: &str, name: &str) -> (String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("written");
    let mut file = LedgerFile::<E>::open(&path, "").expect("opened");
    let entries = file.entries.values().map(|entry| format!("{entry:?}\n"));
    let place = format!("{}/", folder.path().display());
    let warnings = file.warnings.iter().map(|warning| warning.replace(&place, "") + "\n");
    let read = entries.chain(warnings).collect();
    file.save().expect("saved");
    (read, fs::read_to_string(&path).expect("read"))
}

/// Returns whether a file is read and written as its fixtures say. Prints the differences.
fn is_unchanged<E: StateEntry>(name: &str) -> bool {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/state");
    let fixture = |folder: &str| fs::read_to_string(fixtures.join(folder).join(name));
    let (written, edited) = (fixture("written").expect(name), fixture("edited").expect(name));
    let (read, again) = reread::<E>(&written, name);
    let (read_edited, rewritten) = reread::<E>(&edited, name);
    let expected = fixtures.join("read").join(name).with_extension("txt");
    let texts = [
        (again, written),
        (format!("{read}\n{read_edited}"), fs::read_to_string(expected).expect(name)),
        (rewritten, fixture("rewritten").expect(name)),
    ];
    let differences = texts.iter().filter(|(found, expected)| found != expected);
    differences
        .inspect(|(found, expected)| println!("{name}: {found}\nexpected: {expected}"))
        .count()
        == 0
}

#[test]
fn state_files_of_earlier_versions_are_read_and_written_unchanged() {
    type Check = fn(&str) -> bool;
    let kinds: [(&str, Check); 18] = [
        ("agent-schedules.md", is_unchanged::<AgentSchedule>),
        ("baselines.md", is_unchanged::<SavedBaseline>),
        ("budgets.md", is_unchanged::<BudgetGrant>),
        ("claims.md", is_unchanged::<Claim>),
        ("collisions.md", is_unchanged::<CollisionMute>),
        ("discord.md", is_unchanged::<DiscordNote>),
        ("drift.md", is_unchanged::<Drift>),
        ("history.md", is_unchanged::<PastConversation>),
        ("limits.md", is_unchanged::<LimitNote>),
        ("lost.md", is_unchanged::<LostTurn>),
        ("mending.md", is_unchanged::<MendingNote>),
        ("rollout-history.md", is_unchanged::<EndedRollout>),
        ("rollouts.md", is_unchanged::<RolloutNote>),
        ("schedules.md", is_unchanged::<ScheduleProgress>),
        ("sessions.md", is_unchanged::<SavedBinding>),
        ("shares.md", is_unchanged::<TurnShare>),
        ("sign-ins.md", is_unchanged::<SavedSignIn>),
        ("webhooks.md", is_unchanged::<WebhookDelivery>),
    ];
    let changed: Vec<&str> =
        kinds.iter().filter(|(name, check)| !check(name)).map(|(name, _)| *name).collect();
    assert_eq!(changed, [""; 0]);
}

#[tokio::test]
async fn a_folder_with_edited_state_files_opens_and_its_invalid_lines_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/state/edited");
    let state = folder.path().join("state");
    fs::create_dir(&state).expect("created");
    for file in fs::read_dir(fixtures).expect("fixtures") {
        let file = file.expect("a file");
        fs::copy(file.path(), state.join(file.file_name())).expect("copied");
    }
    Workspace::open(folder.path()).await.expect("opened");
    let faults = inspect(folder.path()).await;
    let files: BTreeSet<_> = faults.iter().filter_map(|fault| fault.split('`').nth(1)).collect();
    assert_eq!(files.len(), 18, "{files:?}");
}
