//! A progress bar on a terminal; nothing anywhere else, where a line when each part is done says enough.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// At most one bar at a time.
pub struct Progress {
    visible: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A place for bars, shown or not.
    #[must_use]
    pub const fn new(visible: bool) -> Self {
        Self { visible, bar: None }
    }

    /// Starts a bar; its length may not be known yet.
    pub fn start(&mut self, name: &str, length: Option<usize>) {
        self.finish();
        if !self.visible {
            return;
        }
        let bar = ProgressBar::with_draw_target(length.map(wide), ProgressDrawTarget::stderr());
        bar.set_style(style(length.is_some()));
        bar.set_prefix(name.to_owned());
        bar.enable_steady_tick(std::time::Duration::from_millis(120));
        self.bar = Some(bar);
    }

    /// The length, once it is known.
    pub fn length(&mut self, length: usize) {
        if let Some(bar) = &self.bar {
            bar.set_style(style(true));
            bar.set_length(wide(length));
        }
    }

    /// How far it is, and what is happening.
    pub fn at(&mut self, position: usize, now: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(wide(position));
            bar.set_message(now.to_owned());
        }
    }

    /// Takes the bar away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Prints something while the bar stands aside.
    pub fn aside(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn style(known: bool) -> ProgressStyle {
    let template = match known {
        true => "{prefix:>12} [{bar:24}] {pos}/{len} {elapsed} {wide_msg}",
        false => "{prefix:>12} {spinner} {elapsed} {wide_msg}",
    };
    // A template that indicatif refuses would be a slip in the two lines above; the plain bar still tells the tale.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_that_is_not_shown_takes_every_call() {
        let mut progress = Progress::new(false);
        progress.start("x", None);
        progress.length(3);
        progress.at(1, "y");
        let mut printed = false;
        progress.aside(|| printed = true);
        progress.finish();
        assert!(printed);
    }
}
