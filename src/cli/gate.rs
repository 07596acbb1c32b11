//! `cargo kopt gate`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::quantity;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::ops::gate::Inconclusive;
use crate::ops::gate::init::System;
use crate::referee::seeds::Master;
use crate::shell::Shell;

const EXAMPLES: &str = "More examples:
  cargo kopt gate                               this branch against the default branch
  cargo kopt gate HEAD~1 --max-time 1m          the last commit, in a minute of measuring
  cargo kopt gate --markdown gate.md            the same for a comment
  cargo kopt gate --html gate.html              the same as a page, with plots
  cargo kopt gate --init github                 workflows that do this for every pull request";

/// Find out whether a change makes any kernel slower, wrong or dishonest
///
/// Two commits are compared on this machine: what is checked out, and where it left the default branch. Only kernels that
/// the change can reach are looked at, by their sources, headers, dependencies, harness and toolchain; where both compile
/// to the same code, nothing is run. The others are checked on every trial and timed against each other, interleaved, by
/// the BASE's harness, references, tolerances and shapes.
///
/// The head's compiled code is read too (`cargo kopt audit`): what it can remember or reach that the base's cannot fails
/// the gate, whatever the head's own policy allows; what the base has already is told.
///
/// Slower is only what is shown to be: a slowdown beyond the tolerance by its lower bound, in all shapes together or in
/// one, shown again by separate launches, while the base against itself shows nothing. A slowdown that is meant is allowed by
/// a line at the end of a commit's message, `Kopt-Allow: <kernel> <reason>`, which excuses nothing else but that a kernel is
/// called differently than before and cannot be compared. A working tree is not gated; `cargo kopt compare` takes one.
///
/// Exit codes: 0 nothing to object to, 100 slower, 103 wrong, 106 can do what none may, broke the rules of measurement or
/// passes only by what the change edits, 104 cannot tell, or cannot be judged or compared, 101 does not build. With several
/// kernels the first of 106, 103, 101, 100, 104.
///
/// Example: cargo kopt gate origin/main
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The version that stands; where HEAD has left the default branch if left out (or what GitHub says of the event)
    #[arg(value_name = "BASE", conflicts_with = "base")]
    revision: Option<String>,
    /// The same as BASE
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// The version that is gated, instead of what is committed and checked out
    #[arg(long, value_name = "REV")]
    head: Option<String>,
    /// What a kernel may lose in time, such as 2% or 0.02
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = quantity::share)]
    tolerance: f64,
    /// Time that measuring may take over all kernels, such as 90s or 3m; checking and building have their own
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = quantity::seconds)]
    max_time: f64,
    /// What to do when a kernel cannot be decided
    #[arg(long, value_name = "WHAT", default_value = "fail")]
    inconclusive: Inconclusive,
    /// Write Markdown there, for a comment (GITHUB_STEP_SUMMARY gets it too, where it is set)
    #[arg(long, value_name = "FILE")]
    markdown: Option<Utf8PathBuf>,
    /// Write JUnit there
    #[arg(long, value_name = "FILE")]
    junit: Option<Utf8PathBuf>,
    /// Write a page for a browser there, with plots of what was measured; it asks for nothing outside of itself
    #[arg(long, value_name = "FILE")]
    html: Option<Utf8PathBuf>,
    /// Repeat the orders of an earlier gate, whose evidence names its seed
    #[arg(long, value_name = "HEX", value_parser = Master::given)]
    seed: Option<Master>,
    /// Write the workflows that gate pull requests, and do nothing else
    #[arg(long, value_name = "SYSTEM", conflicts_with_all = ["revision", "base", "head", "markdown", "junit", "html", "seed"])]
    init: Option<System>,
    /// Replace workflows that are there already
    #[arg(long, requires = "init")]
    force: bool,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        if let Some(System::Github) = self.init {
            return ops::gate::init::init(context, shell, manifest_path.as_deref(), self.force);
        }
        let request = ops::gate::Request {
            manifest_path,
            base: self.revision.or(self.base),
            head: self.head,
            tolerance: self.tolerance,
            max_time_s: self.max_time,
            inconclusive: self.inconclusive,
            markdown: self.markdown,
            junit: self.junit,
            html: self.html,
            seed: self.seed,
        };
        ops::gate::gate(context, shell, &request)
    }
}
