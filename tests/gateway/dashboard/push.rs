//! Being told on a device when an agent asks: a local push service, and a browser without a screen.

use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};

use super::{serving, with_dashboard};
use crate::support::browser::{Browser, Page};
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, OTHER};
use crate::support::program::{Installation, Program};
use crate::support::push_service::PushService;

/// An installation that sends to this service, and says what it does.
fn sending_to(local: &LocalDiscord, service: &PushService) -> Installation {
    with_dashboard(local).with("PUSH_SERVICES", &service.url).with("LOG_LEVEL", "aetheel=debug")
}

/// Sends a form of the section, and returns the page that says what became of it.
async fn form(browser: &Browser, path: &str, endpoint: &str) -> Page {
    let csrf = browser.get("/").await.field("csrf");
    let sent = browser.post(path, &[("csrf", &csrf), ("endpoint", endpoint)]).await;
    assert_eq!((sent.status, sent.header("location")), (303, "/"), "{sent:?}");
    browser.get("/").await
}

async fn switch_on(browser: &Browser, endpoint: &str) {
    let page = form(browser, "/push/on", endpoint).await;
    assert!(page.body.contains("This device tells you when an agent asks."), "{}", page.body);
}

/// Has somebody's agent ask, and returns the id of the question.
async fn asked(local: &LocalDiscord, channel: u64, user: u64, browser: &Browser) -> String {
    local.mention(channel, user, "ask make");
    let shown =
        |local: &LocalDiscord| local.messages(channel).into_iter().find(|one| local.asks(one.id));
    local.wait_for("the question", shown).await;
    let waiting = waiting(browser).await;
    waiting["waiting"][0]["id"].as_str().unwrap_or_else(|| panic!("{waiting}")).to_owned()
}

async fn waiting(browser: &Browser) -> Value {
    serde_json::from_str(&browser.get("/push/waiting").await.body).unwrap()
}

async fn answer(browser: &Browser, question: &str) {
    let answer = [("question", question), ("word", "allow")];
    assert_eq!(browser.send("/questions/answer", &answer).await, "Answered.");
}

/// Who was told of which questions, in this order.
fn told(bot: &Program) -> Vec<(u64, String)> {
    let log = bot.log().into_iter();
    log.filter(|line| line["message"] == "a user is told that an agent asks")
        .map(|line| {
            (line["user"].as_u64().unwrap(), line["questions"].as_str().unwrap().to_owned())
        })
        .collect()
}

/// What the file says of devices, once it is as wanted.
async fn devices(installation: &Installation, wanted: impl Fn(&str) -> bool) {
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(50));
    let wait = async {
        while !wanted(&installation.read("state/push.md")) {
            looks.tick().await;
        }
    };
    let found = tokio::time::timeout(std::time::Duration::from_secs(60), wait).await;
    found.unwrap_or_else(|_| panic!("{}", installation.read("state/push.md")));
}

#[tokio::test]
async fn whoever_may_answer_is_woken_and_learns_what_waits_and_nobody_else_is() {
    let (local, service) = (LocalDiscord::start().await, PushService::start().await);
    let installation = sending_to(&local, &service).with("PUSH_CONTACT", "mailto:olga@example.com");
    let bot = serving(&installation).await;
    let (ann, bob) = (
        Browser::signed_in(&local, CHANNEL, ANN).await,
        Browser::signed_in(&local, CHANNEL, BOB).await,
    );
    let page = ann.get("/").await;
    assert!(page.header("content-security-policy").contains("worker-src 'self'"));
    assert!(page.body.contains("id=\"push-on\"") && !page.body.contains("id=\"push-off\""));
    let key = page.body.split_once("data-key=\"").unwrap().1.split('"').next().unwrap().to_owned();
    let worker = ann.get("/worker.js").await;
    assert!(worker.status == 200 && worker.header("content-type").starts_with("text/javascript"));
    switch_on(&ann, &service.device("canary-ann")).await;
    switch_on(&bob, &service.device("canary-bob")).await;
    assert_eq!(waiting(&ann).await, json!({"count": 0, "waiting": []}));

    let first = asked(&local, CHANNEL, ANN, &ann).await;
    let found = json!({"id": first, "place": "#general", "title": "Run `make`?"});
    assert_eq!(waiting(&ann).await, json!({"count": 1, "waiting": [found]}));
    assert_eq!(waiting(&bob).await["count"], 0, "not his to answer");
    assert_eq!(Browser::new(&page_base(&bot).await).get("/push/waiting").await.status, 401);
    assert!(ann.get("/").await.body.contains(&format!("id=\"question-{first}\"")));
    let wake = service.wait("canary-ann", 1).await;
    assert!(wake.body.is_empty() && wake.header("content-length") == "0", "{wake:?}");
    let rest = ["ttl", "urgency", "topic"].map(|name| wake.header(name));
    assert_eq!(rest, ["600", "high", "question"]);
    signed(wake.header("authorization"), &key, &service.url);
    answer(&ann, &first).await;

    let second = asked(&local, OTHER, BOB, &bob).await;
    service.wait("canary-bob", 1).await;
    assert_eq!(told(&bot), [(ANN, first), (BOB, second)]);
    assert_eq!(service.all().len(), 2);
    let log = bot.stderr();
    assert!(!log.contains("canary") && !log.contains("vapid t="), "{log}");
    let path = installation.path("config").join("state/push.md");
    let kept = std::fs::read_to_string(&path).unwrap();
    let secret = kept.split_once("- `key` `").unwrap().1.split('`').next().unwrap();
    assert!(kept.contains("canary-ann") && !log.contains(secret));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let page = ann.get("/").await.body;
    assert!(!page.contains("canary") && !page.contains(secret), "{page}");
}

