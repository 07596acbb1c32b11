//! Chromium without a window, spoken to over its pipe: one page at a time, with everything it asks for and complains of.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use command_fds::{CommandFdExt as _, FdMapping};
use serde_json::{Value, json};

/// Names that the browser goes by.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// It stays what it is and calls nobody.
const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
];

/// Where it is installed, if it is.
pub fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    places.find(|place| place.is_file())
}

/// The browser with one page.
pub struct Browser {
    child: Child,
    to: PipeWriter,
    from: BufReader<PipeReader>,
    session: Option<String>,
    number: u64,
    /// Addresses that the page asked for.
    pub requests: Vec<String>,
    /// What was written to its console, thrown, or blocked.
    pub complaints: Vec<String>,
    loaded: bool,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let (their_in, to) = std::io::pipe().unwrap();
        let (from, their_out) = std::io::pipe().unwrap();
        let mut command = Command::new(program);
        command.args(FLAGS).arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mappings = vec![
            FdMapping { parent_fd: their_in.into(), child_fd: 3 },
            FdMapping { parent_fd: their_out.into(), child_fd: 4 },
        ];
        command.fd_mappings(mappings).unwrap();
        let child = command.spawn().unwrap();
        drop(command);
        let mut browser = Self {
            child,
            to,
            from: BufReader::new(from),
            session: None,
            number: 0,
            requests: Vec::new(),
            complaints: Vec::new(),
            loaded: false,
            _profile: profile,
        };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.ask("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Runtime", "Log", "Network", "Page"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Opens a page in a window of that width, light or dark.
    pub fn open(&mut self, page: &Path, width: u32, dark: bool) {
        let phone = width < 600;
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": phone});
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", media);
        self.ask("Page.navigate", json!({"url": "about:blank"}));
        self.settle();
        (self.requests, self.complaints) = (Vec::new(), Vec::new());
        self.loaded = false;
        self.ask("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        while !self.loaded {
            let message = self.hear();
            self.note(&message);
        }
        self.settle();
    }

    /// What a script gives, run from outside: the page's own rules do not bind it.
    pub fn evaluate(&mut self, script: &str) -> Value {
        let answer =
            self.ask("Runtime.evaluate", json!({"expression": script, "returnByValue": true, "awaitPromise": true}));
        assert!(answer.get("exceptionDetails").is_none(), "{script}\n{answer}");
        answer["result"]["value"].clone()
    }

    /// The whole page as a picture, in base64.
    pub fn picture(&mut self) -> String {
        let answer = self.ask("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": true}));
        answer["data"].as_str().unwrap().to_owned()
    }

    /// Everything that was on its way has been heard when two frames were drawn.
    fn settle(&mut self) {
        self.evaluate("new Promise(done => setTimeout(() => setTimeout(done, 50), 50)).then(() => 1)");
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut request = json!({"id": self.number, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let message = self.hear();
            if message["id"] == self.number {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn hear(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&bytes).unwrap()
    }

    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                self.requests.push(parameters["request"]["url"].as_str().unwrap().to_owned());
            }
            "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => {
                self.complaints.push(parameters.to_string());
            }
            "Page.loadEventFired" => self.loaded = true,
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        let _ = self.to.write_all(b"{\"id\": 0, \"method\": \"Browser.close\"}\0");
        let _ = self.child.wait();
    }
}
