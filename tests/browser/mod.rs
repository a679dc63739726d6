//! Tests of the dashboard in a real browser: headless Chromium, the real program, a local Discord
//! and the scripted agent. `make test-browser` installs everything and runs the tests.

mod accessible;
mod clicks;
mod hostile;
mod keyboard;
mod looking_back;
mod operators;
mod pictures;
mod sessions;
mod turns;
mod without_script;

use std::time::Duration;

use crate::gateway::{installed, serving};
use crate::support::browser::link;
use crate::support::chrome::Chrome;
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, NOOR, OTHER, THREAD, room};
use crate::support::program::{Installation, LIMIT, Program};

/// A page for a person who is signed in.
struct Page {
    /// The name of its screenshots.
    name: &'static str,
    at: At,
    /// Whether only owners have it.
    of_owners: bool,
}

enum At {
    Path(&'static str),
    /// Reached by links from a page: the selector of the link on each page.
    Links(&'static str, &'static [&'static str]),
}

/// All pages. Each is tested for accessibility in light and dark, on a phone, with large fonts and
/// with hostile texts, and has a screenshot. To add a page, add a line.
const PAGES: &[Page] = &[
    Page { name: "now", at: At::Path("/"), of_owners: false },
    Page { name: "transcripts", at: At::Path("/turns"), of_owners: false },
    Page { name: "transcript", at: At::Links("/turns", &[TURN]), of_owners: false },
    Page { name: "machine", at: At::Links("/turns", &[TURN, MACHINE, SEEN]), of_owners: true },
    Page { name: "channels", at: At::Path("/channels"), of_owners: false },
    Page { name: "channel", at: At::Links("/channels", &["main li a"]), of_owners: false },
    Page { name: "costs", at: At::Path("/costs"), of_owners: false },
    Page { name: "components", at: At::Path("/components"), of_owners: true },
    Page { name: "schedules", at: At::Path("/schedules"), of_owners: true },
    Page { name: "audit", at: At::Path("/audit"), of_owners: true },
    Page { name: "health", at: At::Path("/health"), of_owners: true },
];

/// Selectors of the link to a turn in the list of finished turns, the link to its steps, and the
/// link to the next step that people saw.
const TURN: &str = "main td a[href^='/turns/']";
const MACHINE: &str = "main a[href$='/machine']";
const SEEN: &str = "nav.steps li:nth-child(5) a";

/// The channel with a budget of one turn a day.
const WAITING: u64 = room(2);

/// Writes a budget, and lets the agent of a channel ask for later turns.
fn with_rules(installation: Installation) -> Installation {
    let budgets = format!("## demo\n- channel: {WAITING}\n- cap: 1 turns a day\n");
    std::fs::write(installation.path("config/budgets.md"), budgets).unwrap();
    let channels = format!("## channel {CHANNEL}\n\n- host-tools: all\n");
    std::fs::write(installation.path("config/channels.md"), channels).unwrap();
    installation
}

/// A gateway with a dashboard.
struct Desk {
    // Stopped in the order of the fields.
    bot: Program,
    installation: Installation,
    local: LocalDiscord,
}

impl Desk {
    async fn open() -> Self {
        Self::with(|installation| installation).await
    }

    async fn with(settings: impl FnOnce(Installation) -> Installation) -> Self {
        let local = LocalDiscord::start().await;
        let installation = settings(installed(&local).with("DASHBOARD_ADDRESS", "127.0.0.1:0"));
        let bot = serving(&installation).await;
        Self { bot, installation, local }
    }

    /// Signs a person in with a link from Discord and its button. Returns the address of the
    /// dashboard.
    async fn sign_in(&self, chrome: &Chrome, user: u64) -> String {
        let link = link(&self.local, CHANNEL, user).await;
        chrome.open(&link).await;
        chrome.click("main button").await;
        chrome.wait("document.querySelector('nav') !== null").await;
        link.split_once("/enter/").unwrap().0.to_owned()
    }

    /// Opens a page.
    async fn show(&self, chrome: &Chrome, base: &str, page: &Page) {
        let (path, links): (_, &[&str]) = match page.at {
            At::Path(path) => (path, &[]),
            At::Links(path, links) => (path, links),
        };
        let mut address = format!("{base}{path}");
        for css in links {
            address = self.find(chrome, &address, css).await;
        }
        chrome.open(&address).await;
    }

    /// Reloads a page until it has such a link. Returns the link's target.
    async fn find(&self, chrome: &Chrome, address: &str, css: &str) -> String {
        let mut looks = tokio::time::interval(Duration::from_millis(200));
        let found = tokio::time::timeout(LIMIT, async {
            loop {
                looks.tick().await;
                chrome.open(address).await;
                let link = chrome.eval(&format!("document.querySelector({css:?})?.href")).await;
                if let Some(link) = link.as_str() {
                    return link.to_owned();
                }
            }
        });
        found.await.unwrap_or_else(|_| panic!("no {css} at {address}"))
    }

    /// Starts running and waiting turns of every kind, all with `words` in their texts.
    async fn busy(&self, words: &str) {
        let local = &self.local;
        for (channel, user, prompt) in [
            (CHANNEL, ANN, format!("slow 3600 {words}")),
            (OTHER, NOOR, format!("ask {words}")),
            (THREAD, ANN, format!("question {words}")),
            (room(0), BOB, format!("propose {words}")),
            (room(1), ANN, format!("login {words}")),
        ] {
            local.mention(channel, user, &prompt);
        }
        local.mention(CHANNEL, NOOR, words);
        local.wait_for_message(CHANNEL, |text| text.contains("Second 2.")).await;
        for channel in [OTHER, THREAD, room(0), room(1)] {
            self.asked(channel).await;
        }
    }

    /// Makes a conversation wait at the cap of its budget, an agent ask for a later turn with `words`
    /// as its prompt, and a person reserve files. Needs [`with_rules`].
    async fn wait_and_reserve(&self, words: &str) {
        let local = &self.local;
        let input = serde_json::json!({"in": "2h", "text": words});
        local.mention(CHANNEL, ANN, &format!("call aetheel_remind {input}"));
        local.wait_for_message(CHANNEL, |text| text.contains("The tool returned")).await;
        local.mention(WAITING, ANN, "first");
        local.wait_for_message(WAITING, |text| text.contains("You said: first")).await;
        local.mention(WAITING, ANN, "second");
        local.wait_for_message(WAITING, |text| text.contains("Your message waits")).await;
        let reserved = local.slash(CHANNEL, ANN, "claim", Some("paths:=src/api"));
        local.answer_to(reserved).await;
    }

    /// Waits until a question is shown in a channel.
    async fn asked(&self, channel: u64) {
        let shown = |local: &LocalDiscord| {
            local.messages(channel).into_iter().find(|message| local.asks(message.id))
        };
        self.local.wait_for("a question", shown).await;
    }

    /// Returns the number of the bot's messages in the first channel that contain `part`.
    fn count_messages(&self, part: &str) -> usize {
        self.local.texts(CHANNEL).iter().filter(|text| text.contains(part)).count()
    }
}
