use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;
use aetheel_model::agent::{ModelUsage, Usage};
use aetheel_model::event::EventKind;
use aetheel_model::id::{ChannelId, UserId};

const NOON: &str = "2026-08-06T12:00:00Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

pub(super) fn line(turn: &str, ended: &str) -> TurnLine {
    TurnLine {
        ended: at(ended),
        took_ms: 1_500,
        turn: turn.to_owned(),
        event: 7,
        lane: Lane::Channel(ChannelId::discord(42)),
        parent: None,
        project: None,
        kind: EventKind::Message,
        user: Some(UserId::discord(3)),
        message: None,
        name: Some("ann".to_owned()),
        backend: "claude".to_owned(),
        component: "0.1.0".to_owned(),
        digest: "ab".repeat(32),
        agent_version: Some("2.0.0".to_owned()),
        model: Some("opus".to_owned()),
        how: TurnStatus::Done,
        tools: 2,
        usage: Some(Usage { input: 9, output: 4, cost_usd: Some(0.25), ..Usage::default() }),
        recording: Some(PathBuf::from("2026-08-06/x.jsonl")),
        link: Some("x".to_owned()),
        asked: Some(format!("the question of {turn}")),
        answered: Some(format!("the ANSWER of {turn}")),
    }
}

struct TurnsFixture {
    folder: TempDir,
    turns: FinishedTurns,
}

impl TurnsFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let turns = FinishedTurns::new(folder.path().join("turns"));
        Self { folder, turns }
    }

    async fn with(lines: &[TurnLine]) -> Self {
        let place = Self::new();
        lines.iter().cloned().for_each(|line| place.turns.note(line));
        place.turns.flush().await;
        place
    }

    fn file(&self, day: &str) -> PathBuf {
        self.folder.path().join("turns").join(format!("{day}.jsonl"))
    }

    fn text(&self, day: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.file(day)).unwrap_or_default()).into_owned()
    }

    fn add(&self, day: &str, text: impl AsRef<[u8]>) {
        let mut file = OpenOptions::new().append(true).open(self.file(day)).unwrap();
        file.write_all(text.as_ref()).unwrap();
    }

    async fn ids(&self, search: TurnSearch) -> Vec<String> {
        let search = TurnSearch { most: search.most.max(100), ..search };
        self.turns.search(search).await.into_iter().map(|line| line.turn).collect()
    }
}

fn words(words: &str) -> TurnSearch {
    TurnSearch { words: words.to_owned(), ..TurnSearch::default() }
}

#[tokio::test]
async fn a_turn_is_found_unchanged_and_only_the_owner_may_read_the_file() {
    let noted = TurnLine {
        kind: EventKind::Cron,
        lane: Lane::Cron("at night".to_owned()),
        how: TurnStatus::Failed("timed-out".to_owned()),
        user: None,
        name: None,
        ..line("one", NOON)
    };
    let place = TurnsFixture::with(&[noted.clone(), line("two", "2026-08-06T23:59:59.999Z")]).await;
    place.turns.note(line("three", "2026-08-07T00:00:00Z"));
    assert_eq!(place.turns.find("one").await, Some(noted));
    assert_eq!(place.turns.find("three").await.unwrap().ended, at("2026-08-07T00:00:00Z"));
    assert_eq!((place.turns.find("thre").await, place.turns.find("").await), (None, None));
    assert_eq!(place.text("2026-08-06").lines().count(), 2);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.file("2026-08-06")), 0o600);
    assert_eq!(mode(place.file("2026-08-06").parent().unwrap()), 0o700);
    assert!(place.text("2026-08-07").contains(r#""lane":"channel:42","kind":"message""#));
}

#[tokio::test]
async fn a_search_returns_the_newest_first_and_requires_all_words() {
    let other = TurnLine {
        lane: Lane::Console,
        name: Some("BOB".to_owned()),
        ..line("five", "2026-08-08T01:00:00Z")
    };
    let gone = line("four", "2026-08-07T02:00:00Z").without_texts();
    let days = ["2026-08-06T01:00:00Z", "2026-08-06T02:00:00Z", "2026-08-07T01:00:00Z"];
    let lines = [line("one", days[0]), line("two", days[1]), line("three", days[2]), gone, other];
    let place = TurnsFixture::with(&lines).await;
    assert_eq!(place.ids(words("")).await, ["five", "four", "three", "two", "one"]);
    assert_eq!(place.ids(words("Question answer TWO")).await, ["two"]);
    assert_eq!(place.ids(words("bob claude")).await, ["five"]);
    assert_eq!(place.ids(words("four")).await, ["four"], "its id remains");
    assert!(place.ids(words("two three")).await.is_empty());
    let lane = TurnSearch { lane: Some(Lane::Console), ..words("") };
    assert_eq!(place.ids(lane).await, ["five"]);
    let before = TurnSearch { before: Some(at(days[2])), ..words("") };
    assert_eq!(place.ids(before).await, ["two", "one"]);
    let few = |before: Option<Timestamp>, most| TurnSearch { before, most, ..words("") };
    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let page = place.turns.search(few(before, 2)).await;
        let Some(last) = page.last() else { break };
        before = Some(last.ended);
        pages.push(page.into_iter().map(|line| line.turn).collect::<Vec<_>>().join(" "));
    }
    assert_eq!(pages, ["five four", "three two", "one"]);
    assert!(place.turns.search(few(None, 0)).await.is_empty());
}

