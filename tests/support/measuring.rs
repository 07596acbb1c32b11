//! Digests of the code that a benchmark's rows rest on: rows of another version are never counted.

use camino::{Utf8Path, Utf8PathBuf};

type Failure = Box<dyn std::error::Error>;

/// Everything that measures and judges.
pub const REFEREE: [&str; 22] = [
    "harness/src/runner/arena.rs",
    "harness/src/runner/attempt.rs",
    "harness/src/runner/compare.rs",
    "harness/src/runner/prepare.rs",
    "harness/src/runner/judge",
    "harness/src/runner/processor.rs",
    "harness/src/runner/contestant.rs",
    "harness/src/runner/worker.rs",
    "harness/src/runner/memory.rs",
    "harness/src/runner/blueprint.rs",
    "harness/src/runner/sandbox",
    "harness/src/runner/backend/cpu.rs",
    "harness/src/runner/backend/cpu/ceilings.rs",
    "harness/src/runner/backend/cpu/fence.rs",
    "harness/src/runner/backend/cpu/flush.rs",
    "harness/src/runner/backend/cpu/stack.rs",
    "harness/src/runner/backend/cpu/stack",
    "harness/stats/src",
    "src/gate",
    "src/referee/ceilings.rs",
    "src/referee/mod.rs",
    "src/referee/course.rs",
];

/// And what more does where kernels run on a GPU.
const CUDA: [&str; 15] = [
    "harness/src/runner/backend/gpu/clock.rs",
    "harness/src/runner/backend/gpu/cuda.rs",
    "harness/src/runner/backend/gpu/cuda/tensor_map.rs",
    "harness/src/runner/backend/gpu/device.rs",
    "harness/src/runner/backend/gpu/driver.rs",
    "harness/src/runner/backend/gpu/gauge.rs",
    "harness/src/runner/backend/gpu/launch.rs",
    "harness/src/runner/backend/gpu/memory.rs",
    "harness/src/runner/backend/gpu/mod.rs",
    "harness/src/runner/backend/gpu/object.rs",
    "harness/src/runner/backend/gpu/recording.rs",
    "harness/src/runner/backend/gpu/table.cu",
    "harness/src/runner/backend/gpu/table.ptx",
    "harness/src/runner/backend/gpu/table.rs",
    "harness/src/runner/backend/gpu/tiles.rs",
];

/// And what more refuses exploits.
const AUDITS: [&str; 3] = ["src/audit", "src/sanitizer", "tests/exploits"];

/// What decisions on a GPU rest on.
#[allow(dead_code, reason = "shared with benchmarks that have none")]
pub fn on_gpu() -> Vec<&'static str> {
    [&REFEREE[..], &CUDA].concat()
}

/// What the refusal of exploits rests on.
#[allow(dead_code, reason = "shared with benchmarks that have none")]
pub fn of_exploits() -> Vec<&'static str> {
    [&REFEREE[..], &AUDITS].concat()
}

/// The same where they run on a GPU.
#[allow(dead_code, reason = "shared with benchmarks that have none")]
pub fn of_exploits_on_gpu() -> Vec<&'static str> {
    [&REFEREE[..], &CUDA, &AUDITS].concat()
}

/// What one change comes to, for both lists below.
const LOOKS_BETWEEN: &str = "since then a confirmation that single shapes hold up is looked at before all its launches are made: it ends earlier, and a loss of 5 % in a \
     shape, which both stages must miss, passes as seldom (`gate::tests`); and calls of 2 ms are warmed up once instead of twice, and a trace looks for late writes after one call of four and at its end";

/// Another, for both.
const GIVEN_UP_EARLY: &str = "since then a confirmation ends where the gain of its screen is ruled out, which accepts nothing and misses no gain of 2 % \
     (`gate::tests`); and poison, the same bits, is written faster";

