//! The costs of turns. A user sees the sums of visible channels, and no other user's name.

use std::fs;

use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};

use super::{serving, with_dashboard};
use crate::support::browser::Browser;
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, OTHER, OWNER};
use crate::support::program::Installation;

const VIEW_CHANNEL: u64 = 1 << 10;

/// Returns the record of a turn that ended some hours ago.
fn turn_record(hours: i64, channel: u64, (user, name): (u64, &str), cost: Option<f64>) -> Value {
    let usage = json!({
        "input": 1_000, "output": 20, "cached": 900, "reasoning": 7, "cost-usd": cost,
        "context-used": null, "context-size": null,
    });
    json!({
        "ended": (Timestamp::now() - hours.hours()).to_string(), "took-ms": 1_800_000,
        "turn": "ab12cd34", "event": 1, "lane": format!("channel:{channel}"), "kind": "message",
        "user": user, "name": name, "backend": "claude", "model": "opus", "how": "done",
        "tools": 0, "usage": usage,
    })
}

/// Writes records of turns into the gateway's folder.
fn write_records(installation: &Installation, turns: &[Value]) {
    let folder = installation.path("config/state/turns");
    fs::create_dir_all(&folder).unwrap();
    for turn in turns {
        let day = &turn["ended"].as_str().unwrap()[..10];
        let path = folder.join(format!("{day}.jsonl"));
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, format!("{before}{turn}\n")).unwrap();
    }
}

#[tokio::test]
async fn owners_see_how_much_of_each_budget_is_used() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let budgets = "# Budgets\n\n## team\n- cap: $50 a month\n- cap: 9 turns a month\n";
    fs::write(installation.path("config/budgets.md"), budgets).unwrap();
    let mut turn = turn_record(0, CHANNEL, (ANN, "ann"), Some(20.0));
    // Turns that started no agent do not count.
    turn["link"] = "ab12cd34".into();
    write_records(&installation, &[turn]);
    let _program = serving(&installation).await;
    let olga = Browser::signed_in(&local, OTHER, OWNER).await;
    let all = olga.get("/costs").await.body;
    for part in ["<h2>Budgets</h2>", "<td>$20.00</td><td>$50.00</td><td>40 %</td>", "<td>11 %</td>"]
    {
        assert!(all.contains(part), "{part} is missing in\n{all}");
    }
    let bob = Browser::signed_in(&local, OTHER, BOB).await;
    assert!(!bob.get("/costs").await.body.contains("Budgets"));
}

