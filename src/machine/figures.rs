//! `machine.json`: what was measured of the machine. It lies with everything else that may be deleted at any time; what it
//! holds can be measured again, so that nothing in it is ever a reason to fail.

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::FORMAT_VERSION;
use kopt_schema::evidence::Ceilings;
use kopt_schema::exit::Exit;
use kopt_schema::machine::{Figures, Noise};
use kopt_schema::manifest::Backend;
use kopt_stats::{Effect, gain_of_log};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::replacement::{Replacement, folder_of};

/// A gain that counts as resolved is shown this often.
const POWER: f64 = 0.8;

/// The smallest gain that this many launches show four times of five on a machine with this noise, by a test at level
/// `alpha`.
#[must_use]
pub fn resolves(noise: &Noise, launches: usize, alpha: f64) -> f64 {
    let effect = Effect { mean: 0.0, deviation: noise.launch_sigma, launches, effective: launches as f64 };
    gain_of_log(effect.detectable(alpha, POWER))
}

/// Where figures are kept, and what was found there.
#[derive(Debug)]
pub struct Store {
    path: Utf8PathBuf,
    /// The figures of this machine; none yet, if there was no file that fits.
    pub figures: Figures,
    /// Why a file that is there is not used.
    pub note: Option<String>,
    /// A newer version has written the file: it is not overwritten.
    newer: bool,
}

impl Store {
    /// Reads what is kept in `folder`, where the tool keeps its own things.
    #[must_use]
    pub fn open(folder: &Utf8Path) -> Self {
        let here = super::facts();
        Self::of(folder.join("machine.json"), &here.processor, here.cores)
    }

    fn of(path: Utf8PathBuf, processor: &str, cores: usize) -> Self {
        let blank = || Figures {
            format: FORMAT_VERSION,
            processor: processor.to_owned(),
            cores,
            ceilings: Vec::new(),
            noise: Vec::new(),
        };
        let unused = |note: &str, newer| {
            let note = Some(format!("`{path}` {note}"));
            Self { path: path.clone(), figures: blank(), note, newer }
        };
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Self { path, figures: blank(), note: None, newer: false };
            }
            Err(error) => return unused(&format!("cannot be read ({error}): its figures are measured again"), false),
        };
        let format = serde_json::from_slice(&text).ok().and_then(|file: Value| file.get("format")?.as_u64());
        if format.is_some_and(|format| format > u64::from(FORMAT_VERSION)) {
            return unused("was written by a newer cargo kopt: it is not used, and left as it is", true);
        }
        let figures = serde_json::from_slice(&text).ok().filter(make_sense);
        match figures {
            None => unused("is damaged: its figures are measured again", false),
            Some(figures) if figures.processor != processor || figures.cores != cores => {
                unused("is of another machine: its figures are measured again", false)
            }
            Some(figures) => Self { path, figures, note: None, newer: false },
        }
    }

    /// The noise of a kernel; of another one on the same backend, if its own is not known.
    #[must_use]
    pub fn noise_of(&self, kernel: &str, backend: Backend) -> Option<&Noise> {
        let mut near = self.figures.noise.iter().rev().filter(|noise| noise.backend == backend);
        near.clone().find(|noise| noise.kernel == kernel).or_else(|| near.next())
    }

    /// Keeps the ceilings of a device. Says whether that is anything new.
    pub fn keep_ceilings(&mut self, ceilings: &Ceilings) -> bool {
        let all = &mut self.figures.ceilings;
        let before = all.clone();
        all.retain(|known| known.device != ceilings.device);
        all.push(ceilings.clone());
        *all != before
    }

    /// Keeps the noise of a kernel.
    pub fn keep_noise(&mut self, noise: Noise) {
        self.figures.noise.retain(|known| known.kernel != noise.kernel || known.device != noise.device);
        self.figures.noise.push(noise);
    }

    /// Whether what is written is kept: the file of a newer version is left alone.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        !self.newer
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self) -> Result<()> {
        if self.newer {
            return Ok(());
        }
        let path = &self.path;
        let failed = |error: &dyn std::error::Error| {
            Error::new(Exit::Output, format!("cannot write the machine's figures to `{path}`")).because(error)
        };
        std::fs::create_dir_all(folder_of(path)).map_err(|error| failed(&error))?;
        let mut text = serde_json::to_vec_pretty(&self.figures).map_err(|error| failed(&error))?;
        text.push(b'\n');
        Replacement::private(path).write(&text).map_err(|error| failed(&error))
    }
}

fn make_sense(figures: &Figures) -> bool {
    let noise = |noise: &Noise| noise.launch_sigma.is_finite() && noise.launch_sigma >= 0.0;
    figures.ceilings.iter().all(are_rates) && figures.noise.iter().all(noise)
}

/// Ceilings that can be divided by.
#[must_use]
pub fn are_rates(ceilings: &Ceilings) -> bool {
    let optional = [ceilings.read_bytes_per_s, ceilings.write_bytes_per_s, ceilings.fma_flops_per_s];
    let mut rates = optional.into_iter().flatten().chain([ceilings.copy_bytes_per_s]);
    rates.all(|rate| rate.is_finite() && rate > 0.0)
}
