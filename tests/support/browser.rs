//! A headless browser for tests of the dashboard. It keeps a cookie, sends forms, follows
//! events and checks every page it loads.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response, redirect};
use serde_json::Value;

use super::discord::LocalDiscord;
use super::program::{LIMIT, Program};

/// The largest allowed page, in bytes.
const PAGE: usize = 50 << 10;
/// Elements without an end tag.
const VOID: [&str; 6] = ["meta", "link", "input", "br", "hr", "img"];

/// A browser of one person.
#[derive(Clone)]
pub struct Browser {
    client: Client,
    base: String,
    /// The value of the `cookie` header, which is not sent if this is empty.
    pub cookie: String,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: String,
}

impl Page {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the value of the first form field with this name.
    pub fn field(&self, name: &str) -> String {
        let at = format!("name=\"{name}\" value=\"");
        let (_, rest) =
            self.body.split_once(&at).unwrap_or_else(|| panic!("no field {name}\n{}", self.body));
        rest.split('"').next().unwrap().to_owned()
    }
}

/// Returns the address of the dashboard of a program, from its log.
pub async fn address(program: &Program) -> SocketAddr {
    let line = program.logs("the dashboard is open").await;
    line["address"].as_str().unwrap().parse().unwrap()
}

/// Runs `/dashboard` in a channel and returns the sign-in link.
pub async fn link(local: &LocalDiscord, channel: u64, user: u64) -> String {
    let answer = local.answer_to(local.slash(channel, user, "dashboard", None)).await;
    assert!(answer.ephemeral, "the link is visible to others: {answer:?}");
    let link = answer.content.strip_prefix('<').and_then(|text| text.split_once('>'));
    link.unwrap_or_else(|| panic!("no link: {}", answer.content)).0.to_owned()
}

impl Browser {
    pub fn new(base: &str) -> Self {
        let client =
            Client::builder().redirect(redirect::Policy::none()).timeout(LIMIT).build().unwrap();
        Self { client, base: base.to_owned(), cookie: String::new() }
    }

    /// Signs a user in with a new link and returns their browser.
    pub async fn signed_in(local: &LocalDiscord, channel: u64, user: u64) -> Self {
        let link = link(local, channel, user).await;
        let (base, secret) = link.split_once("/enter/").unwrap();
        let mut browser = Self::new(base);
        let page = browser.get(&format!("/enter/{secret}")).await;
        assert_eq!(page.field("link"), secret);
        let entered = browser.post("/enter", &[("link", secret)]).await;
        assert_eq!((entered.status, entered.header("location")), (303, "/"), "{entered:?}");
        browser.keep(&entered);
        browser
    }

    /// Stores the cookie that an answer sets.
    pub fn keep(&mut self, page: &Page) {
        self.cookie = page.header("set-cookie").split(';').next().unwrap().to_owned();
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        if self.cookie.is_empty() { request } else { request.header("cookie", &self.cookie) }
    }

    pub async fn get(&self, path: &str) -> Page {
        read(self.request(Method::GET, path).send().await.unwrap()).await
    }

    /// Sends a form as a browser does from a page that sends no referrer.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let request = self
            .request(Method::POST, path)
            .header("origin", "null")
            .header("sec-fetch-site", "same-origin")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form(fields));
        read(request.send().await.unwrap()).await
    }

    /// Sends a form of the start page with its hidden fields, and returns the status text that the
    /// page shows afterwards.
    pub async fn send(&self, path: &str, fields: &[(&str, &str)]) -> String {
        let page = self.get("/").await;
        let (csrf, lane, turn) = (page.field("csrf"), page.field("lane"), page.field("turn"));
        let own = [("csrf", csrf.as_str()), ("lane", &lane), ("turn", &turn)];
        let sent = self.post(path, &[&own, fields].concat()).await;
        assert_eq!((sent.status, sent.header("location")), (303, "/"), "{sent:?}");
        let page = self.get("/").await.body;
        let said = page.split_once("role=\"status\">").unwrap_or_else(|| panic!("{page}")).1;
        said.split('<').next().unwrap().to_owned()
    }

    /// Follows the events of the start page.
    pub async fn follow(&self) -> Events {
        self.follow_at("/live").await
    }

    /// Follows the events at a path. Panics if too many pages are open.
    pub async fn follow_at(&self, path: &str) -> Events {
        self.try_follow(path).await.expect("too many pages are open")
    }

    /// Follows the events at a path. Returns `None` if too many pages are open.
    pub async fn try_follow(&self, path: &str) -> Option<Events> {
        let response = self
            .request(Method::GET, path)
            .header("accept", "text/event-stream")
            .timeout(LIMIT * 4)
            .send()
            .await
            .unwrap();
        match response.status().as_u16() {
            200 => Some(Events { response, rest: String::new() }),
            503 => None,
            status => panic!("{path}: {status}"),
        }
    }
}

