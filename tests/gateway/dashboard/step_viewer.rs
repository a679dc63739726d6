//! The step viewer: stepping through a turn, searching, and hostile input, records and recordings.

use super::{serving, with_dashboard};
use crate::support::browser::{Browser, Page};
use crate::support::discord::{ANN, CHANNEL, DIRECT, LocalDiscord, OWNER};
use crate::support::program::Program;

/// Sends a prompt of Ann and waits for the end of the turn number `which` of the bot. Returns its
/// id.
async fn run_turn(
    local: &LocalDiscord,
    bot: &Program,
    channel: u64,
    which: usize,
    asks: &str,
) -> String {
    if channel == DIRECT {
        local.say(channel, ANN, asks);
    } else {
        local.mention(channel, ANN, asks);
    }
    let ended = |_: &LocalDiscord| {
        let log = bot.log();
        let ends = ["turn ended", "turn failed"];
        let mut ended = log.iter().filter(|line| ends.iter().any(|end| line["message"] == *end));
        Some(ended.nth(which - 1)?["turn"].as_str().unwrap().to_owned())
    };
    local.wait_for("the turn's end", ended).await
}

/// Returns the target of the link with this text.
fn link_target(page: &Page, says: &str) -> Option<String> {
    let (before, _) = page.body.split_once(&format!(">{says}</a>"))?;
    let (_, href) = before.rsplit_once("href=\"")?;
    Some(href.split('"').next().unwrap().replace("&amp;", "&"))
}

#[tokio::test]
async fn an_owner_steps_through_a_turn_and_finds_words_in_it() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let bot = serving(&installation).await;
    let id = run_turn(&local, &bot, CHANNEL, 1, "tool ls").await;
    let noisy = run_turn(&local, &bot, CHANNEL, 2, "noise").await;
    let olga = Browser::signed_in(&local, CHANNEL, OWNER).await;
    let path = format!("/turns/{id}/machine");
    let first = olga.get(&path).await;
    assert_eq!(first.status, 200);
    for part in ["gateway: the turn begins", "tool ls", "Nothing yet.", "The turn continues.", &id]
    {
        assert!(first.body.contains(part), "{part} is missing in\n{}", first.body);
    }
    assert!(link_target(&first, "Previous").is_none() && link_target(&first, "First").is_none());
    // Step by step to the end, the shown answer grows.
    let (mut page, mut steps) = (first, 1);
    while let Some(next) = link_target(&page, "Next") {
        assert_eq!(next, format!("{path}?step={}", steps + 1));
        page = olga.get(&next).await;
        steps += 1;
    }
    assert!(steps > 5, "{steps} steps");
    let shown = page.body.split_once("id=\"shown\"").unwrap().1;
    assert!(shown.contains("One tool worked, one did not."), "{shown}");
    assert!(!shown.contains("The turn continues."), "{shown}");
    let answer = local.wait_for_message(CHANNEL, |text| text.contains("One tool worked")).await;
    let text = answer.content.lines().next().unwrap().to_owned();
    assert!(shown.contains(&text), "the text in Discord, {text:?}, is missing in\n{shown}");
    let last = link_target(&olga.get(&path).await, "Last").unwrap();
    assert_eq!(last, format!("{path}?step={steps}"));

    let hit = olga.get(&format!("{path}?step=1&q=MISSING.txt%20read&go=hit")).await;
    assert_eq!(hit.status, 303);
    let place = hit.header("location").to_owned();
    assert!(place.ends_with("&q=MISSING.txt%20read"), "{place}");
    let page = olga.get(&place).await;
    assert!(page.body.contains("missing.txt") && page.body.contains("value=\"MISSING.txt read\""));
    let nothing = olga.get(&format!("{path}?step={steps}&q=missing&go=hit")).await;
    let page = olga.get(nothing.header("location")).await;
    assert!(page.body.contains("No further step contains these words."), "{}", page.body);

    let page = olga.get(&format!("/turns/{noisy}/machine")).await;
    let mut unknown = olga.get(&link_target(&page, "Next unknown output").expect("drift")).await;
    while !unknown.body.contains("hologram") {
        unknown =
            olga.get(&link_target(&unknown, "Next unknown output").expect("more drift")).await;
    }
    let seen = olga.get(&link_target(&page, "Next visible step").expect("an answer")).await;
    assert!(seen.body.contains("There was"), "{}", seen.body);
}

