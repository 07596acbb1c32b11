//! The only printer. People read stderr: status lines in cargo's manner, tables, errors, a progress bar on a terminal.
//! Machines read stdout: JSON lines under `--message-format json`, or the one document a command was asked for.

mod harmless;
pub mod progress;
pub mod table;
pub mod units;

use std::io::{self, IsTerminal, Write};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use kopt_schema::exit::Exit;
use kopt_schema::message::Message;

use crate::error::{Error, Result};
use progress::Progress;

/// Things are well.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Something is wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Something deserves a look.
pub const MIND: Style = AnsiColor::Yellow.on_default().bold();
/// Something is only told.
pub const TOLD: Style = AnsiColor::Cyan.on_default().bold();

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Color {
    /// On a terminal that has it, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// The word that cargo takes too.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// Who reads stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// People: lists and documents. All else is on stderr.
    #[default]
    Human,
    /// A program: one JSON object a line.
    Json,
}

/// How much is said on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Verbosity {
    /// Failures and errors.
    Quiet,
    /// What a person wants to see.
    #[default]
    Normal,
    /// Everything.
    Verbose,
}

/// How to print.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manner {
    /// Who reads stdout.
    pub format: Format,
    /// How much is said.
    pub verbosity: Verbosity,
    /// When to use colour.
    pub color: Color,
}

/// Both outputs of the tool.
pub struct Shell {
    manner: Manner,
    out: Box<dyn Write + Send>,
    err: AutoStream<Box<dyn Write + Send>>,
    /// Nobody reads stdout any more (`| head`): said once, then everything for it is dropped.
    unheard: bool,
    progress: Progress,
}

impl Shell {
    /// The process's own stdout and stderr.
    #[must_use]
    pub fn of_process(manner: Manner) -> Self {
        let choice = match (manner.color, AutoStream::choice(&io::stderr())) {
            (Color::Auto, found) => found,
            (Color::Always, _) => anstream::ColorChoice::Always,
            (Color::Never, _) => anstream::ColorChoice::Never,
        };
        let visible = io::stderr().is_terminal() && manner.verbosity > Verbosity::Quiet;
        Self::new(
            manner,
            Box::new(io::stdout()),
            AutoStream::new(Box::new(io::stderr()), choice),
            Progress::new(visible),
        )
    }

    fn new(
        manner: Manner,
        out: Box<dyn Write + Send>,
        err: AutoStream<Box<dyn Write + Send>>,
        progress: Progress,
    ) -> Self {
        Self { manner, out, err, unheard: false, progress }
    }

    /// How this shell prints.
    #[must_use]
    pub const fn manner(&self) -> Manner {
        self.manner
    }

    /// Whether everything is to be told.
    #[must_use]
    pub fn verbose(&self) -> bool {
        self.manner.verbosity == Verbosity::Verbose
    }

    /// The progress bar.
    pub fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    /// Tells a program, if one reads.
    ///
    /// # Errors
    /// When stdout takes no more, a closed pipe excepted.
    pub fn message(&mut self, message: &Message) -> Result<()> {
        if self.manner.format == Format::Human {
            return Ok(());
        }
        let mut line = serde_json::to_string(message)
            .map_err(|error| Error::new(Exit::Internal, "cannot write a message as JSON").because(&error))?;
        line.push('\n');
        self.document(&line)
    }

