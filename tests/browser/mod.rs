//! The dashboard in a real browser: Chromium without a screen, the real program, a local Discord and
//! the scripted agent behind it. `make test-browser` installs what it needs and runs it.

mod accessible;
mod clicks;
mod hostile;
mod keyboard;
mod looking_back;
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

/// A page of somebody who is signed in.
struct Page {
    /// What its pictures are called.
    name: &'static str,
    at: At,
    /// Only owners have it.
    of_owners: bool,
}

enum At {
    Path(&'static str),
    /// Where links lead from a page: the selector of one on each.
    Links(&'static str, &'static [&'static str]),
}

/// Every page there is. A new one is a line here: it is looked at for barriers, in light and dark, on
/// a phone, with large letters and with what hostile people write, and has its picture taken.
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
    Page { name: "health", at: At::Path("/health"), of_owners: true },
];

/// The link to a turn in the list of those that ended, that to its steps, and that to the next of
/// these of which people saw something.
const TURN: &str = "main td a[href^='/turns/']";
const MACHINE: &str = "main a[href$='/machine']";
const SEEN: &str = "nav.steps li:nth-child(5) a";

/// A gateway with a dashboard.
struct Desk {
    // Ended in this order.
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

    /// Signs somebody in as they do it: with a link from Discord and its button. Returns the address
    /// of the dashboard.
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

    /// Opens a page, again until it has such a link; returns where that leads.
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

    /// Has something of every kind run and wait; `words` are in all of it.
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

    /// Waits until a question stands in a channel.
    async fn asked(&self, channel: u64) {
        let shown = |local: &LocalDiscord| {
            local.messages(channel).into_iter().find(|message| local.asks(message.id))
        };
        self.local.wait_for("a question", shown).await;
    }

    /// The messages of the bot in the first channel that contain this.
    fn told(&self, part: &str) -> usize {
        self.local.texts(CHANNEL).iter().filter(|text| text.contains(part)).count()
    }
}