/// Versions whose rows count for this one: their key, this one's, and why. What differs must not reach what the rows rest on.
#[allow(dead_code, reason = "shared with benchmarks whose rows are of one version")]
pub const AS_GOOD_AS: [(&str, &str, &str); 37] = [
    ("3a7c348a71a6", "cc99033076dc", GIVEN_UP_EARLY),
    ("a67b0bf69b3c", "9bc376319343", "as the one before, on a GPU"),
    ("cecca52d0ae6", "cc99033076dc", LOOKS_BETWEEN),
    ("95f8331b531c", "9bc376319343", "as the one before, on a GPU"),
    (
        "5bebbc8e5bc9",
        "cc99033076dc",
        "since then calls of more than 0.6 ms are timed in twice as many blocks a launch: what launches differ by is less, and nothing is judged otherwise",
    ),
    (
        "0d96c468884e",
        "9bc376319343",
        "decisions on a GPU: since then calls of more than 1.6 ms are timed in up to twice as many blocks a launch",
    ),
    ("a939c9f32019", "ea4feb25e13c", "exploits: as the one before, and compute-sanitizer's tools run side by side"),
    (
        "e393e6a54632",
        "cc99033076dc",
        "since then a block in which a clock stood still is made again: there is none in a row",
    ),
    (
        "3ee3e88d6e7a",
        "cc99033076dc",
        "since then as many trials run beside each other before a match as there are processors, which were two, and who seems to remember calls is looked at again: the one who was accused in these does not count",
    ),
    (
        "4b5daccc68c1",
        "9bc376319343",
        "decisions on a GPU: since then up to four trials run beside each other before a match, and who seems to remember calls is looked at again: nobody did",
    ),
    (
        "3d9bd4bcee1f",
        "ea4feb25e13c",
        "exploits: since then who seems to remember calls is looked at again, as `tests/exploits.rs` does; and `15`, which is for a GPU, has other sizes",
    ),
    (
        "1c255a8c3aca",
        "cc99033076dc",
        "since then the time of a match is that of its launches, without what they wait for a device: on a processor nothing is waited for",
    ),
    (
        "eada2b8a220f",
        "9bc376319343",
        "decisions on a GPU: since then what launches wait for the device is not counted as time of the match; nobody else timed there",
    ),
    (
        "bfeb6c71b65a",
        "ea4feb25e13c",
        "exploits: since then `39` moves the start twice as far; its rows on the plain harness are new, and what refuses it is the same",
    ),
    ("0062f4348df0", "ea4feb25e13c", "exploits: as the ones before"),
    (
        "967a9ec59f50",
        "cc99033076dc",
        "since then the contestants of a trace stay on one processor, too, and the judge while it asks for calls; and who leaves it is refused: nobody did; and a gain of a third or more must be shown by the judge's clock, too",
    ),
    (
        "deb2fbe77c95",
        "cc99033076dc",
        "decisions on a gain: since then all contestants of a launch stay on one processor instead of where the system puts each: what launches differ by is \
         less; a gain of a third or more must be shown by the judge's clock, too, which accepts less; gains that were missed for noise count as missed; and a campaign's quick validation, which these are not, is not confirmed",
    ),
    (
        "d9d04c955afc",
        "9bc376319343",
        "decisions on a GPU: since then contestants on a CPU stay on one processor, and a campaign's quick validation is not confirmed",
    ),
    (
        "c705b392295c",
        "ea4feb25e13c",
        "exploits: since then all contestants of a launch stay on one processor; what refuses them is the same",
    ),
    (
        "79d32dcae27f",
        "9bc376319343",
        "decisions on a GPU: since then a processor is also named by its model, and a gain that a shape holds up, which is none of these, looked at further only \
         where that can settle it",
    ),
    (
        "dd1abed62357",
        "cc99033076dc",
        "decisions on a gain: since then one that is shown is looked at further where only single shapes hold it up; in these rows equal code showed none \
         after its last look, and gains that were missed count as missed; and a process may run for 0.2 s of a launch while it is to wait, instead of 0.02 s, before \
         a single launch is held against it: in none of these it was; what is called slower for one shape is so with more certainty, which accepts nothing; and a processor is also named by its model",
    ),
    ("f902501cd16b", "9bc376319343", "decisions on a gain on a GPU: as the one before"),
    (
        "47dc13541ecd",
        "ea4feb25e13c",
        "exploits: as the one before, what is refused is not refused for a shape that is open; and hints to the cache, which no exploit on a processor has, are noted instead of refused",
    ),
    (
        "ed5fbb8de258",
        "cc99033076dc",
        "decisions on a gain: since then what is slower is no longer called a violation for processor time that is counted beyond its own clock, and \
         more files are among those that the key is of; nothing was called one in these rows",
    ),
    (
        "85e0264f333c",
        "9bc376319343",
        "decisions on a gain on a GPU: as the one before; processor time is not counted there",
    ),
    (
        "c281bf4bfc4f",
        "cc99033076dc",
        "decisions on a gain: since then gates, whose rows count only where they are of their own version, weigh launches by how closely they looked",
    ),
    (
        "e48ad55d3ddd",
        "9bc376319343",
        "decisions on a gain on a GPU: as the one before, and a kernel that has much shared memory for one shape keeps it when another needs less, and may \
         have large clusters; these have little of either for all",
    ),
    (
        "498c0bfd9273",
        "ea4feb25e13c",
        "exploits: as the one before, none of them is decided by whether a gate is clear; and audit and sanitizers refuse more than they did",
    ),
    (
        "bce47da87269",
        "cc99033076dc",
        "decisions on the CPU: since then a gate needs two launches to call a slowdown gross, a judge compares the digest of an object with the one \
         that the referee names, and may take longer to check a candidate; none of these is a gate's; and as below",
    ),
    (
        "2047c349ecb2",
        "cc99033076dc",
        "decisions on the CPU: since then the distribution of the first contents is drawn, and the host's gauge, devices and references of large products on \
         them have other rules, and a gain's confirmation is looked at twice, each time at half of its error, instead of once at all of it; calls and their times are \
         the same",
    ),
    (
        "29dca9de40e6",
        "cc99033076dc",
        "decisions on the CPU: since then, and before the one above, calls find contents of several distributions instead of one and their memory mapped before, may not return from \
         signals, and find more of the processor's state as it was at first, for both versions alike; rows of this version stand beside those",
    ),
    (
        "8d10f9302eb4",
        "9bc376319343",
        "decisions on a GPU: since then the driver is called through a trait, plans may ask for tensor maps and cooperative launches, scratch memory is spoiled \
         before every call (these kernels have none of all that), contents come from several distributions, blocks are discarded while the device \
         protects itself, processes that time take turns, a confirmation is looked at twice, memory of the host is moved and compared otherwise, and traces and gates, which these \
         are not, have other rules",
    ),
    (
        "cd7594c74685",
        "9bc376319343",
        "decisions on a GPU: as above, and ceilings are doubted before the trace instead of after it",
    ),
    (
        "b355adbca461",
        "9bc376319343",
        "decisions on a GPU: as above, and batches above 15 ms, which these do not have, are timed once",
    ),
    (
        "e5d640d58909",
        "9bc376319343",
        "decisions on a GPU: as above, and what looks like memory in a trace is looked at again from 2 % on",
    ),
    (
        "169c70a64769",
        "ea4feb25e13c",
        "exploits: since then the judge flushes the caches, deals and compares otherwise and asks for one call at a time, a trace that leaves a doubt is \
         repeated, gates and sanitizers see more, what cannot be read is refused, no call returns from a signal, and exploits for devices stand \
         beside these, and audit and sanitizers refuse more: what was refused is, for the same reasons or for one more, and `tests/exploits.rs` shows it for each",
    ),
    ("68120f3e710e", "ea4feb25e13c", "exploits: as above; these are decided without a trace"),
];

