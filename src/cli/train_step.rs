//! `cargo kopt train-step`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::quantity;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::referee::seeds::Master;
use crate::shell::Shell;

/// What a kernel's gain is worth in training
///
/// Runs two versions of a kernel inside a real training step: a small language model (forward, backward, AdamW) in which
/// the kernel takes over its op, or your own script (`transfer.command = "python train.py"`). Both versions train from the
/// same weights on the same text, one step each in turn, in fresh processes again and again. Told are the times of the step,
/// its gain with an interval, the op's share of the step, the gain that this share and a benchmark of the same calls predict,
/// and whether both versions learn the same. A gain that exists only because a benchmark repeats its calls is predicted, and
/// not found in the step. The manifest says which op of the model the kernel takes over:
/// `[package.metadata.kopt.transfer] slot = "rmsnorm"`. Campaigns do the same at their baseline, for their report, and with
/// `--policy training` before every accept. Exit code 0 when the losses agree, 103 when they do not or the candidate does
/// not get through.
///
/// Example: cargo kopt train-step -p rmsnorm-cpu --base HEAD~1
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The kernel crate; not needed inside of one
    #[arg(short, long = "package", value_name = "NAME")]
    package: Option<String>,
    /// The version that stands: a branch, a tag, HEAD~1, a commit; the working tree challenges it
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    base: String,
    /// The version that challenges it, instead of the working tree
    #[arg(long, value_name = "REV")]
    head: Option<String>,
    /// Sizes of the model, instead of those made for the op: rmsnorm, softmax, matmul or grouped_matmul
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Time after which no further launch is begun, such as 50s or 2m
    #[arg(long, value_name = "TIME", default_value = "50s", value_parser = quantity::seconds)]
    max_time: f64,
    /// Repeat weights, text and orders of an earlier run
    #[arg(long, value_name = "HEX", value_parser = Master::given)]
    seed: Option<Master>,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        let request = ops::train_step::Request {
            manifest_path,
            package: self.package,
            base: self.base,
            head: self.head,
            preset: self.preset,
            max_time_s: self.max_time,
            seed: self.seed,
        };
        ops::train_step::train_step(context, shell, &request)
    }
}
