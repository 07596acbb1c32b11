//! What a contestant's process does besides answering, seen from outside: processor time while it was to wait, threads
//! and children. The system's own books are read; nothing that the process says about itself.

#![allow(unsafe_code, reason = "reads another process's clock")]

/// A contestant's books.
#[derive(Debug)]
pub(crate) struct Watch {
    process: u32,
    clock: Option<libc::clockid_t>,
    /// Its processor time when it last had answered.
    answered: f64,
    /// Seconds it has run while it was to wait.
    pub idle_s: f64,
}

impl Watch {
    pub(crate) fn new(process: u32) -> Self {
        let mut clock = 0;
        let id = libc::pid_t::try_from(process).unwrap_or(0);
        // SAFETY: the call writes one clock number to a variable of this frame.
        let found = unsafe { libc::clock_getcpuclockid(id, &mut clock) } == 0;
        let mut watch = Self { process, clock: found.then_some(clock), answered: 0.0, idle_s: 0.0 };
        watch.answered = watch.processor_s();
        watch
    }

    /// Processor time of all its threads so far, in seconds.
    fn processor_s(&self) -> f64 {
        let Some(clock) = self.clock else { return 0.0 };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes one timespec to a variable of this frame; a process that is gone is an error.
        if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
            return self.answered;
        }
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    }

    /// It is about to be asked: what it used since it answered, it used while it was to wait.
    pub(crate) fn asked(&mut self) -> f64 {
        let now = self.processor_s();
        self.idle_s += now - self.answered;
        now
    }

    /// It has answered: seconds of processor time since it was asked.
    pub(crate) fn answered(&mut self, asked: f64) -> f64 {
        self.answered = self.processor_s();
        self.answered - asked
    }

    /// Threads beyond the first and children, in words.
    pub(crate) fn strays(&self) -> Option<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process)).ok()?;
        let tasks: Vec<_> = tasks.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        if tasks.len() > 1 {
            return Some(format!("it runs {} threads, and may run one", tasks.len()));
        }
        let children = |task: &String| {
            std::fs::read_to_string(format!("/proc/{}/task/{task}/children", self.process)).unwrap_or_default()
        };
        let children: usize = tasks.iter().map(|task| children(task).split_whitespace().count()).sum();
        (children > 0).then(|| format!("it started {children} process{}", if children == 1 { "" } else { "es" }))
    }
}

/// Ends every process below this one that is none of `known`: what contestants started and left behind. The list of files
/// that the first of them had mapped, if there was any.
pub(crate) fn sweep(known: &[u32]) -> Option<String> {
    let mut found = None;
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for task in tasks {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in text.split_whitespace().filter_map(|word| word.parse::<i32>().ok()) {
            if u32::try_from(child).is_ok_and(|child| known.contains(&child)) {
                continue;
            }
            let maps = || std::fs::read_to_string(format!("/proc/{child}/maps")).unwrap_or_default();
            found.get_or_insert_with(maps);
            if let Some(child) = rustix::process::Pid::from_raw(child) {
                let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
                let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_starts_another_is_seen() {
        let mut quiet = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let mut busy = std::process::Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().unwrap();
        let watch = Watch::new(busy.id());
        let seen = (0..500).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            watch.strays()
        });
        assert_eq!(seen.as_deref(), Some("it started 1 process"));
        assert_eq!(Watch::new(quiet.id()).strays(), None);
        let _ = std::process::Command::new("pkill").args(["-P", &busy.id().to_string()]).status();
        for child in [&mut quiet, &mut busy] {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    #[test]
    fn time_while_it_should_wait_is_counted() {
        let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut watch = Watch::new(busy.id());
        while watch.idle_s < 0.02 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            let asked = watch.asked();
            watch.answered(asked);
        }
        busy.kill().unwrap();
        busy.wait().unwrap();
    }
}