async fn page_base(bot: &Program) -> String {
    format!("http://{}", crate::support::browser::address(bot).await)
}

/// Panics where a push is not signed by whoever has the other half of a key.
fn signed(authorization: &str, key: &str, service: &str) {
    let (token, public) =
        authorization.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
    assert_eq!(public, key);
    let (said, signature) = token.rsplit_once('.').unwrap();
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, decode(key))
        .verify(said.as_bytes(), &decode(signature))
        .expect("signed");
    let claims: Value = serde_json::from_slice(&decode(said.split_once('.').unwrap().1)).unwrap();
    assert_eq!(
        (&claims["aud"], &claims["sub"]),
        (&json!(service), &json!("mailto:olga@example.com"))
    );
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let left = claims["exp"].as_u64().unwrap().saturating_sub(now);
    assert!((1..=86_400).contains(&left), "{claims}");
}

#[tokio::test]
async fn whoever_looks_at_the_page_is_not_woken_until_they_leave_it() {
    let (local, service) = (LocalDiscord::start().await, PushService::start().await);
    let installation = sending_to(&local, &service);
    let bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    switch_on(&ann, &service.device("ann")).await;
    let mut events = ann.follow().await;
    events.wait("cards", |_| true).await;
    let first = asked(&local, CHANNEL, ANN, &ann).await;
    bot.logs("a user looks at the dashboard, and is not told on a device").await;
    assert_eq!(service.all(), [""; 0]);
    answer(&ann, &first).await;
    drop(events);
    let second = asked(&local, OTHER, ANN, &ann).await;
    service.wait("ann", 1).await;
    assert_eq!(told(&bot), [(ANN, second)]);
}

#[tokio::test]
async fn a_device_is_forgotten_by_whatever_ends_it_and_by_no_restart() {
    let (local, service) = (LocalDiscord::start().await, PushService::start().await);
    let installation = sending_to(&local, &service);
    let bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let bob = Browser::signed_in(&local, CHANNEL, BOB).await;
    for name in ["one", "two", "three"] {
        switch_on(&ann, &service.device(name)).await;
    }
    switch_on(&bob, &service.device("bob")).await;
    // The button of a device is for that one, and nobody switches another's off.
    let page = form(&bob, "/push/off", &service.device("one")).await;
    assert!(page.body.contains("does not tell you any more"), "{}", page.body);
    form(&ann, "/push/off", &service.device("two")).await;
    devices(&installation, |file| file.contains("/one`") && !file.contains("/two`")).await;

    drop(bot);
    let bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    assert!(ann.get("/").await.body.contains("(2)"), "a restart forgets no device");
    service.answer("one", 410);
    local.faults().remove_member(BOB);
    let question = asked(&local, CHANNEL, ANN, &ann).await;
    service.wait("one", 1).await;
    service.wait("three", 1).await;
    devices(&installation, |file| {
        file.contains("/three`") && !file.contains("/one`") && !file.contains("/bob`")
    })
    .await;
    answer(&ann, &question).await;
    assert!(service.woken("bob").is_empty());

    local.answer_to(local.slash(CHANNEL, ANN, "dashboard", Some("revoke"))).await;
    devices(&installation, |file| file.contains("- `key`") && !file.contains("/wake/")).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    assert!(!ann.get("/").await.body.contains("id=\"push-off\""));
    switch_on(&ann, &service.device("four")).await;
    let page = form(&ann, "/push/off", "").await;
    assert!(page.body.contains("None of your devices tells you"), "{}", page.body);
    devices(&installation, |file| !file.contains("/wake/")).await;
    assert!(bot.log().iter().all(|line| line["level"] != "ERROR"), "{}", bot.stderr());
}

