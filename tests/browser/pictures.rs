//! Screenshots of all pages for the documentation. `UPDATE_SCREENSHOTS=1 make test-browser` writes
//! them to `docs/images` with `pngquant` if the pages look different.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Desk, PAGES, with_rules};
use crate::support::chrome::Chrome;
use crate::support::discord::{ANN, BOB, CHANNEL, OTHER, OWNER};

/// A desktop and a phone: suffix of the screenshots, width, height, colour scheme.
const VIEWS: [(&str, u32, u32, &str); 2] =
    [("", 1280, 800, "light"), ("-phone", 390, 844, "light")];
/// Maximum number of bytes of a screenshot, and of all of them.
const MAX_BYTES: usize = 100 << 10;
const MAX_TOTAL_BYTES: usize = 600 << 10;

/// Replaces every time and the test's folder by fixed values, so that screenshots only change with
/// the pages.
const FIX_VARIABLE_TEXTS: &str = r"(() => {
    document.querySelectorAll('time').forEach((time) => { time.textContent = '09:41'; });
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        walk.currentNode.data = walk.currentNode.data.replace(/\/tmp\/\.tmp\w+/g, '/srv/aetheel');
    }
    return document.documentElement.scrollHeight;
})()";

/// Reduces the number of colours of a screenshot.
fn small(picture: &[u8]) -> Vec<u8> {
    let mut child = Command::new("pngquant")
        .args(["--speed", "1", "--strip", "48", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("pngquant: {error}; install it (Debian: pngquant)"));
    child.stdin.take().unwrap().write_all(picture).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success());
    done.stdout
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn every_page_has_a_screenshot() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images");
    let update = std::env::var_os("UPDATE_SCREENSHOTS").is_some();
    let desk = Desk::with(|installation| {
        let agents = format!(
            "## Cron Jobs\n\n### morning report\n\n- expression: `0 9 * * 1-5`\n- channel: <#{CHANNEL}>\n\nSum up what was merged yesterday and which checks fail.\n\n## Hooks\n\n### startup\n\n- instruction: Say which version runs.\n"
        );
        std::fs::write(installation.path("config/agents.md"), agents).unwrap();
        with_rules(installation)
    })
    .await;
    let chrome = Chrome::start().await;
    chrome.hide_scrollbars().await;
    let base = desk.sign_in(&chrome, OWNER).await;
    let local = &desk.local;
    let mut sizes = Vec::new();
    let mut take = async |name: &str, (width, most): (u32, u32)| {
        chrome.view(width, 100).await;
        let height = chrome.eval(FIX_VARIABLE_TEXTS).await.as_u64().unwrap() as u32;
        chrome.view(width, height.min(most)).await;
        let picture = small(&chrome.picture().await);
        assert!(picture.len() <= MAX_BYTES, "{name}: {} bytes", picture.len());
        sizes.push(picture.len());
        let file = folder.join(format!("dashboard-{name}.png"));
        if update {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, picture).unwrap();
        }
        assert!(file.exists(), "{}: UPDATE_SCREENSHOTS=1 makes it", file.display());
    };
    desk.wait_and_reserve("Check whether the release was published, and post the link.").await;
    chrome.scheme("light").await;
    chrome.open(&base).await;
    chrome.says("is used up").await;
    take("waits", (1280, 800)).await;
    for (user, prompt, answer) in [
        (BOB, "plan", "Everything is done."),
        (OWNER, "code rust", "That is all."),
        (ANN, "tool cargo test --workspace", "One tool worked, one did not."),
    ] {
        local.mention(CHANNEL, user, prompt);
        local.wait_for_message(CHANNEL, |text| text.contains(answer)).await;
    }
    local.mention(CHANNEL, ANN, "edit");
    local.mention(OTHER, BOB, "ask cargo publish --dry-run");
    for channel in [CHANNEL, OTHER] {
        desk.asked(channel).await;
    }
    local.mention(CHANNEL, BOB, "Write the changelog for 1.4");
    chrome.says("Write the changelog").await;
    for (view, width, height, scheme) in VIEWS {
        chrome.scheme(scheme).await;
        for page in PAGES {
            desk.show(&chrome, &base, page).await;
            take(&format!("{}{view}", page.name), (width, height)).await;
        }
    }
    chrome.scheme("dark").await;
    chrome.open(&base).await;
    take("now-dark", (1280, 800)).await;
    let all: usize = sizes.iter().sum();
    assert!(all <= MAX_TOTAL_BYTES, "{all} bytes");
    let text = std::fs::read_to_string(folder.join("../dashboard.md")).unwrap();
    for page in PAGES {
        let shown = format!("images/dashboard-{}", page.name);
        assert!(text.contains(&shown), "docs/dashboard.md does not show {shown}");
    }
}
