//! Sign-in links and sessions.

use reqwest::Method;
use rustix::process::Signal;

use super::{installed, serving, with_dashboard};
use crate::support::browser::{Browser, link};
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, OWNER};
use crate::support::program::LIMIT;

#[tokio::test]
async fn a_link_signs_in_once_and_viewing_it_does_not_use_it_up() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let bot = serving(&installation).await;
    let link = link(&local, CHANNEL, ANN).await;
    let (base, secret) = link.split_once("/enter/").unwrap();
    let mut browser = Browser::new(base);
    let door = format!("/enter/{secret}");

    // Programs that make previews of links send such requests.
    assert_eq!(browser.request(Method::HEAD, &door).send().await.unwrap().status(), 200);
    for _ in 0..2 {
        let page = browser.get(&door).await;
        assert!(page.status == 200 && page.header("set-cookie").is_empty());
    }
    let stranger = browser.get("/").await;
    assert!(stranger.status == 401 && stranger.body.contains("/dashboard"), "{}", stranger.body);

    let entered = browser.post("/enter", &[("link", secret)]).await;
    let cookie = entered.header("set-cookie").to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    browser.keep(&entered);
    let page = browser.get("/").await;
    assert!(
        page.status == 200 && page.body.contains("No turn is running or waiting"),
        "{}",
        page.body
    );
    assert_eq!(browser.post("/enter", &[("link", secret)]).await.status, 404, "a link works once");
    assert_eq!(browser.get(&door).await.status, 404);

    let left = browser.post("/leave", &[("csrf", &page.field("csrf"))]).await;
    assert!(left.status == 200 && left.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(browser.get("/").await.status, 401, "the cookie is no longer valid");
    let session = cookie.split(['=', ';']).nth(1).unwrap();
    for (file, bytes) in installation.everything() {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(secret) && !text.contains(session), "{}", file.display());
    }
    let log = bot.stderr();
    assert!(!log.contains(secret) && !log.contains(session), "{log}");
}

#[tokio::test]
async fn a_link_that_other_devices_cannot_open_says_so() {
    let local = LocalDiscord::start().await;
    for (url, is_local) in [("", true), ("https://agents.example.com", false)] {
        let installation = with_dashboard(&local).with("DASHBOARD_URL", url);
        let mut bot = serving(&installation).await;
        let answer = local.answer_to(local.slash(CHANNEL, ANN, "dashboard", None)).await.content;
        assert_eq!(answer.contains("sets `DASHBOARD_URL`"), is_local, "{answer}");
        bot.signal(rustix::process::Signal::TERM);
        bot.ended().await;
    }
}

#[tokio::test]
async fn revoking_signs_a_user_out_everywhere_but_nobody_else() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    let here = Browser::signed_in(&local, CHANNEL, ANN).await;
    let there = Browser::signed_in(&local, CHANNEL, ANN).await;
    let bob = Browser::signed_in(&local, CHANNEL, BOB).await;
    let mut events = here.follow().await;
    events.wait("cards", |_| true).await;
    let open = link(&local, CHANNEL, ANN).await;
    let answer = local.answer_to(local.slash(CHANNEL, ANN, "dashboard", Some("revoke"))).await;
    assert!(answer.ephemeral && answer.content.contains("2 times"), "{}", answer.content);
    while let Some((name, _)) = events.next().await {
        assert_eq!(name, "over");
    }
    assert_eq!((here.get("/").await.status, there.get("/").await.status), (401, 401));
    assert_eq!(bob.get("/").await.status, 200);
    let (base, secret) = open.split_once("/enter/").unwrap();
    assert_eq!(Browser::new(base).post("/enter", &[("link", secret)]).await.status, 404);
}

#[tokio::test]
async fn a_restart_signs_nobody_out_and_nobody_in() {
    let local = LocalDiscord::start().await;
    let mut installation = with_dashboard(&local);
    let mut bot = serving(&installation).await;
    let address = crate::support::browser::address(&bot).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let bob = Browser::signed_in(&local, CHANNEL, BOB).await;
    let page = ann.get("/").await;
    let left = bob.post("/leave", &[("csrf", &bob.get("/").await.field("csrf"))]).await;
    assert_eq!(left.status, 200);
    let kept = async || {
        while !installation.read("state/sign-ins.md").contains(&ANN.to_string())
            || installation.read("state/sign-ins.md").contains(&BOB.to_string())
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, kept()).await.expect("kept");
    bot.signal(Signal::KILL);
    bot.ended().await;
    installation = installation.with("DASHBOARD_ADDRESS", &address.to_string());
    let _bot = serving(&installation).await;
    assert_eq!((ann.get("/").await.status, bob.get("/").await.status), (200, 401));
    let form = [("csrf", page.field("csrf"))];
    let form = form.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>();
    assert_eq!(ann.post("/leave", &form).await.status, 200, "forms of open pages still work");
    assert_eq!(ann.get("/").await.status, 401);
}

#[tokio::test]
async fn behind_a_proxy_links_and_cookies_use_its_address() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local).with("DASHBOARD_URL", "https://agents.example.com/");
    let bot = serving(&installation).await;
    let address = crate::support::browser::address(&bot).await;
    let link = link(&local, CHANNEL, ANN).await;
    let secret = link.strip_prefix("https://agents.example.com/enter/").unwrap();
    let through = Browser::new(&format!("http://{address}"));
    let entered = through
        .request(Method::POST, "/enter")
        .header("host", "agents.example.com")
        .header("origin", "https://agents.example.com")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("link={secret}"))
        .send()
        .await
        .unwrap();
    assert_eq!(entered.status(), 303);
    let cookie = entered.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-aetheel=") && cookie.ends_with("; Secure"), "{cookie}");
}

#[tokio::test]
async fn without_an_address_there_is_no_dashboard_and_no_command() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let commands = local.commands().to_string();
    assert!(commands.contains("\"status\"") && !commands.contains("\"dashboard\""));
    assert!(!bot.stderr().contains("the dashboard is open"));
    let help = local.answer_to(local.slash(CHANNEL, OWNER, "help", None)).await;
    assert!(!help.content.contains("/dashboard"), "{}", help.content);
}

#[tokio::test]
async fn an_address_that_exposes_sessions_is_refused_together_with_other_errors() {
    let local = LocalDiscord::start().await;
    let ended = installed(&local)
        .with("DASHBOARD_ADDRESS", "0.0.0.0:0")
        .with("CONFIG_DIR", "/dev/null/config")
        .run(&["run"], "")
        .await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    for part in ["DASHBOARD_ADDRESS 0.0.0.0:0 can be reached", "DASHBOARD_URL", "CONFIG_DIR"] {
        assert!(ended.stderr.contains(part), "{part} is missing in\n{}", ended.stderr);
    }
}
