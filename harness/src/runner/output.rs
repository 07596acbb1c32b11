//! Messages for machines, appended to the file named by `KOPT_OUT`.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Mutex;

use kopt_schema::json::Json as _;
use kopt_schema::message::Message;

use super::environment;

/// Where messages go; nowhere without `KOPT_OUT`.
#[derive(Debug)]
pub(crate) struct Output(Option<Mutex<File>>);

impl Output {
    /// Opens the file.
    pub(crate) fn open() -> Result<Self, String> {
        let Some(path) = environment::out() else { return Ok(Self(None)) };
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        opened.map(|file| Self(Some(Mutex::new(file)))).map_err(|error| format!("KOPT_OUT={path}: {error}"))
    }

    /// Appends a line. Whole lines only: several threads and processes may write.
    #[allow(clippy::print_stderr, reason = "a lost message must be seen; a test binary has no other channel")]
    pub(crate) fn send(&self, message: &Message) {
        let Some(file) = &self.0 else { return };
        let line = message.to_json().map(|line| line + "\n");
        let written = line.map_err(std::io::Error::from).and_then(|line| match file.lock() {
            Ok(mut file) => file.write_all(line.as_bytes()),
            Err(_) => Ok(()),
        });
        if let Err(error) = written {
            eprintln!("error: KOPT_OUT: {error}");
        }
    }
}
