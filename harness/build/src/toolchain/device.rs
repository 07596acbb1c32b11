//! What the device here is, as the programs that come with its driver tell it: nothing of a driver is linked or loaded.

use std::process::Command;

use camino::Utf8PathBuf;
use kopt_schema::manifest::Backend;

use super::Compiler;
use crate::environment;
use crate::error::BuildError;

/// The release of CUDA whose packages are fetched where no driver says which it takes.
const RELEASE: (u32, u32) = (13, 0);

/// The architecture of the first device of a backend that a driver shows, as its compiler names it. From compute capability 9.0
/// on it is the variant with all instructions of that device (`sm_90a`): what is compiled for one device need not run on another.
///
/// # Errors
/// [`BuildError::NoDevice`], with what was asked, or why the first one cannot be told.
pub fn native(backend: Backend) -> Result<String, BuildError> {
    let none = |why: String| BuildError::NoDevice(format!("`arch = [\"native\"]` asks for the device here, {why}"));
    match backend {
        Backend::Cpu => Err(none("and the processor is none".to_owned())),
        Backend::Cuda => {
            let [visible, order] = ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"].map(environment::text);
            let question = question(visible.as_deref(), order.as_deref());
            let question: Vec<&str> = question.iter().map(String::as_str).collect();
            let said = said("nvidia-smi", &question).map_err(none)?;
            let first = agreed(&said).map_err(none)?;
            let number = version(first).ok_or_else(|| none(format!("and nvidia-smi answered `{first}`")))?;
            Ok(format!("sm_{}{}{}", number.0, number.1, if number.0 >= 9 { "a" } else { "" }))
        }
        Backend::Hip => {
            let said = said("rocm_agent_enumerator", &[]).map_err(none)?;
            let visible = environment::text("HIP_VISIBLE_DEVICES");
            let device = agent(&said, visible.as_deref());
            device.map(str::to_owned).ok_or_else(|| none("and rocm_agent_enumerator names none".to_owned()))
        }
    }
}

/// The first of the devices that a variable shows to a driver.
fn first(visible: Option<&str>) -> Option<&str> {
    visible?.split(',').next().map(str::trim)
}

/// What nvidia-smi is asked: it lists all devices, whatever a driver is told to show. It counts them as drivers do by
/// `CUDA_DEVICE_ORDER=PCI_BUS_ID` alone, which else begin with the fastest, and knows whole names only: a part of one, or of a
/// device, is not asked for.
fn question(visible: Option<&str>, order: Option<&str>) -> Vec<String> {
    const NAME: usize = "GPU-00000000-0000-0000-0000-000000000000".len();
    let counts_alike = order == Some("PCI_BUS_ID");
    let known = first(visible.or(Some("0"))).filter(|one| {
        let is_number = !one.is_empty() && one.chars().all(|c| c.is_ascii_digit());
        counts_alike && is_number || one.starts_with("GPU-") && one.len() == NAME
    });
    let words = ["--query-gpu=compute_cap", "--format=csv,noheader"].map(str::to_owned);
    known.map(|one| format!("--id={one}")).into_iter().chain(words).collect()
}

/// The compute capability of all devices that nvidia-smi was asked about: which of several is a driver's first is not its to say.
fn agreed(said: &str) -> Result<&str, String> {
    let mut lines = said.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    match lines.find(|line| *line != first) {
        None => Ok(first),
        Some(other) => Err(format!(
            "and those here are of compute capability {first} and {other}, of which a driver begins with the fastest: set \
             CUDA_DEVICE_ORDER=PCI_BUS_ID, or name one in CUDA_VISIBLE_DEVICES by its whole UUID"
        )),
    }
}

/// The device among those that rocm_agent_enumerator lists, which are all, processors as gfx000 among them.
fn agent<'a>(listed: &'a str, visible: Option<&str>) -> Option<&'a str> {
    let mut devices = listed.lines().map(str::trim).filter(|name| name.starts_with("gfx") && *name != "gfx000");
    devices.nth(first(visible).and_then(|one| one.parse().ok()).unwrap_or(0))
}

/// Which version of NVIDIA's compiler packages fits the driver here: `13.0.*`.
#[must_use]
pub fn wheels() -> String {
    // Earlier releases have no package with nvcc.
    let (major, minor) = driver().filter(|release| *release >= RELEASE).unwrap_or(RELEASE);
    format!("{major}.{minor}.*")
}

