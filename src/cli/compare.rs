//! `cargo kopt compare`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::quantity;
use crate::context::Context;
use crate::error::Result;
use crate::gate;
use crate::ops;
use crate::referee::seeds::Master;
use crate::shell::Shell;

/// Compare two versions of a kernel
///
/// BASE is a revision of the repository; HEAD is another, or the working tree. Both are compiled and run against each
/// other, interleaved, in fresh processes again and again, by a judge built from BASE, which compares the results of
/// one timed batch in four, drawn by lot, in full. A gain counts when it is shown twice: by a screen, and by a
/// confirmation with new processes and seeds. Everything the verdict rests on is kept as evidence. Exit code 0 when
/// accepted, 100 when rolled back, 104 when the data cannot tell, 103 and 106 when HEAD is wrong or broke the rules of
/// measurement.
///
/// Example: cargo kopt compare origin/main -p softmax-cpu
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The version that stands: a branch, a tag, HEAD~1, a commit
    #[arg(value_name = "BASE", default_value = "HEAD")]
    base: String,
    /// The version that challenges it; the working tree if left out, or if it is `.`
    #[arg(value_name = "HEAD")]
    head: Option<String>,
    /// The kernel crate; not needed inside of one
    #[arg(short, long = "package", value_name = "NAME")]
    package: Option<String>,
    /// Only these shapes
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    shapes: Vec<String>,
    /// The smallest, the middle and the largest shape, fewer launches, and no trace
    #[arg(long)]
    quick: bool,
    /// What is accepted: default, tile, service or training; gate fails only what is shown to be slower
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = policy)]
    policy: String,
    /// Least gain of an accept, such as 1% or 0.01, instead of the policy's
    #[arg(long, value_name = "SHARE", value_parser = quantity::share)]
    min_gain: Option<f64>,
    /// Time that measuring may take, such as 90s or 2m; up to twice as long where a confirmation has begun that lacks launches
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = quantity::seconds)]
    max_time: f64,
    /// Repeat the orders of an earlier comparison, whose evidence names its seed
    #[arg(long, value_name = "HEX", value_parser = Master::given)]
    seed: Option<Master>,
    /// Where the evidence goes, instead of a new file in target/kopt/evidence
    #[arg(long, value_name = "FILE")]
    evidence: Option<Utf8PathBuf>,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        let request = ops::compare::Request {
            manifest_path,
            package: self.package,
            base: self.base,
            head: self.head,
            shapes: self.shapes,
            core: Vec::new(),
            quick: self.quick,
            policy: self.policy,
            min_gain: self.min_gain,
            max_time_s: self.max_time,
            seed: self.seed,
            evidence: self.evidence,
        };
        ops::compare::compare(context, shell, &request)
    }
}

/// Only the gate knows which policies there are.
fn policy(text: &str) -> Result<String, String> {
    gate::terms(text, None, false).map(|terms| terms.policy)
}
