//! What GitHub Actions tells a step by its environment.

use camino::Utf8PathBuf;
use serde_json::Value;

/// The variables that matter here, and the event's file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GitHub {
    /// A step of GitHub Actions: annotations are read.
    pub actions: bool,
    /// The branch that a pull request is to be merged into.
    pub base_ref: Option<String>,
    /// `pull_request`, `push`, `merge_group`.
    pub event_name: Option<String>,
    /// What the event's file says; null where there is none or it cannot be read.
    pub event: Value,
    /// Where Markdown for the run's page is appended.
    pub step_summary: Option<Utf8PathBuf>,
}

impl GitHub {
    /// Reads the process's environment, and the event's file.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "a part of the one place")]
    pub fn of_process() -> Self {
        let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let actions = value("GITHUB_ACTIONS").as_deref() == Some("true");
        let event = value("GITHUB_EVENT_PATH").and_then(|path| std::fs::read(path).ok());
        Self {
            actions,
            base_ref: value("GITHUB_BASE_REF"),
            event_name: value("GITHUB_EVENT_NAME"),
            event: event.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default(),
            step_summary: value("GITHUB_STEP_SUMMARY").map(Utf8PathBuf::from),
        }
    }

    /// A text of the event's file, by its pointer.
    #[must_use]
    pub fn said(&self, pointer: &str) -> Option<&str> {
        // A branch that did not exist before is told as a commit of zeros.
        self.event.pointer(pointer)?.as_str().filter(|text| text.chars().any(|letter| letter != '0'))
    }
}