#[tokio::test]
async fn forged_forms_and_addresses_that_are_no_push_services_get_nothing() {
    let (local, service) = (LocalDiscord::start().await, PushService::start().await);
    let port = service.url.rsplit_once(':').unwrap().1.to_owned();
    let listed = format!("{},fcm.googleapis.com,*.push.example.com", service.url);
    let installation = with_dashboard(&local).with("PUSH_SERVICES", &listed);
    let bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let bob = Browser::signed_in(&local, CHANNEL, BOB).await;
    let bobs = bob.get("/").await.field("csrf");
    for csrf in ["", "0", &bobs] {
        for path in ["/push/on", "/push/off"] {
            let fields = [("csrf", csrf), ("endpoint", &service.device("forged"))];
            assert_eq!(ann.post(path, &fields).await.status, 403, "{path} {csrf}");
        }
    }
    let stranger = Browser::new(&page_base(&bot).await);
    assert_eq!(stranger.post("/push/on", &[("csrf", &bobs)]).await.status, 401);
    for endpoint in [
        "",
        "https://169.254.169.254/latest/meta-data/",
        "http://169.254.169.254/latest/meta-data/",
        "https://localhost/",
        "https://[::1]/",
        &format!("https://127.0.0.1:{port}/wake/x"),
        &format!("http://localhost:{port}/wake/x"),
        &format!("http://ann@127.0.0.1:{port}/wake/x"),
        &format!("http://127.0.0.1:{port}@evil.example/"),
        "http://127.0.0.1:1/wake/x",
        "http://fcm.googleapis.com/x",
        "https://fcm.googleapis.com:8443/x",
        "https://fcm.googleapis.com@evil.example/x",
        "https://fcm.googleapis.com.evil.example/x",
        "https://push.example.com/x",
        "https://evil.example/<script>alert(1)</script>",
        &format!("https://fcm.googleapis.com/{}", "x".repeat(2_000)),
    ] {
        let page = form(&ann, "/push/on", endpoint).await;
        let said = page.body.split_once("role=\"status\">").unwrap().1;
        assert!(
            said.starts_with("That is no address of a push service.")
                || said.starts_with("Your browser&#39;s push service, ")
                || said.starts_with("Your browser's push service, "),
            "{endpoint}: {said}"
        );
    }
    assert!(!installation.read("state/push.md").contains("since `"), "nothing is kept");
    for number in 0..30 {
        let csrf = ann.get("/").await.field("csrf");
        let endpoint = service.device(&number.to_string());
        ann.post("/push/on", &[("csrf", &csrf), ("endpoint", &endpoint)]).await;
    }
    assert_eq!(installation.read("state/push.md").matches("since `").count(), 5);
    assert!(ann.get("/").await.body.contains("(5)"));
    assert_eq!(service.all(), [""; 0], "nobody is sent to by switching on");
}

#[tokio::test]
async fn a_service_that_hangs_or_sends_elsewhere_delays_nothing_and_leads_nowhere() {
    let (local, service) = (LocalDiscord::start().await, PushService::start().await);
    let installation = sending_to(&local, &service);
    let bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let bob = Browser::signed_in(&local, CHANNEL, BOB).await;
    service.answer("hangs", 0);
    service.answer("elsewhere", 302);
    switch_on(&ann, &service.device("hangs")).await;
    switch_on(&bob, &service.device("elsewhere")).await;
    let first = asked(&local, CHANNEL, ANN, &ann).await;
    let second = asked(&local, OTHER, BOB, &bob).await;
    service.wait("hangs", 1).await;
    service.wait("elsewhere", 1).await;
    let refused = bot.logs_where("a refusal", |line| {
        line["message"].as_str().is_some_and(|text| text.starts_with("a push service refuses"))
    });
    let refused = refused.await;
    assert_eq!((&refused["status"], &refused["host"]), (&json!(302), &json!("127.0.0.1")));
    answer(&ann, &first).await;
    answer(&bob, &second).await;
    for channel in [CHANNEL, OTHER] {
        local.wait_for_message(channel, |text| text == "Done, this once.").await;
    }
    bot.logs_where("a silence", |line| {
        line["message"].as_str().is_some_and(|text| text.starts_with("a push service does not"))
    })
    .await;
    assert_eq!(service.all().len(), 2, "{:?}", service.all());
    assert_eq!(installation.read("state/push.md").matches("/wake/").count(), 2, "both may recover");
}

#[tokio::test]
async fn where_the_operator_wants_none_nothing_is_offered() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local).with("PUSH_SERVICES", "none");
    let _bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let page = ann.get("/").await;
    assert!(!page.body.contains("id=\"push\""), "{}", page.body);
    let fields =
        [("csrf", page.field("csrf")), ("endpoint", "https://fcm.googleapis.com/x".into())];
    let fields: Vec<_> = fields.iter().map(|(a, b)| (*a, b.as_str())).collect();
    assert_eq!(ann.post("/push/on", &fields).await.status, 404);
    assert_eq!(installation.read("state/push.md"), "");
}
