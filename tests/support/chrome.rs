//! A headless Chromium that `chromedriver` drives with W3C WebDriver, or with the DevTools protocol
//! where WebDriver has no command.
//!
//! Each browser has its own profile and reaches only loopback addresses. When it is dropped, all
//! processes with its [`MARK`] are killed.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Client, Method};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::program::LIMIT;

/// The environment variable that marks the processes of a browser.
const MARK: &str = "AETHEEL_BROWSER";
/// Interval at which the state of a page is polled.
const LOOK: Duration = Duration::from_millis(50);
/// The key of an element's id in an answer of WebDriver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys in WebDriver's encoding.
pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";
pub const SHIFT: &str = "\u{e008}";

/// A browser of one person.
pub struct Chrome {
    client: Client,
    /// The URL of its session at `chromedriver`.
    session: String,
    profile: TempDir,
    _driver: Child,
}

impl Chrome {
    pub async fn start() -> Self {
        Self::with(json!({})).await
    }

    /// Starts a browser that runs no scripts.
    pub async fn without_script() -> Self {
        Self::with(json!({"profile.managed_default_content_settings.javascript": 2})).await
    }

    /// Starts a browser with this default font size in pixels. The usual size is 16.
    pub async fn with_font_size(pixels: u32) -> Self {
        Self::with(json!({"webkit.webprefs.default_font_size": pixels})).await
    }

    async fn with(preferences: Value) -> Self {
        let profile = tempfile::tempdir().expect("a folder");
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", profile.path())
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env(MARK, profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("chromedriver: {error}; run `make test-browser`"));
        let mut lines = BufReader::new(driver.stdout.take().expect("piped")).lines();
        let port = tokio::time::timeout(LIMIT, async {
            loop {
                let line = lines.next_line().await.unwrap().expect("chromedriver says its port");
                if let Some((_, port)) = line.split_once("successfully on port ") {
                    return port.trim_end_matches('.').to_owned();
                }
            }
        });
        let port = port.await.expect("chromedriver starts in time");
        let client = Client::builder().timeout(LIMIT * 2).build().unwrap();
        let mut arguments = vec![
            "--headless=new".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--force-device-scale-factor=1".to_owned(),
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1".to_owned(),
            format!("--user-data-dir={}", profile.path().join("profile").display()),
        ];
        if rustix::process::geteuid().is_root() {
            arguments.push("--no-sandbox".to_owned());
        }
        let wanted = json!({
            "browserName": "chrome",
            "goog:loggingPrefs": {"performance": "ALL"},
            "goog:chromeOptions": {"args": arguments, "prefs": preferences},
        });
        let mut chrome = Self {
            client,
            session: format!("http://127.0.0.1:{port}/session"),
            profile,
            _driver: driver,
        };
        let wanted = json!({"capabilities": {"alwaysMatch": wanted}});
        let made = chrome.ask(Method::POST, "", wanted).await.expect("a session");
        let id = made["sessionId"].as_str().expect("its id");
        chrome.session = format!("{}/{id}", chrome.session);
        chrome.view(1280, 800).await;
        chrome
    }