#[tokio::test]
async fn incomplete_lines_are_skipped_and_others_are_read() {
    let place = TurnsFixture::with(&[line("one", NOON)]).await;
    let day = "2026-08-06";
    let whole = serde_json::to_string(&line("by-hand", NOON)).unwrap();
    place.add(day, b"\xff\xfe\n\n{}\n[1]\n\"one\"\n");
    place.add(day, format!("{}\n", "x".repeat(3 * days::LINE_LIMIT)));
    place.add(day, format!("{}{whole}\n", " ".repeat(days::LINE_LIMIT)));
    place.add(day, format!("{{\"later\":true,{}\n", &whole[1..]));
    // A crash in the middle of a write leaves this.
    place.add(day, &whole[..whole.len() / 2]);
    place.turns.note(line("after", NOON));
    assert_eq!(place.ids(words("")).await, ["after", "by-hand", "one"]);
    assert!(place.text(day).lines().last().unwrap().starts_with(r#"{"ended""#));
    // A file whose name is not a day has no turns.
    fs::write(place.file("notes"), &whole).unwrap();
    fs::write(place.file("2026-8-6"), &whole).unwrap();
    fs::create_dir(place.file("2026-08-09")).unwrap();
    assert_eq!(place.ids(words("by-hand")).await, ["by-hand"]);
}

#[tokio::test]
async fn a_turn_that_an_earlier_process_noted_is_not_noted_twice() {
    let place = TurnsFixture::with(&[line("one", NOON)]).await;
    let next = FinishedTurns::new(place.folder.path().join("turns"));
    next.note_if_missing(line("one", NOON));
    next.note_if_missing(line("two", NOON));
    next.note_if_missing(line("two", NOON));
    assert_eq!(next.search(TurnSearch { most: 9, ..words("") }).await.len(), 2);
    // A torn line does not count, so the turn is noted again.
    let torn = serde_json::to_string(&line("three", NOON)).unwrap();
    place.add("2026-08-06", &torn[..torn.len() - 4]);
    next.note_if_missing(line("three", NOON));
    let found = next.search(TurnSearch { most: 9, ..words("three") }).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].turn, "three");
}