/// What to say of an nvcc that is newer than the driver here; nothing where it is not, or there is no driver.
#[must_use]
pub fn newer_than_driver(nvcc: &Compiler) -> Option<String> {
    let (driver, compiler) = (driver()?, release(&nvcc.version)?);
    let consequence = match compiler.0 > driver.0 {
        true => "what it compiles does not load here",
        false => "cubins may load here, PTX does not",
    };
    (compiler > driver).then(|| {
        format!(
            "nvcc is of CUDA {}.{}, the driver takes CUDA up to {}.{}: {consequence}; use an older nvcc or a newer driver",
            compiler.0, compiler.1, driver.0, driver.1
        )
    })
}

/// The newest release of CUDA that the driver takes, if there is one.
fn driver() -> Option<(u32, u32)> {
    let said = said("nvidia-smi", &[]).ok()?;
    version(said.split_once("CUDA Version:")?.1.split_whitespace().next()?)
}

/// `release 13.0, V13.0.88`.
fn release(text: &str) -> Option<(u32, u32)> {
    version(text.split_once("release ")?.1.split(',').next()?)
}

fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn said(program: &str, arguments: &[&str]) -> Result<String, String> {
    let homes = environment::path("ROCM_PATH").map(|home| home.join("bin"));
    let usual = [Utf8PathBuf::from("/opt/rocm/bin")];
    let folders = homes.into_iter().chain(environment::search_path()).chain(usual);
    let Some(path) = folders.map(|folder| folder.join(program)).find(|path| path.is_file()) else {
        return Err(format!("and {program}, which would know it, was not found on PATH"));
    };
    let output = Command::new(&path).args(arguments).output().map_err(|error| format!("and {path}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("and {path} ended with {}", output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_and_compared_as_numbers() {
        assert_eq!(release("Cuda compilation tools, release 13.0, V13.0.88"), Some((13, 0)));
        assert_eq!(release("gcc 12.2"), None);
        assert!(version("12.10") > version("12.9"));
        assert_eq!(version("9.0\n"), Some((9, 0)));
        assert_eq!(version("[N/A]"), None);
    }

    #[test]
    fn the_device_that_a_driver_shows_first_is_asked_for() {
        let all = ["--query-gpu=compute_cap", "--format=csv,noheader"];
        let name = "GPU-1b2c3d4e-0000-1111-2222-333344445555";
        let by_name = format!("--id={name}");
        for (visible, id) in [("1", "--id=1"), ("3,0", "--id=3"), (" 2 ", "--id=2"), (name, by_name.as_str())] {
            assert_eq!(question(Some(visible), Some("PCI_BUS_ID")), [id, all[0], all[1]], "{visible}");
        }
        assert_eq!(question(None, Some("PCI_BUS_ID"))[0], "--id=0");
        for visible in [Some(""), Some("-1"), Some("GPU-1b2c"), Some("MIG-1b2c3d4e")] {
            assert_eq!(question(visible, Some("PCI_BUS_ID")), all, "{visible:?}");
        }
        // In another order a number is another device, and a name is the same one.
        for order in [None, Some("FASTEST_FIRST")] {
            assert_eq!(question(Some(name), order)[0], by_name);
            for visible in [None, Some("1"), Some("3,0")] {
                assert_eq!(question(visible, order), all, "{visible:?}");
            }
        }
        let listed = "gfx000\ngfx90a\ngfx1030\n";
        for (visible, device) in [
            (None, Some("gfx90a")),
            (Some("0"), Some("gfx90a")),
            (Some("1,0"), Some("gfx1030")),
            (Some("GPU-1b2c3d4e"), Some("gfx90a")),
            (Some("2"), None),
        ] {
            assert_eq!(agent(listed, visible), device, "{visible:?}");
        }
    }

    #[test]
    fn which_of_several_kinds_of_devices_is_the_first_is_not_guessed() {
        assert_eq!(agreed("9.0\n"), Ok("9.0"));
        assert_eq!(agreed("9.0\n9.0\n 9.0\n"), Ok("9.0"));
        assert_eq!(agreed(""), Ok(""));
        let why = agreed("8.6\n9.0\n").unwrap_err();
        assert!(why.contains("8.6 and 9.0") && why.contains("CUDA_DEVICE_ORDER=PCI_BUS_ID"), "{why}");
    }

    #[test]
    fn a_processor_is_no_native_device() {
        assert!(matches!(native(Backend::Cpu), Err(BuildError::NoDevice(_))));
    }
}
