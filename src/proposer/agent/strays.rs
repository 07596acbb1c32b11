//! Processes that left their agent's group. They keep the environment they were started with, and it names the round's
//! folder: whoever has that value in [`MARK`] was started by an agent of this round, and is ended.
//!
//! One that also replaced its environment is not found. It could still write into the worktree, which is why the engine
//! takes the change from what it has stored and not from the folder.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::process;

/// The variable that every process of an agent inherits.
pub const MARK: &str = "KOPT_ROUND_DIR";
/// Looks at most, with a pause between two of them: a process that cannot be ended holds nobody up for ever.
const LOOKS: usize = 300;

/// Ends every process whose [`MARK`] is `value`; how many there were.
pub fn end(value: &str) -> usize {
    let mark = format!("{MARK}={value}");
    let mut ended = Vec::new();
    // Twice in a row nobody: one look can miss a process that is started while it goes on.
    let mut quiet = 0;
    for _ in 0..LOOKS {
        let found = look(mark.as_bytes());
        quiet = if found.is_empty() { quiet + 1 } else { 0 };
        if quiet == 2 {
            break;
        }
        if !found.is_empty() {
            process::pause();
        }
        ended.extend(found);
    }
    ended.sort_unstable();
    ended.dedup();
    ended.len()
}

/// Ends those that are there now.
fn look(mark: &[u8]) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|number| is_other(*number) && end_one(*number, mark)).collect()
}

fn is_other(number: i32) -> bool {
    u32::try_from(number) != Ok(std::process::id())
}

/// Whether the process has the mark, and so was ended. It is opened before it is looked at: if its number is given away
/// in between, the signal goes to nobody.
fn end_one(number: i32, mark: &[u8]) -> bool {
    let Some(process) = Pid::from_raw(number).and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok()) else {
        return false;
    };
    let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == mark) && pidfd_send_signal(process, Signal::KILL).is_ok()
}