    /// Writes to stdout what the user asked for: a schema, a completion script.
    ///
    /// # Errors
    /// When stdout takes no more, a closed pipe excepted.
    pub fn document(&mut self, text: &str) -> Result<()> {
        if self.unheard {
            return Ok(());
        }
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                // The reader has what it wanted. The verdict still counts, so the work goes on.
                self.unheard = true;
                Ok(())
            }
            Err(error) => {
                // What is left to say there, `finished` included, would only fail again.
                self.unheard = true;
                Err(Error::new(Exit::Output, "cannot write to stdout").because(&error))
            }
        }
    }

    /// The list or the text that a command was asked for: to stdout, where a pager or a search can take it. Beside messages
    /// for a program it is for people like everything else.
    ///
    /// # Errors
    /// When stdout takes no more, a closed pipe excepted.
    pub fn answer(&mut self, text: &str) -> Result<()> {
        match self.manner.format {
            Format::Human => self.document(&harmless::harmless(text)),
            Format::Json => {
                self.say(text);
                Ok(())
            }
        }
    }

    /// Whether the user, who is shown `what`, says yes to `question`.
    ///
    /// # Errors
    /// When nobody is there to say so.
    pub fn confirm(&mut self, what: &str, question: &str) -> Result<bool> {
        if !io::stdin().is_terminal() {
            return Err(Error::new(Exit::Usage, format!("nobody is there to confirm {what}"))
                .hint("--yes takes it as it is shown"));
        }
        self.tell(&format!("{question} [y/N] "));
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        read.map_err(|error| Error::setup("cannot read the answer").because(&error))?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// A line in cargo's manner: a word in the margin, then what it is about.
    pub fn status(&mut self, word: &str, style: Style, text: &str) {
        if self.manner.verbosity > Verbosity::Quiet {
            self.tell(&format!("{style}{word:>12}{style:#} {text}\n"));
        }
    }

    /// Text for people, left out when they want quiet.
    pub fn say(&mut self, text: &str) {
        if self.manner.verbosity > Verbosity::Quiet {
            self.tell(text);
        }
    }

    /// Text that even those who want quiet must see. A failure to print it has nobody to be told.
    pub fn tell(&mut self, text: &str) {
        let (err, text) = (&mut self.err, harmless::harmless(text));
        self.progress.aside(|| {
            let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
        });
    }

    /// `warning: …`
    pub fn warn(&mut self, text: &str) {
        self.say(&format!("{MIND}warning{MIND:#}: {text}\n"));
    }

    /// `note: …`
    pub fn note(&mut self, text: &str) {
        self.say(&format!("{TOLD}note{TOLD:#}: {text}\n"));
    }

    /// `error: …`, `Caused by: …`, `hint: …`, for people and for programs.
    ///
    /// # Errors
    /// When stdout takes no more.
    pub fn error(&mut self, error: &Error) -> Result<()> {
        let failure = error.failure();
        let mut text = format!("{BAD}error{BAD:#}: {}\n", failure.message);
        if !failure.causes.is_empty() {
            text.push_str("Caused by:\n");
            for cause in &failure.causes {
                text.push_str(&indented(cause, 4));
            }
        }
        if let Some(hint) = &failure.hint {
            text.push_str(&format!("{TOLD}hint{TOLD:#}: {hint}\n"));
        }
        self.tell(&text);
        self.message(&Message::Error(failure))
    }
}

/// A word as a shell takes it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Each line of `text` moved right, with a newline at its end.
#[must_use]
pub fn indented(text: &str, by: usize) -> String {
    let mut moved = String::with_capacity(text.len() + by);
    for line in text.lines() {
        if !line.trim().is_empty() {
            moved.extend(std::iter::repeat_n(' ', by));
            moved.push_str(line.trim_end());
        }
        moved.push('\n');
    }
    moved
}

/// `1 trial`, `2 trials`.
#[must_use]
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Full(io::ErrorKind);

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn shell(manner: Manner, out: impl Write + Send + 'static) -> (Shell, Paper) {
        let paper = Paper::default();
        let err = AutoStream::new(Box::new(paper.clone()) as Box<dyn Write + Send>, anstream::ColorChoice::Never);
        (Shell::new(manner, Box::new(out), err, Progress::new(false)), paper)
    }

    #[test]
    fn an_error_shows_its_causes_and_hint_without_colour() {
        let (mut shell, paper) = shell(Manner::default(), Paper::default());
        shell.error(&Error::setup("no").cause("two\nlines").hint("yes")).unwrap();
        let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "error: no\nCaused by:\n    two\n    lines\nhint: yes\n");
    }

    #[test]
    fn a_closed_pipe_is_no_error_and_a_full_disk_is() {
        let (mut closed, _) = shell(Manner::default(), Full(io::ErrorKind::BrokenPipe));
        assert!(closed.document("x").is_ok());
        let (mut full, _) = shell(Manner::default(), Full(io::ErrorKind::StorageFull));
        assert_eq!(full.document("x").unwrap_err().exit(), Exit::Output);
    }

    #[test]
    fn quiet_keeps_errors_and_drops_status() {
        let (mut shell, paper) = shell(Manner { verbosity: Verbosity::Quiet, ..Manner::default() }, Paper::default());
        shell.status("Checked", GOOD, "x");
        shell.tell("y");
        assert_eq!(*paper.0.lock().unwrap(), b"y");
    }
}
