//! Exit codes: public API, so that a script can tell a verdict from a failure to reach one.

/// How a run of the tool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, or accepted.
    Ok = 0,
    /// The command line makes no sense.
    Usage = 2,
    /// No kernel crate matches the selection.
    NoKernel = 4,
    /// A bug in the tool.
    Internal = 70,
    /// A manifest or the set-up is wrong.
    Setup = 96,
    /// The kernel needs a device that is not here.
    NoDevice = 97,
    /// Slower than before, or rejected.
    Regressed = 100,
    /// A build failed: a source or a launch plan is wrong.
    BuildFailed = 101,
    /// `cargo metadata` failed.
    MetadataFailed = 102,
    /// A correctness trial failed.
    Incorrect = 103,
    /// The measurement cannot tell.
    Inconclusive = 104,
    /// Another process holds the campaign, or it is incomplete.
    Locked = 105,
    /// A kernel broke the rules of measurement.
    Integrity = 106,
    /// Output could not be written.
    Output = 110,
}

impl Exit {
    /// Every code with its meaning, in order, for `--help` and the README.
    pub const ALL: [(Self, &'static str); 14] = [
        (Self::Ok, "ok, or accepted"),
        (Self::Usage, "usage"),
        (Self::NoKernel, "no kernel selected"),
        (Self::Internal, "internal error"),
        (Self::Setup, "set-up or configuration"),
        (Self::NoDevice, "no device"),
        (Self::Regressed, "regressed or rejected"),
        (Self::BuildFailed, "build failed"),
        (Self::MetadataFailed, "cargo metadata failed"),
        (Self::Incorrect, "correctness failed"),
        (Self::Inconclusive, "inconclusive"),
        (Self::Locked, "campaign locked or incomplete"),
        (Self::Integrity, "integrity violation"),
        (Self::Output, "cannot write output"),
    ];

    /// What a process meant that exited with this number.
    #[must_use]
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().map(|(exit, _)| exit).find(|exit| exit.code() == code)
    }

    /// What it means, in words.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        Self::ALL.into_iter().find(|(exit, _)| *exit == self).map_or("", |(_, meaning)| meaning)
    }

    /// The number that the process exits with.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}
