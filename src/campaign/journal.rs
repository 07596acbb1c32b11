//! `events.jsonl`: appended to, line by line, each on disk before the next step is taken. The state is the ledger's fold
//! over it.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::time::Instant;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::campaign::{Entry, Event};
use kopt_schema::exit::Exit;
use sha2::{Digest as _, Sha256};

use super::folder;
use crate::error::{Error, Result};
use crate::ledger::{self, Damage, DamageKind, State};
use crate::machine::Moment;

/// The events of a campaign, open for more.
#[derive(Debug)]
pub struct Journal {
    path: Utf8PathBuf,
    file: File,
    length: u64,
    /// Of everything that was written: the file lies where others can write, too.
    digest: Sha256,
    state: State,
    /// Seconds that the campaign had run before this process took over.
    before_s: f64,
    begun: Instant,
}

impl Journal {
    /// Starts a new one.
    ///
    /// # Errors
    /// When the file exists or cannot be made.
    pub fn create(path: &Utf8Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).open(path).map_err(|error| failed(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            length: 0,
            digest: Sha256::new(),
            state: State::default(),
            before_s: 0.0,
            begun: Instant::now(),
        })
    }

    /// Opens one to go on with. A last line that was cut off is put aside in `events.cut-off`, and said; any other
    /// damage is an error, and nothing is changed.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn open(path: &Utf8Path) -> Result<(Self, Vec<String>)> {
        let mut text = bytes_of(path)?;
        let mut repaired = Vec::new();
        if let Err(Damage { kind: DamageKind::CutOff { whole }, .. }) = ledger::read_bytes(&text) {
            folder::write(&path.with_file_name("events.cut-off"), &text[whole..])?;
            text.truncate(whole);
            repaired.push(
                "the last event was cut off while it was written; it is put aside in `events.cut-off`".to_owned(),
            );
        }
        let state = of_text(path, &text)?;
        let mut file = OpenOptions::new().append(true).open(path).map_err(|error| failed(path, &error))?;
        let mut length = text.len() as u64;
        file.set_len(length).map_err(|error| failed(path, &error))?;
        if text.last().is_some_and(|last| *last != b'\n') {
            // Only its newline was lost: the event itself stands.
            file.write_all(b"\n").map_err(|error| failed(path, &error))?;
            text.push(b'\n');
            length += 1;
        }
        let (before_s, begun) = (state.elapsed_s, Instant::now());
        let digest = Sha256::new_with_prefix(&text);
        Ok((Self { path: path.to_owned(), file, length, digest, state, before_s, begun }, repaired))
    }

    /// The state after everything that was written.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Seconds that the campaign has run, pauses left out.
    #[must_use]
    pub fn elapsed_s(&self) -> f64 {
        self.before_s + self.begun.elapsed().as_secs_f64()
    }

    /// Writes an event down. It is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot follow, which is a bug, or cannot be written, or somebody else has changed the file; it is then as
    /// it was.
    pub fn add(&mut self, event: Event) -> Result<Entry> {
        self.unchanged()?;
        let elapsed_s = (self.elapsed_s() * 1e3).round() / 1e3;
        let entry = self.state.entry(Moment::now().second(), elapsed_s, event);
        let mut next = self.state.clone();
        next.apply(&entry).map_err(|wrong| {
            Error::new(Exit::Internal, "an event that cannot follow")
                .cause(wrong)
                .hint("this is a bug of cargo kopt; the campaign is as it was, `cargo kopt resume` goes on with it")
        })?;
        let line = ledger::line(&entry);
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Half a line must not stand before the next one. If this fails too, opening it again puts it right.
            let _ = self.file.set_len(self.length);
            return Err(failed(&self.path, &error));
        }
        self.length += line.len() as u64;
        self.digest.update(line.as_bytes());
        self.state = next;
        Ok(entry)
    }

    /// The file holds what was written, and nothing else.
    fn unchanged(&self) -> Result<()> {
        if Sha256::digest(bytes_of(&self.path)?) == self.digest.clone().finalize() {
            return Ok(());
        }
        Err(Error::new(
            Exit::Locked,
            format!("`{}` was changed by somebody else while the campaign was at work", self.path),
        )
        .hint(format!("find out who writes there. {AS_STORED}")))
    }
}

/// The state of a campaign whose events are in `path`, for those who only look. A line that is being written is left out.
///
/// # Errors
/// When the file cannot be read or is damaged.
pub fn look(path: &Utf8Path) -> Result<State> {
    let mut text = bytes_of(path)?;
    if let Err(Damage { kind: DamageKind::CutOff { whole }, .. }) = ledger::read_bytes(&text) {
        text.truncate(whole);
    }
    of_text(path, &text)
}

fn bytes_of(path: &Utf8Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::setup(format!("cannot read the events `{path}`")).because(&error))
}

fn of_text(path: &Utf8Path, text: &[u8]) -> Result<State> {
    ledger::read_bytes(text).and_then(|entries| State::fold(&entries)).map_err(|damage| {
        let error = Error::new(Exit::Locked, format!("`{path}` is damaged")).cause(damage.to_string());
        match damage.kind {
            DamageKind::Newer => error.hint("a newer cargo kopt has written it: update this one"),
            _ => error.hint(AS_STORED),
        }
    })
}

const AS_STORED: &str = "nothing was changed; the copy under refs/kopt/<campaign>/evidence, as of the last round, is \
                         `git show refs/kopt/<campaign>/evidence:events.jsonl`";

/// What git has of the events, as of the last round, must be the beginning of what is on disk.
///
/// # Errors
/// When it is not: events were changed or removed.
pub fn agrees(path: &Utf8Path, stored: &[u8]) -> Result<()> {
    if bytes_of(path)?.starts_with(stored) {
        return Ok(());
    }
    Err(Error::new(Exit::Locked, format!("`{path}` is damaged"))
        .cause("it does not begin with the events that were stored with the last round: some were changed or removed")
        .hint(AS_STORED))
}

fn failed(path: &Utf8Path, error: &std::io::Error) -> Error {
    Error::new(Exit::Output, format!("cannot write the events `{path}`"))
        .because(error)
        .hint("what was recorded before stands: make room or put the permissions right, then `cargo kopt resume`")
}
