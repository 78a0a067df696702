//! A real Chromium, driven by its DevTools protocol over a pipe.
//!
//! Everything a person does is done by mouse and keyboard events, so it works with scripts switched off.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

/// How long Chromium may take for anything. It never decides a test, unless Chromium hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// What kind of window a page is seen in.
pub(super) struct Window {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) scripts: bool,
    pub(super) dark: bool,
}

/// One window of a browser of its own.
pub(super) struct Chromium {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// Whether the window is on its way to another page.
    on_the_way: bool,
    /// How many pages it has come to.
    pages: u64,
    /// What the browser complained about.
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Chromium {
    pub(super) fn open(window: &Window) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(profile.path().join("log")).unwrap();
        // It talks through the files 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>&2", "sh"])
            .arg(binary())
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update"])
            .args(["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut text = Vec::new();
            while output.read_until(0, &mut text).is_ok_and(|read| read > 0) {
                text.pop();
                if sender.send(serde_json::from_slice(&text).unwrap()).is_err() {
                    break;
                }
                text.clear();
            }
        });
        let mut browser = Self {
            child,
            input,
            messages,
            session: None,
            last: 0,
            on_the_way: false,
            pages: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        browser.set_up(window);
        browser
    }

    fn set_up(&mut self, window: &Window) {
        let target = self.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        self.session = self.ask("Target.attachToTarget", &attach)["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "DOM", "Log"] {
            self.ask(&format!("{domain}.enable"), &json!({}));
        }
        let Window { width, height, scripts, dark } = *window;
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.ask("Emulation.setDeviceMetricsOverride", &metrics);
        self.ask("Emulation.setScriptExecutionDisabled", &json!({ "value": !scripts }));
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.ask("Emulation.setEmulatedMedia", &features);
        self.go("data:text/html,<title>off</title><script>document.title = 'on'</script>");
        assert_eq!(self.title(), if scripts { "on" } else { "off" });
    }

    /// Makes the window another size. A narrow one is a phone's.
    pub(super) fn resize(&mut self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.ask("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Opens an address, and waits until the page is there.
    pub(super) fn go(&mut self, url: &str) {
        let before = self.pages;
        let gone = self.ask("Page.navigate", &json!({ "url": url }));
        assert!(gone["errorText"].is_null(), "{url}: {gone}");
        self.await_page_after(before);
    }

    /// Clicks on something, and waits for the page that follows.
    pub(super) fn follow(&mut self, selector: &str) {
        let before = self.pages;
        self.click(selector);
        self.await_page_after(before);
    }

    /// Clicks on something.
    pub(super) fn click(&mut self, selector: &str) {
        let shapes = self.on(selector, |browser, node| {
            browser.try_ask("DOM.scrollIntoViewIfNeeded", &json!({ "nodeId": node }))?;
            // What is broken into lines has a shape for each; the first is as good as any.
            browser.try_ask("DOM.getContentQuads", &json!({ "nodeId": node }))
        });
        let corner = |ix: usize| shapes["quads"][0][ix].as_f64().unwrap();
        let (x, y) = ((corner(0) + corner(4)) / 2.0, (corner(1) + corner(5)) / 2.0);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.ask("Input.dispatchMouseEvent", &event);
        }
    }

    /// Writes into a field.
    pub(super) fn write(&mut self, selector: &str, text: &str) {
        self.on(selector, |browser, node| browser.try_ask("DOM.focus", &json!({ "nodeId": node })));
        self.ask("Input.insertText", &json!({ "text": text }));
    }

    /// The page as it stands, as HTML.
    pub(super) fn html(&mut self) -> String {
        let html =
            self.on("html", |browser, node| browser.try_ask("DOM.getOuterHTML", &json!({ "nodeId": node })));
        html["outerHTML"].as_str().unwrap().to_owned()
    }

    /// Waits until the page as it stands says this, without going anywhere.
    pub(super) fn await_text(&mut self, text: &str) {
        let (began, pages) = (std::time::Instant::now(), self.pages);
        loop {
            let html = self.html();
            assert_eq!(self.pages, pages, "the page was loaded again");
            if html.contains(text) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "'{text}' is not in {html}");
        }
    }

    /// What a property of something on the page comes to.
    pub(super) fn style_of(&mut self, selector: &str, property: &str) -> String {
        self.ask("CSS.enable", &json!({}));
        let styles = self.on(selector, |browser, node| {
            browser.try_ask("CSS.getComputedStyleForNode", &json!({ "nodeId": node }))
        });
        let all = styles["computedStyle"].as_array().unwrap();
        let found = all.iter().find(|style| style["name"] == property);
        found.unwrap_or_else(|| panic!("{selector} has no {property}"))["value"].as_str().unwrap().to_owned()
    }

    /// Has a script run in every page from now on, before those of the page.
    pub(super) fn inject(&mut self, script: &str) {
        self.ask("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": script }));
    }

    /// Whether there is something like this on the page.
    pub(super) fn has(&mut self, selector: &str) -> bool {
        let found = self.on("html", |browser, _| browser.node(selector));
        found != 0
    }

    /// The path of the page.
    pub(super) fn path(&mut self) -> String {
        let url = reqwest::Url::parse(self.entry()["url"].as_str().unwrap()).unwrap();
        url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()))
    }

    fn title(&mut self) -> String {
        self.entry()["title"].as_str().unwrap().to_owned()
    }

    fn entry(&mut self) -> Value {
        let history = self.ask("Page.getNavigationHistory", &json!({}));
        history["entries"].as_array().unwrap().last().unwrap().clone()
    }

    /// How wide the page is, whatever the window shows of it.
    pub(super) fn width(&mut self) -> f64 {
        self.ask("Page.getLayoutMetrics", &json!({}))["cssContentSize"]["width"].as_f64().unwrap()
    }

    /// The height of something on the page.
    pub(super) fn height_of(&mut self, selector: &str) -> f64 {
        let model =
            self.on(selector, |browser, node| browser.try_ask("DOM.getBoxModel", &json!({ "nodeId": node })));
        model["model"]["height"].as_f64().unwrap()
    }

    /// A picture of the window, as PNG.
    pub(super) fn picture(&mut self) -> Vec<u8> {
        let taken =
            self.ask("Page.captureScreenshot", &json!({ "format": "png", "optimizeForSpeed": false }));
        base64::engine::general_purpose::STANDARD.decode(taken["data"].as_str().unwrap()).unwrap()
    }

    /// What the browser complained about: a policy that was broken, a file that was not there.
    pub(super) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Does something with something on the page. A page that follows its run may put something else in its place at any
    /// time.
    fn on(&mut self, selector: &str, act: impl Fn(&mut Self, Value) -> Result<Value, Value>) -> Value {
        let began = std::time::Instant::now();
        loop {
            let done = self.node(selector).and_then(|node| match node == 0 {
                true => Err(json!("there is no such thing")),
                false => act(self, node),
            });
            match done {
                Ok(done) => return done,
                Err(gone) => assert!(began.elapsed() < PATIENCE, "{selector}: {gone}"),
            }
        }
    }

    /// Something on the page; 0 if there is nothing like it.
    fn node(&mut self, selector: &str) -> Result<Value, Value> {
        let root = self.try_ask("DOM.getDocument", &json!({ "depth": 0 }))?["root"]["nodeId"].clone();
        let asked = json!({ "nodeId": root, "selector": selector });
        Ok(self.try_ask("DOM.querySelector", &asked)?["nodeId"].clone())
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.try_ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.next();
            if answer["id"] == self.last {
                return if answer["error"].is_null() { Ok(answer["result"].clone()) } else { Err(answer) };
            }
        }
    }

    fn await_page_after(&mut self, before: u64) {
        while self.pages == before {
            self.next();
        }
    }

    fn next(&mut self) -> Value {
        let message = self.messages.recv_timeout(PATIENCE).expect("Chromium still talks");
        match message["method"].as_str() {
            Some("Page.frameNavigated") => self.on_the_way = true,
            Some("Page.loadEventFired") if std::mem::take(&mut self.on_the_way) => self.pages += 1,
            Some("Log.entryAdded") if message["params"]["entry"]["level"] != "verbose" => {
                self.complaints.push(message["params"]["entry"].to_string());
            }
            _ => {}
        }
        message
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Its helpers end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn binary() -> std::ffi::OsString {
    let told = std::env::var_os("ABIDE_TEST_CHROMIUM").filter(|path| !path.is_empty());
    told.unwrap_or_else(|| "chromium".into())
}