#[tokio::test]
async fn only_owners_can_look_and_hostile_addresses_and_output_are_harmless() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local).with("ALLOWED_USERS", &format!("{ANN},{OWNER}"));
    let bot = serving(&installation).await;
    let script = "<script>alert(1)</script>\u{202e}\" onclick=\"x";
    let id = run_turn(&local, &bot, CHANNEL, 1, script).await;
    let private = run_turn(&local, &bot, DIRECT, 2, "this is private").await;
    let long = run_turn(&local, &bot, CHANNEL, 3, "long 60000").await;
    let (ann, olga) = (
        Browser::signed_in(&local, CHANNEL, ANN).await,
        Browser::signed_in(&local, CHANNEL, OWNER).await,
    );
    let path = format!("/turns/{id}/machine");
    assert_eq!(ann.get(&path).await.status, 404, "the prompt is hers, but she is not an owner");
    assert_eq!(Browser::new(&url(&bot).await).get(&path).await.status, 401);
    for turn in [private.as_str(), "00000000", "..%2F..%2Fetc", "%00", &"a".repeat(300), "é"] {
        assert_eq!(olga.get(&format!("/turns/{turn}/machine")).await.status, 404, "{turn}");
    }
    for (asked, step) in [("0", 1), ("-1", 1), ("abc", 1), ("", 1), ("99999999999999999999", 1)] {
        let page = olga.get(&format!("{path}?step={asked}")).await;
        assert_eq!(page.status, 200, "{asked}");
        assert!(page.body.contains(&format!("for=\"step\">{step}</output>")), "{asked}");
    }
    let beyond = olga.get(&format!("{path}?step=4000000")).await;
    assert!(link_target(&beyond, "Next").is_none() && link_target(&beyond, "Previous").is_some());
    for query in [
        "step=1&step=2&q=a&q=b",
        "q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
        "part=-1&more=999999",
    ] {
        let page = olga.get(&format!("{path}?{query}")).await;
        assert_eq!(page.status, 200, "{query}");
        assert!(!page.body.contains("<script>"), "{query}");
    }
    // On all steps, HTML is escaped and control characters are removed.
    let mut next = Some(path.clone());
    while let Some(at) = next {
        let page = olga.get(&at).await;
        assert!(!page.body.contains("<script>") && !page.body.contains('\u{202e}'), "{at}");
        next = link_target(&page, "Next");
    }
    let last = olga.get(&format!("/turns/{long}/machine?step=1000000")).await;
    assert_eq!(last.status, 200);
    let hit = olga.get(&format!("/turns/{long}/machine?q=start-turn&step=1")).await;
    assert_eq!(hit.status, 200);
}

async fn url(bot: &Program) -> String {
    format!("http://{}", crate::support::browser::address(bot).await)
}

#[tokio::test]
async fn missing_and_damaged_recordings_and_invalid_names_are_reported() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let bot = serving(&installation).await;
    let mut ids = Vec::new();
    for event in 1..=4 {
        ids.push(run_turn(&local, &bot, CHANNEL, event, "hello").await);
    }
    let olga = Browser::signed_in(&local, CHANNEL, OWNER).await;
    let page = async |id: &str| olga.get(&format!("/turns/{id}/machine")).await;
    for id in &ids {
        assert!(page(id).await.body.contains("gateway: the turn begins"));
    }
    let file = |id: &str| {
        let days = std::fs::read_dir(installation.path("recordings")).unwrap();
        let day = days.map(|day| day.unwrap().path()).find(|day| day.is_dir()).unwrap();
        day.join(format!("{id}.jsonl"))
    };
    std::fs::remove_file(file(&ids[0])).unwrap();
    let gone = page(&ids[0]).await;
    assert!(gone.status == 200 && gone.body.contains("no longer exists"), "{}", gone.body);
    let text = std::fs::read_to_string(file(&ids[1])).unwrap();
    let damaged = text.replacen("{\"t\":", "{\"t\":oops", 6).replacen("{\"t\":oops", "{\"t\":", 5);
    std::fs::remove_file(file(&ids[1])).unwrap();
    std::fs::write(file(&ids[1]), damaged).unwrap();
    let damaged = page(&ids[1]).await;
    assert!(damaged.body.contains("of the recording is damaged"), "{}", damaged.body);
    let text = std::fs::read_to_string(file(&ids[2])).unwrap();
    std::fs::remove_file(file(&ids[2])).unwrap();
    std::fs::write(file(&ids[2]), &text[..text.find("\"ending\":").unwrap()]).unwrap();
    let cut = page(&ids[2]).await;
    assert!(cut.body.contains("ends before the turn does"), "{}", cut.body);

    let turns = installation.path("config/state/turns");
    let day = std::fs::read_dir(&turns).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&day).unwrap();
    let known: Vec<&str> = text.lines().filter(|line| line.contains(&ids[3])).collect();
    let named = known[0].split_once("\"recording\":\"").unwrap().1.split('"').next().unwrap();
    for elsewhere in ["../config/state/queue.md", "/etc/passwd", "../config/state/turns/x.jsonl"] {
        std::fs::write(&day, text.replace(named, elsewhere)).unwrap();
        let page = page(&ids[3]).await;
        assert!(page.body.contains("names no recording"), "{elsewhere}\n{}", page.body);
    }
}
