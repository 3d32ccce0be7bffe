//! A page in a real browser: headless Chromium, controlled with its own protocol over the loopback interface.
//!
//! The browser listens on a port of its choice and prints the address to stderr. It is killed when the [`Page`] is
//! dropped.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket, connect};

/// Names of the program.
const NAMES: [&str; 2] = ["chromium", "chromium-browser"];
/// Text before the address in the browser's output.
const LISTENS: &str = "DevTools listening on ";

/// An open page.
pub(crate) struct Page {
    browser: Child,
    _folder: TempDir,
    socket: WebSocket<MaybeTlsStream<TcpStream>>,
    session: Value,
    asked: u64,
}

/// Returns the path of the browser, or `None` on machines without one, where the caller skips its test. The gate
/// requires a browser.
pub(crate) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name))).find(|at| at.is_file());
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "the gate installs Chromium");
    found
}

impl Page {
    /// Opens a file in a window of this size in pixels, and waits until the page is ready.
    pub(crate) fn open(program: &Path, file: &str, width: u32, height: u32) -> Page {
        let folder = TempDir::new().expect("a temporary folder can be made");
        let mut browser = Command::new(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run"])
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .arg(format!("--window-size={width},{height}"))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the browser starts");
        let (socket, _) = connect(address(&mut browser)).expect("the browser listens");
        let mut page = Page { browser, _folder: folder, socket, session: Value::Null, asked: 0 };
        let target = page.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = page.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        page.session = attached["sessionId"].clone();
        page.call("Page.enable", &json!({}));
        page.call("Page.navigate", &json!({ "url": format!("file://{file}") }));
        while page.next()["method"] != "Page.loadEventFired" {}
        page.evaluate(
            "new Promise((done) => {
                const look = () => (window.freehold?.ready ? done(true) : setTimeout(look, 10));
                look();
            })",
        );
        page
    }

    /// Evaluates an expression in the page; promises are awaited.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer:#}");
        answer["result"]["value"].clone()
    }

    /// Presses a key with this name and code.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Sets the color scheme to dark or light.
    pub(crate) fn color_scheme(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Makes a call in the browser's protocol and returns its answer. Events in between are skipped.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let mut request = json!({ "id": self.asked, "method": method, "params": params });
        if !self.session.is_null() {
            request["sessionId"] = self.session.clone();
        }
        self.socket.send(Message::text(request.to_string())).expect("the browser listens");
        loop {
            let answer = self.next();
            if answer["id"] == self.asked {
                assert!(answer["error"].is_null(), "{method}: {answer:#}");
                return answer["result"].clone();
            }
        }
    }

    /// Returns the browser's next message: an answer or an event.
    fn next(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.read().expect("the browser answers") {
                return serde_json::from_str(&text).expect("the answer of the browser must be JSON");
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // The browser may have ended already.
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}

/// Returns the address at which the browser listens. The rest of its output is discarded.
fn address(browser: &mut Child) -> String {
    let mut lines = BufReader::new(browser.stderr.take().expect("stderr must be a pipe")).lines().map_while(Result::ok);
    let address = lines.find_map(|line| line.strip_prefix(LISTENS).map(str::to_owned));
    thread::spawn(move || lines.for_each(drop));
    address.expect("the browser must print its address")
}