/// The same for rows of campaigns and of gates, which rest on every ruling, those on what is slower among them.
#[allow(dead_code, reason = "shared with benchmarks of single decisions")]
pub const RULES_AS: [(&str, &str, &str); 19] = [
    ("3a7c348a71a6", "cc99033076dc", GIVEN_UP_EARLY),
    ("a67b0bf69b3c", "9bc376319343", "as the one before, on a GPU"),
    ("cecca52d0ae6", "cc99033076dc", LOOKS_BETWEEN),
    ("95f8331b531c", "9bc376319343", "as the one before, on a GPU"),
    (
        "5bebbc8e5bc9",
        "cc99033076dc",
        "since then calls of more than 0.6 ms are timed in twice as many blocks a launch: what launches differ by is less, and nothing is judged otherwise; campaigns that such a shape held up say so, and do not count",
    ),
    (
        "0d96c468884e",
        "9bc376319343",
        "since then calls of more than 1.6 ms are timed in up to twice as many blocks a launch",
    ),
    (
        "e393e6a54632",
        "cc99033076dc",
        "since then a block in which a clock stood still is made again: there is none in a row",
    ),
    (
        "3ee3e88d6e7a",
        "cc99033076dc",
        "since then as many trials run beside each other before a match as there are processors, which were two, and who seems to remember calls is looked at again: the one who was accused in these does not count",
    ),
    (
        "4b5daccc68c1",
        "9bc376319343",
        "since then up to four trials run beside each other before a match, and who seems to remember calls is looked at again: nobody did",
    ),
    (
        "1c255a8c3aca",
        "cc99033076dc",
        "since then the time of a match is that of its launches, without what they wait for a device: on a processor nothing is waited for",
    ),
    (
        "eada2b8a220f",
        "9bc376319343",
        "since then what launches wait for the device is not counted as time of the match; nobody else timed there",
    ),
    (
        "967a9ec59f50",
        "cc99033076dc",
        "since then the contestants of a trace stay on one processor, too, and the judge while it asks for calls; and who leaves it is refused: nobody did; and a gain of a third or more must be shown by the judge's clock, too",
    ),
    (
        "deb2fbe77c95",
        "cc99033076dc",
        "since then all contestants of a launch stay on one processor instead of where the system puts each: what launches differ by is less, and nothing is \
         judged otherwise, but that a gain of a third or more must be shown by the judge's clock, too, as those of honest patches are; and a quick validation, which accepts nothing, is not confirmed",
    ),
    (
        "d9d04c955afc",
        "9bc376319343",
        "since then contestants on a CPU stay on one processor, and a quick validation, which accepts nothing, is not confirmed",
    ),
    (
        "79d32dcae27f",
        "9bc376319343",
        "since then a processor is also named by its model, and a gain that a shape holds up, which is none of these, looked at further only where that can \
         settle it",
    ),
    (
        "dd1abed62357",
        "cc99033076dc",
        "since then a gain that is shown is looked at further where only single shapes hold it up: the one campaign in which that happened says so, and does not \
         count; gates look as they did; and a process may run for 0.2 s of a launch while it is to wait, instead of 0.02 s, before a single launch is held against it; and no \
         patch in these that helps was rolled back for one shape",
    ),
    ("f902501cd16b", "9bc376319343", "as the one before; it happened in none of these"),
    (
        "ed5fbb8de258",
        "cc99033076dc",
        "since then what is slower is no longer called a violation for processor time that is counted beyond its own clock: one slower patch of one \
         campaign was, and is rolled back either way",
    ),
    ("85e0264f333c", "9bc376319343", "as the one before; processor time is not counted on a GPU"),
];

