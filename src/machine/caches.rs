//! The processor's caches, as the system lists them. Many virtual machines list none, or those of the host.

use std::fs;
use std::path::Path;

/// The caches that the first core uses, such as `L1d 32 KiB`, nearest first; none where the system does not say.
#[must_use]
pub fn of_processor() -> Vec<String> {
    listed(Path::new("/sys/devices/system/cpu/cpu0/cache"))
}

fn listed(folder: &Path) -> Vec<String> {
    let mut caches: Vec<(u32, String)> =
        (0..8).filter_map(|index| one(&folder.join(format!("index{index}")))).collect();
    caches.sort();
    caches.into_iter().map(|(_, text)| text).collect()
}

fn one(folder: &Path) -> Option<(u32, String)> {
    let line = |name: &str| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
    let level: u32 = line("level")?.parse().ok()?;
    let kind = match line("type")?.as_str() {
        "Data" => "d",
        "Instruction" => "i",
        _ => "",
    };
    let kilobytes: u64 = line("size")?.strip_suffix('K')?.parse().ok()?;
    let size = match kilobytes % 1024 {
        0 => format!("{} MiB", kilobytes / 1024),
        _ if kilobytes > 10_240 => format!("{:.1} MiB", kilobytes as f64 / 1024.0),
        _ => format!("{kilobytes} KiB"),
    };
    Some((level, format!("L{level}{kind} {size}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_told_nearest_first() {
        let scratch = tempfile::tempdir().unwrap();
        for (index, level, kind, size) in [
            (0, "1", "Data", "48K"),
            (1, "1", "Instruction", "32K"),
            (2, "3", "Unified", "33792K"),
            (3, "2", "Unified", "2048K"),
        ] {
            let folder = scratch.path().join(format!("index{index}"));
            fs::create_dir(&folder).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(folder.join(name), format!("{text}\n")).unwrap();
            }
        }
        assert_eq!(listed(scratch.path()), ["L1d 48 KiB", "L1i 32 KiB", "L2 2 MiB", "L3 33 MiB"]);
        assert!(listed(&scratch.path().join("nowhere")).is_empty());
    }
}
