//! One GPU of several: the tool starts itself anew with the variables that every driver reads, so that all it starts from then
//! on, a training script of the user among it, sees this device and no other.

use std::os::unix::process::CommandExt as _;

use crate::error::{Error, Result};

/// What drivers read. Without the order CUDA counts the fastest device first, and `nvidia-smi` does not.
const ORDER: (&str, &str) = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
const VISIBLE: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"];

/// A device as a driver knows it: its number, or a name such as `GPU-1b2c...`.
///
/// # Errors
/// When it is several, or none.
pub fn parse(text: &str) -> std::result::Result<String, String> {
    let known = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(known) {
        return Ok(text.to_owned());
    }
    Err("one device: its number as `nvidia-smi -L` or `rocm-smi` counts, or its UUID".to_owned())
}

/// Returns when this process sees `device` alone, and does not return otherwise but starts the tool anew.
///
/// # Errors
/// When that fails.
#[expect(clippy::disallowed_methods, reason = "the surroundings of a process are read here and in the module above")]
pub fn only(device: &str) -> Result<()> {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|now| now == value);
    if is(ORDER.0, ORDER.1) && VISIBLE.iter().all(|name| is(name, device)) {
        return Ok(());
    }
    // Somebody who hands out devices has said which are ours.
    if let Some(name) = VISIBLE.iter().find(|name| std::env::var_os(name).is_some_and(|now| !now.is_empty())) {
        let hint = format!("unset {name}, or name the device there");
        return Err(Error::setup(format!("`--device {device}`, but {name} is set")).hint(hint));
    }
    let failed = |error: &std::io::Error| Error::setup("cannot start anew with one device").because(error);
    // As it was started, whatever has become of its file.
    let mut command = std::process::Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1)).env(ORDER.0, ORDER.1).envs(VISIBLE.map(|name| (name, device)));
    Err(failed(&command.exec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_device_is_a_number_or_a_name() {
        for good in ["0", "7", "GPU-1b2c3d4e-aa"] {
            assert_eq!(parse(good).as_deref(), Ok(good));
        }
        for bad in ["", "0,1", "-1", "all of them"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