/// Whether such a row with the key `row` counts where the code has the key `now`.
#[allow(dead_code, reason = "shared with benchmarks of single decisions")]
pub fn rules(row: &str, now: &str) -> bool {
    row == now || RULES_AS.iter().any(|(then, since, _)| (*then, *since) == (row, now))
}

/// Whether a row with the key `row` counts where the code has the key `now`.
#[allow(dead_code, reason = "shared with benchmarks whose rows are of one version")]
pub fn counts(row: &str, now: &str) -> bool {
    row == now || AS_GOOD_AS.iter().any(|(then, since, _)| (*then, *since) == (row, now))
}

/// Digest of `code`, comments and tests aside: these change nothing.
pub fn key(root: &Utf8Path, code: &[&str]) -> Result<String, Failure> {
    let mut files = Vec::new();
    for path in code {
        gather(&root.join(path), &mut files)?;
    }
    files.sort();
    let mut all = String::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.is_empty());
        lines.for_each(|line| all.push_str(line));
    }
    Ok(kopt_build::digest_of_bytes(all.as_bytes())[..12].to_owned())
}

fn gather(path: &Utf8Path, files: &mut Vec<Utf8PathBuf>) -> Result<(), Failure> {
    let apart = ["tests", "tests.rs", "simulation.rs", "slowdown_simulation.rs", "words.rs"];
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in path.read_dir_utf8()? {
        let entry = entry?;
        if !apart.contains(&entry.file_name()) {
            gather(entry.path(), files)?;
        }
    }
    Ok(())
}
