//! What this repository has learned: tips, in `.kopt/experience/<device>/<op>/<backend>/tips.md`. People may edit the
//! file; campaigns add to it. Evidence is only ever added, and what a person wrote is left as it is.
//!
//! | module | what |
//! |---|---|
//! | `tip` | what a tip says |
//! | `file` | the file, read with the places of everything in it |
//! | `learning` | a tip added, observed again or contradicted |
//! | `round` | what a round teaches, if anything |
//! | `known` | the catalogue and the own tips, as one list |
//!
//! No tip recommends what only a benchmark rewards. One that would is kept as an anti-pattern, "do not retry".

mod file;
mod known;
mod learning;
mod round;
mod tip;

#[cfg(test)]
mod tests;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::Backend;

use crate::error::{Error, Result};

pub use known::{KnownTip, Origin, known};
pub use learning::{Learnt, learn};
pub use round::tip_of_round;
pub use tip::{Tip, TipEvidence};

/// The file in a folder of tips.
const FILE: &str = "tips.md";

/// Who holds this one may write the other.
const LOCK: &str = "tips.lock";

/// Characters of a folder's name at most.
const NAME: usize = 60;

/// The folder of tips for a kernel, under the workspace's `root`.
#[must_use]
pub fn folder(root: &Utf8Path, device: &str, op: &str, backend: Backend) -> Utf8PathBuf {
    // An op is a C identifier: a manifest with another name does not get this far.
    root.join(".kopt/experience").join(device_folder(device)).join(op).join(backend.name())
}

/// A device's name as that of a folder: `nvidia-h200`. Small letters and digits, `-` between them.
#[must_use]
pub fn device_folder(device: &str) -> String {
    let lower = device.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut name = words.join("-");
    name.truncate(NAME);
    match name.trim_end_matches('-') {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// The tips in `folder`, in the order of the file; none where there is no file.
///
/// # Errors
/// When the file cannot be read, or a line of it cannot be understood.
pub fn read(folder: &Utf8Path) -> Result<Vec<Tip>> {
    let path = folder.join(FILE);
    let sections = file::sections(&path, &text_of(&path)?)?;
    Ok(sections.into_iter().map(|section| section.tip).collect())
}

fn text_of(path: &Utf8Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Error::setup(format!("cannot read the tips in `{path}`"))
            .because(&error)
            .hint("mend the file or move it away; a new one is begun")),
    }
}