    async fn ask(&self, method: Method, path: &str, body: Value) -> Result<Value, String> {
        let request = self.client.request(method, format!("{}{path}", self.session));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let answer = request.send().await.unwrap_or_else(|error| panic!("chromedriver: {error}"));
        let good = answer.status().is_success();
        let mut answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        let value = answer["value"].take();
        if good { Ok(value) } else { Err(value["message"].to_string()) }
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.ask(Method::POST, path, body).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Executes a command of the DevTools protocol.
    async fn devtools(&self, command: &str, parameters: Value) -> Result<Value, String> {
        let body = json!({"cmd": command, "params": parameters});
        self.ask(Method::POST, "/goog/cdp/execute", body).await
    }

    /// Opens an address and waits until it is loaded.
    pub async fn open(&self, address: &str) {
        self.post("/url", json!({"url": address})).await;
    }

    /// Goes back in the history. The previous page may be shown at once, from the cache.
    pub async fn back(&self) {
        self.eval("history.back()").await;
    }

    /// Opens another tab, switches to it and returns its handle.
    pub async fn tab(&self) -> String {
        self.opened("tab").await
    }

    /// Opens another window, which does not hide the others, switches to it and returns its handle.
    pub async fn window(&self) -> String {
        self.opened("window").await
    }

    async fn opened(&self, kind: &str) -> String {
        let opened = self.post("/window/new", json!({"type": kind})).await;
        let tab = opened["handle"].as_str().unwrap().to_owned();
        self.switch(&tab).await;
        self.view(1280, 800).await;
        tab
    }

    /// Switches to a tab.
    pub async fn switch(&self, tab: &str) {
        self.post("/window", json!({"handle": tab})).await;
    }

    /// Returns the handle of the current tab.
    pub async fn here(&self) -> String {
        let handle = self.ask(Method::GET, "/window", json!({})).await.unwrap();
        handle.as_str().unwrap().to_owned()
    }

    /// Evaluates an expression in the page, even if the page's policy forbids `eval`.
    async fn evaluate(&self, expression: &str) -> Result<Value, String> {
        let parameters = json!({
            "expression": expression,
            "returnByValue": true,
            "awaitPromise": true,
            "allowUnsafeEvalBlockedByCSP": true,
        });
        let mut answer = self.devtools("Runtime.evaluate", parameters).await?;
        match answer.get("exceptionDetails") {
            Some(why) => Err(why.to_string()),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Evaluates an expression in the page. Panics if it throws.
    pub async fn eval(&self, expression: &str) -> Value {
        let answer = self.evaluate(expression).await;
        answer.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// Returns the visible text of the page.
    pub async fn text(&self) -> String {
        self.eval("document.body?.innerText ?? ''").await.as_str().unwrap().to_owned()
    }

    /// Waits until an expression is truthy in the page, which may reload meanwhile. Returns its
    /// value.
    pub async fn wait(&self, expression: &str) -> Value {
        let mut looks = tokio::time::interval(LOOK);
        let found = tokio::time::timeout(LIMIT * 2, async {
            loop {
                looks.tick().await;
                match self.evaluate(expression).await {
                    Ok(Value::Null | Value::Bool(false)) | Err(_) => {}
                    Ok(value) => return value,
                }
            }
        });
        match found.await {
            Ok(value) => value,
            Err(_) => {
                let last = self.evaluate(expression).await;
                panic!("timed out waiting for {expression}: {last:?} in\n{}", self.text().await)
            }
        }
    }

    /// Waits until the page shows this text.
    pub async fn says(&self, text: &str) {
        self.wait(&format!("document.body.innerText.includes({})", json!(text))).await;
    }

    /// Waits for the first element that matches a CSS selector, and returns it.
    async fn element(&self, css: &str) -> Value {
        self.wait(&format!("document.querySelector({}) !== null", json!(css))).await;
        self.post("/element", json!({"using": "css selector", "value": css})).await
    }

    /// Clicks on the first element that matches a CSS selector.
    pub async fn click(&self, css: &str) {
        // The element may be replaced between the search and the click.
        let mut looks = tokio::time::interval(LOOK);
        let clicked = tokio::time::timeout(LIMIT, async {
            loop {
                looks.tick().await;
                let element = self.element(css).await;
                // Each attempt would begin a smooth scroll again, which then never arrives.
                let there = "scrollIntoView({behavior: 'instant', block: 'center'})";
                self.eval(&format!("document.querySelector({})?.{there}", json!(css))).await;
                let path = format!("/element/{}/click", element[ELEMENT].as_str().unwrap());
                if self.ask(Method::POST, &path, json!({})).await.is_ok() {
                    break;
                }
            }
        });
        clicked.await.unwrap_or_else(|_| panic!("{css} cannot be clicked on"));
    }

    /// Clicks on an element twice, as fast as people do.
    pub async fn double_click(&self, css: &str) {
        let element = self.element(css).await;
        let press = [
            json!({"type": "pointerDown", "button": 0}),
            json!({"type": "pointerUp", "button": 0}),
        ];
        let move_there = json!({"type": "pointerMove", "origin": element, "x": 0, "y": 0});
        let pause = json!({"type": "pause", "duration": 120});
        let actions: Vec<Value> =
            [&[move_there][..], &press, &[pause], &press].concat().into_iter().collect();
        let mouse = json!({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions});
        self.post("/actions", json!({"actions": [mouse]})).await;
    }

    /// Presses keys one after the other. [`SHIFT`] is held until the end.
    pub async fn keys(&self, keys: &[&str]) {
        let mut actions = Vec::new();
        for key in keys {
            actions.push(json!({"type": "keyDown", "value": key}));
            if *key != SHIFT {
                actions.push(json!({"type": "keyUp", "value": key}));
            }
        }
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.post("/actions", json!({"actions": [keyboard]})).await;
        self.ask(Method::DELETE, "/actions", json!({})).await.unwrap();
    }

    /// Types into the focused element.
    pub async fn type_in(&self, text: &str) {
        let keys: Vec<String> = text.chars().map(String::from).collect();
        self.keys(&keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }

    /// Sets the size of the page in CSS pixels.
    pub async fn view(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await.unwrap();
    }

    /// Sets the preferred color scheme: `light` or `dark`.
    pub async fn scheme(&self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", features).await.unwrap();
    }

    /// Hides scrollbars, as phones do.
    pub async fn hide_scrollbars(&self) {
        let hidden = json!({"hidden": true});
        self.devtools("Emulation.setScrollbarsHidden", hidden).await.unwrap();
    }

    /// Returns a PNG screenshot of the visible part of the page.
    pub async fn picture(&self) -> Vec<u8> {
        let taken = self.devtools("Page.captureScreenshot", json!({"format": "png"})).await;
        STANDARD.decode(taken.unwrap()["data"].as_str().unwrap()).unwrap()
    }

    /// Returns the URLs that pages requested since the last call, without the browser's own.
    pub async fn asked(&self) -> Vec<String> {
        let log = self.post("/se/log", json!({"type": "performance"})).await;
        let mut found = Vec::new();
        for entry in log.as_array().unwrap() {
            let entry: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            let parameters = &entry["message"]["params"];
            let address = match entry["message"]["method"].as_str() {
                Some("Network.requestWillBeSent") => &parameters["request"]["url"],
                Some("Network.webSocketCreated") => &parameters["url"],
                _ => continue,
            };
            let address = address.as_str().unwrap();
            let own = ["chrome://", "chrome-untrusted://", "data:", "about:"];
            let of_the_browser = parameters["documentURL"]
                .as_str()
                .is_some_and(|page| own.iter().any(|scheme| page.starts_with(scheme)));
            if !of_the_browser {
                found.push(address.to_owned());
            }
        }
        found
    }

    /// Kills all processes with the mark.
    fn end(&self) {
        let mark = format!("{MARK}={}", self.profile.path().display());
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
                && let Some(pid) = Pid::from_raw(pid)
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Drop for Chrome {
    fn drop(&mut self) {
        // A process may have been starting another one during the first pass.
        self.end();
        self.end();
    }
}