#[tokio::test]
async fn users_see_the_costs_of_their_channels_and_owners_see_all() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let mut failed = turn_record(1, CHANNEL, (ANN, "ann"), None);
    failed["how"] = json!({ "failed": "timed-out" });
    let mut mute = turn_record(2, OTHER, (BOB, "bob"), None);
    mute["usage"] = Value::Null;
    let mut job = turn_record(3, 0, (0, "x"), Some(5.0));
    (job["lane"], job["kind"]) = ("cron:nightly".into(), "cron".into());
    (job["user"], job["name"]) = (Value::Null, Value::Null);
    let ann = turn_record(1, CHANNEL, (ANN, "ann"), Some(1.25));
    let long_ago = turn_record(24 * 40, OTHER, (BOB, "robert"), Some(100.0));
    let (elsewhere, gone) =
        (turn_record(2, OTHER, (BOB, "bob"), Some(0.5)), turn_record(1, 77, (9, "zoe"), Some(2.0)));
    write_records(&installation, &[ann, failed, elsewhere, mute, job, gone, long_ago]);
    let program = serving(&installation).await;
    local.faults().deny(CHANNEL, BOB, VIEW_CHANNEL);
    let bob = Browser::signed_in(&local, OTHER, BOB).await;
    let olga = Browser::signed_in(&local, OTHER, OWNER).await;

    let his = bob.get("/costs").await.body;
    for part in [
        "<dt>Cost</dt><dd>$0.50 of 1</dd>",
        "Costs are list prices as agents report them; a subscription usually costs less.",
        "<dt>Turns</dt><dd>2, 0 failed</dd>",
        "<dt>Agent hours</dt><dd>1.00</dd>",
        "1000 in, 900 of them cached; 20 out, 7 of them thinking",
        "#other",
        "opus",
        "role=\"img\"",
    ] {
        assert!(his.contains(part), "{part} is missing in\n{his}");
    }
    for part in [">ann<", "general", "zoe", "nightly", "cron jobs", "robert", "channel:77", ".csv"]
    {
        let (_, main) = his.split_once("<main").unwrap();
        assert!(!main.contains(part), "{part} is in\n{main}");
    }
    assert_eq!(bob.get("/costs.csv").await.status, 404);
    let longer = bob.get("/costs?days=90").await.body;
    assert!(longer.contains("$100.50 of 2") && longer.contains("<td>$100.00</td>"), "{longer}");

    let all = olga.get("/costs?days=nonsense&days=7").await.body;
    for part in [
        "<dt>Cost</dt><dd>$8.75 of 4</dd>",
        "<dt>Turns</dt><dd>6, 1 failed</dd>",
        "#general",
        "cron:nightly",
        "cron jobs",
        "channel:77",
        "zoe",
        "/costs.csv?days=30",
    ] {
        assert!(all.contains(part), "{part} is missing in\n{all}");
    }
    let csv = olga.get("/costs.csv?days=90").await;
    assert_eq!(csv.header("content-type"), "text/csv; charset=utf-8");
    assert!(csv.header("content-disposition").contains("attachment"));
    assert_eq!(csv.body.lines().count(), 1 + 5, "{}", csv.body);
    assert!(
        csv.body.contains(&format!(
            ",channel:{OTHER},{BOB},bob,claude,2,0,3600000,1,1000,20,900,7,1,0.500000\r\n"
        )),
        "{}",
        csv.body
    );

    local.mention(OTHER, BOB, "hello");
    program.logs("answer delivered").await;
    let more = bob.get("/costs").await.body;
    assert!(more.contains("3, 0 failed"), "the turn that just ended is counted: {more}");
    let mut stranger = bob.clone();
    stranger.cookie.clear();
    assert_eq!(stranger.get("/costs").await.status, 401);

    let report = installation.run(&["costs", "--days", "90"], "").await;
    assert_eq!(report.code, 0, "{}", report.stderr);
    for part in ["$108.75 of 5", "channel:77", "zoe", "unknown"] {
        assert!(report.stdout.contains(part), "{part} is missing in\n{}", report.stdout);
    }
    assert!(!report.stdout.contains("robert"), "bob's latest name is shown:\n{}", report.stdout);
    let sheet = installation.run(&["costs", "--days", "90", "--csv"], "").await;
    assert!(sheet.stdout.starts_with("day,lane,user,name,"), "{}", sheet.stdout);
    assert_eq!(sheet.stdout.lines().count(), 1 + 6, "{}", sheet.stdout);
}

#[tokio::test]
async fn hundreds_of_channels_and_users_with_hostile_names_fit_on_one_page() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let turns: Vec<Value> = (0..400)
        .map(|number| {
            let name = format!("<script>\"&'{number}</script> =1+1 {}", "&".repeat(90));
            let hours = 24 * (i64::try_from(number).unwrap() % 90);
            let mut turn = turn_record(hours, 10_000 + number, (number, &name), Some(0.001));
            turn["model"] = json!(format!("<b>{number}</b>{}", "<".repeat(80)));
            turn["backend"] = json!(format!("<b>{number}</b>"));
            turn["usage"]["cost-usd"] = json!(if number % 7 == 0 { 1e300 } else { 999_999.0 });
            turn
        })
        .collect();
    write_records(&installation, &turns);
    write_records(&installation, &[turn_record(1, OTHER, (BOB, "=1+1"), Some(0.5))]);
    let today = Timestamp::now().to_string()[..10].to_owned();
    let path = installation.path("config/state/turns").join(format!("{today}.jsonl"));
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        format!("{whole}{{\"lane\":7}}\n<b>by hand</b>\n{}", &turns[0].to_string()[..99]),
    )
    .unwrap();
    let _bot = serving(&installation).await;
    let bob = Browser::signed_in(&local, OTHER, BOB).await;
    let olga = Browser::signed_in(&local, OTHER, OWNER).await;
    // `Browser` checks the size and the HTML of each page.
    let all = olga.get("/costs?days=90").await.body;
    assert!(all.contains("401, 0 failed") && all.contains("389 others"), "{all}");
    assert!(all.contains("&lt;script&gt;"), "{all}");
    let before = local.requests().len();
    let his = bob.get("/costs?days=90").await.body;
    let asked = local.requests().len() - before;
    assert!(asked <= 3 * 60, "Discord was asked {asked} times for one page");
    assert!(his.contains("Left out: 341 channels with fewer turns."), "{his}");
    assert!(!his.contains("script&gt;"), "{his}");
    let csv = olga.get("/costs.csv?days=7").await.body;
    assert!(csv.contains(",'=1+1,"), "{csv}");
    assert!(csv.lines().skip(1).all(|line| !line.contains(",=") && !line.contains(",\"=")));
}
