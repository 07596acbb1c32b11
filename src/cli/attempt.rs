//! `cargo kopt try` and `cargo kopt wait`

use std::time::Duration;

use camino::Utf8PathBuf;
use kopt_schema::campaign::direction::{Bucket, Category};
use kopt_schema::exit::Exit;

use super::campaigns::Named;
use super::quantity;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Try the edit that lies in a campaign's worktree
///
/// For a person or an agent at work in an editor. Edit the kernel's sources in the worktree that `optimize --by-hand` names
/// (and `status --message-format json`), then say why it should be faster: the edit becomes the candidate of the next
/// round, is compiled, checked and compared, and is committed or rolled back. The answer is short, and one JSON line with
/// --message-format json. Build and correctness failures leave the edit where it is, to be put right: up to three more
/// attempts belong to the same round. Every try is a round like any other, and is charged to the campaign's error rate.
/// Exit code 0 when it was accepted, 100 when it is no faster or was refused, 101 when it does not build, 103 when it is
/// wrong, 104 when the data cannot tell, 106 when it broke the rules of measurement.
///
/// Begin with: cargo kopt optimize -p softmax-cpu --by-hand --yes
///
/// Example: cargo kopt try --hypothesis "eight accumulators hide the latency of the adds"
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    campaign: Named,
    /// Why it should be faster
    #[arg(long, value_name = "TEXT")]
    hypothesis: String,
    /// What changes, in a few words: the subject of the commit
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The direction it belongs to, such as 'data layout and movement'
    #[arg(long, value_name = "NAME", value_parser = category)]
    category: Option<Category>,
    /// What it keeps between calls, by your own account: K1 to K4, or W1 for what `prepare` derives from a weight
    #[arg(long, value_name = "BUCKET", value_parser = bucket)]
    bucket: Option<Bucket>,
    /// What is different from a similar one that was rolled back
    #[arg(long, value_name = "TEXT")]
    different: Option<String>,
    /// Answer at once and go on in the background; `cargo kopt wait` has the answer
    #[arg(long)]
    detach: bool,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        let request = ops::attempt::Request {
            which: self.campaign.which(manifest_path),
            hypothesis: self.hypothesis,
            title: self.title,
            category: self.category,
            bucket: self.bucket,
            different: self.different,
            detach: self.detach,
        };
        ops::attempt::attempt(context, shell, &request)
    }
}

/// Wait for the answer to `try --detach`
///
/// The same answer and exit code as `try` itself would have given. Exit code 104 when there is none within the time.
///
/// Example: cargo kopt wait --time 5m
#[derive(Debug, clap::Args)]
pub struct WaitArgs {
    #[command(flatten)]
    campaign: Named,
    /// How long to wait, such as 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = quantity::seconds)]
    time: f64,
}

impl WaitArgs {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        let which = self.campaign.which(manifest_path);
        ops::attempt::wait(context, shell, &which, Duration::from_secs_f64(self.time))
    }
}

pub fn category(text: &str) -> Result<Category, String> {
    let names = Category::DIRECTIONS.map(Category::name);
    Category::DIRECTIONS.into_iter().find(|one| one.name() == text).ok_or_else(|| {
        let near = kopt_schema::nearest(text, names).map(|near| format!(" Did you mean `{near}`?")).unwrap_or_default();
        format!("there are: {}.{near}", names.join("; "))
    })
}

pub fn bucket(text: &str) -> Result<Bucket, String> {
    let wanted = text.to_uppercase();
    let found = Bucket::ALL.into_iter().find(|bucket| bucket.name() == wanted);
    found.ok_or_else(|| "K1 inside the kernel, K2 a layout, K3 fusion, K4 kept for the same step's backward, W1 derived from a weight by `prepare`; W2 and W3 are memories of past calls, and refused".to_owned())
}