#[tokio::test]
async fn texts_are_removed_with_recordings_and_days_after_their_limit() {
    const DAY: u64 = 86_400;
    let now = Timestamp::now();
    let ago = |hours: i64| (now - jiff::SignedDuration::from_hours(hours)).to_string();
    let lines =
        [line("fresh", &ago(1)), line("week", &ago(7 * 24 + 1)), line("year", &ago(401 * 24 + 24))];
    let place = TurnsFixture::with(&lines).await;
    let week = days::day_of(lines[1].ended).to_string();
    place.add(&week, "{\"asked\":\"the question of a torn li");
    let retention = TurnRetention {
        texts: Duration::from_secs(7 * DAY),
        lines: Duration::from_secs(400 * DAY),
    };
    place.turns.tidy(retention).await.unwrap();
    assert_eq!(place.ids(words("")).await, ["fresh", "week"]);
    assert_eq!(place.turns.find("fresh").await, Some(lines[0].clone()));
    assert_eq!(place.turns.find("week").await, Some(lines[1].clone().without_texts()));
    assert!(!place.text(&week).contains("question"), "{}", place.text(&week));
    let mode = fs::metadata(place.file(&week)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    // A younger line of that day keeps its texts until it is old enough.
    let younger = line("younger", &ago(7 * 24 - 1));
    place.turns.note(younger.clone());
    place.turns.tidy(retention).await.unwrap();
    assert_eq!(place.turns.find("younger").await, Some(younger));
    place.turns.tidy(TurnRetention { texts: Duration::ZERO, ..retention }).await.unwrap();
    let found = place.turns.search(TurnSearch { most: 9, ..words("") }).await;
    assert!(found.len() == 3 && !found.iter().any(TurnLine::has_texts), "{found:?}");
    // A very large age limit removes nothing.
    place.turns.tidy(TurnRetention { texts: Duration::MAX, lines: Duration::MAX }).await.unwrap();
    assert_eq!(place.ids(words("")).await.len(), 3);
}

#[tokio::test]
async fn a_day_without_old_texts_is_not_rewritten() {
    let place = TurnsFixture::with(&[line("one", NOON)]).await;
    let retention = TurnRetention { texts: Duration::ZERO, lines: Duration::MAX };
    place.turns.tidy(retention).await.unwrap();
    let before = fs::metadata(place.file("2026-08-06")).unwrap();
    let again = FinishedTurns::new(place.folder.path().join("turns"));
    again.tidy(retention).await.unwrap();
    let after = fs::metadata(place.file("2026-08-06")).unwrap();
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(before.ino(), after.ino());
}

#[tokio::test]
async fn a_line_is_short_whatever_an_agent_reports() {
    let model = ModelUsage { model: "🦀\u{7}".repeat(50_000), ..ModelUsage::default() };
    let endless = TurnLine {
        asked: Some("\u{1}".repeat(50_000)),
        answered: Some("é".repeat(50_000)),
        name: Some("n\n".repeat(50_000)),
        agent_version: Some("v".repeat(50_000)),
        model: Some("m".repeat(50_000)),
        usage: Some(Usage { models: vec![model; 5_000], ..Usage::default() }),
        ..line("one", NOON)
    };
    let place = TurnsFixture::with(&[endless]).await;
    let found = place.turns.find("one").await.expect("it can be read again");
    let length = |text: &Option<String>| text.as_deref().unwrap_or_default().chars().count();
    assert_eq!((length(&found.asked), length(&found.answered)), (ASKED_LIMIT, ANSWERED_LIMIT));
    assert!(found.answered.unwrap().ends_with('…'));
    assert!(place.text("2026-08-06").len() < days::LINE_LIMIT / 2);
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_delays_nothing_and_is_used_again_later() {
    let place = TurnsFixture::new();
    fs::write(place.folder.path().join("turns"), "in the way").unwrap();
    for _ in 0..10_000 {
        place.turns.note(line("lost", NOON));
    }
    place.turns.flush().await;
    assert!(place.turns.search(TurnSearch { most: 9, ..words("") }).await.is_empty());
    fs::remove_file(place.folder.path().join("turns")).unwrap();
    place.turns.note(line("one", NOON));
    assert_eq!(place.ids(words("")).await, ["one"]);
}

#[tokio::test]
async fn days_are_summed_from_the_first_to_the_last() {
    let times = ["2026-08-05T23:59:59Z", "2026-08-06T00:00:00Z", NOON, "2026-08-08T00:00:00Z"];
    let lines: Vec<TurnLine> = times.iter().map(|time| line("x", time)).collect();
    let place = TurnsFixture::with(&lines).await;
    let (from, to) = (jiff::civil::date(2026, 8, 6), jiff::civil::date(2026, 8, 7));
    let sum = place.turns.days(from, to, 0, |sum, line| *sum += line.event).await;
    assert_eq!(sum, 14);
    let none = FinishedTurns::new(place.folder.path().join("nowhere"));
    assert_eq!(none.days(from, to, 1, |sum, _| *sum = 0).await, 1);
}

/// Prints how long reading takes.
#[tokio::test]
#[ignore = "a measurement: make measure"]
async fn a_hundred_thousand_lines() {
    let place = TurnsFixture::with(&[line("x", NOON)]).await;
    let text: String = (0..100_000)
        .map(|number| {
            let texts = Some("so it is said, in words of people ".repeat(15));
            let line = TurnLine {
                asked: texts.clone(),
                answered: texts.map(|text| text.repeat(2)),
                ..line(&format!("t{number}"), NOON)
            };
            serde_json::to_string(&line).unwrap() + "\n"
        })
        .collect();
    place.add("2026-08-06", &text);
    println!("{} MiB", text.len() >> 20);
    let began = std::time::Instant::now();
    let said = |what: &str, last: &mut std::time::Instant| {
        println!("{what}: {:?}", last.elapsed());
        *last = std::time::Instant::now();
    };
    let mut last = began;
    assert_eq!(place.turns.search(TurnSearch { most: 20, ..words("") }).await.len(), 20);
    said("the newest", &mut last);
    assert!(place.turns.search(TurnSearch { most: 20, ..words("nowhere said") }).await.is_empty());
    said("words that nothing has", &mut last);
    assert!(place.turns.find("t99999").await.is_some());
    said("one turn", &mut last);
    let day = days::day_of(at(NOON));
    assert_eq!(place.turns.days(day, day, 0, |count, _| *count += 1).await, 100_001);
    said("all", &mut last);
}