/// Reads an answer and checks its headers and its HTML.
async fn read(response: Response) -> Page {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.text().await.unwrap();
    let page = Page { status, headers, body };
    assert_eq!(page.header("cache-control"), "no-store");
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert!(!policy.contains("unsafe"));
    if page.header("content-type").starts_with("text/html") && !page.body.is_empty() {
        assert!(page.body.len() <= PAGE, "{} bytes", page.body.len());
        well_formed(&page.body);
    }
    page
}

/// Panics if a page is not well-formed, or contains an inline script, a style or an event handler.
pub fn well_formed(page: &str) {
    let mut open = Vec::new();
    let mut ids = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
    while let Some((text, tag)) = rest.split_once('<') {
        assert!(!text.contains('>'), "a bare > in {text:?}");
        let mut end = 0;
        let mut quoted = false;
        for (at, c) in tag.char_indices() {
            match c {
                '"' => quoted = !quoted,
                '>' if !quoted => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        assert!(end > 0, "a tag without an end: {:?}", tag.get(..80));
        let (inside, after) = (&tag[..end], &tag[end + 1..]);
        rest = after;
        if let Some(name) = inside.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{page}");
            continue;
        }
        let (name, attributes) = inside.split_once(' ').unwrap_or((inside, ""));
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{inside:?}");
        assert!(!attributes.contains(" on") && !attributes.starts_with("on"), "{inside:?}");
        assert!(!attributes.contains("style=") && name != "style", "{inside:?}");
        // Only links to messages in Discord may leave the dashboard.
        let within = attributes.replace("href=\"https://discord.com/channels/", "href=\"");
        assert!(!within.contains("javascript:") && !within.contains("//"), "{inside:?}");
        ids.extend(attributes.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next()));
        if name == "script" {
            assert_eq!(inside, "script src=\"/script.js\" defer");
        }
        if !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} is still open at the end of {page}");
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id occurs twice in {page}");
}

fn form(fields: &[(&str, &str)]) -> String {
    let encoded = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect()
    };
    let pairs: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
        .collect();
    pairs.join("&")
}

/// A stream of server-sent events.
pub struct Events {
    response: Response,
    rest: String,
}

impl Events {
    /// Returns the name and the data of the next event, or `None` if the stream has ended.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.rest = rest;
                let line = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                if let (Some(name), Some(data)) = (line("event: "), line("data: ")) {
                    return Some((name.to_owned(), serde_json::from_str(data).unwrap()));
                }
                continue;
            }
            let chunk = tokio::time::timeout(LIMIT * 2, self.response.chunk()).await;
            let chunk = chunk.expect("an event in time").ok().flatten()?;
            self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Waits for an event with this name and wanted HTML. Panics if the stream ends before.
    pub async fn wait(&mut self, name: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let found = tokio::time::timeout(Duration::from_secs(60), async {
            while let Some((given, data)) = self.next().await {
                let html = data["html"].as_str().unwrap_or_default().to_owned();
                if given == name && wanted(&html) {
                    return Some(html);
                }
                last = format!("{given} {html}");
            }
            None
        });
        match found.await {
            Ok(Some(html)) => html,
            other => panic!("waited in vain for {name:?} ({other:?}); the last was {last}"),
        }
    }
}
