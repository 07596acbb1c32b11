//! `cargo kopt`: kernels as crates, correctness as `cargo test`, latency as `cargo bench`.
//!
//! This crate is the subcommand. It links no GPU library and never `kopt-harness`: what it knows of a kernel it reads
//! from the manifest, and what it knows of a run it is told by the crate's own test and bench binaries, as the messages
//! of `kopt-schema`.
//!
//! # Layers
//!
//! A lower layer never names a higher one; `tests/layers.rs` holds the table and fails when one does.
//!
//! | layer | modules | what |
//! |---|---|---|
//! | 0 foundation | [`context`] | the only reader of environment, arguments and current folder |
//! | | [`shell`] | the only printer: JSON lines on stdout, text for people on stderr, tables, progress |
//! | | [`process`] | child processes: capture, lines, groups that can be ended whole |
//! | | [`error`] | an error for people: message, causes, hint, exit code |
//! | | [`replacement`] | files replaced in one step |
//! | 1 facts | [`workspace`] | packages as cargo sees them, and which of them are meant |
//! | | [`manifest`] | kernel crates and their `[package.metadata.kopt]`, with everything wrong in it |
//! | | [`machine`] | the machine and the time, and the figures that are kept of the machine |
//! | 2 judgement | [`audit`] | from the bytes of a built object to what it can remember and reach: pure functions |
//! | | [`gate`] | from evidence to verdict: pure functions |
//! | | [`ledger`] | from a campaign's events to its state, and the rules that say what comes next: pure functions |
//! | | [`page`] | campaigns, comparisons and gates as pages for a browser: pure functions |
//! | | [`reach`] | which kernels a change can reach, and why: pure functions |
//! | | [`records`] | every text that a round, a campaign or a gate leaves behind: pure functions |
//! | 3 effects | [`build`] | test and bench executables, built by one call of cargo |
//! | | [`runner`] | one run of such an executable, heard through `KOPT_OUT` |
//! | | [`revision`] | versions of the workspace, as git has them |
//! | | [`referee`] | two versions compared: judge, seeds, clock; evidence comes of it |
//! | | [`sanitizer`] | a version of a kernel under the sanitizers of its compiler or device |
//! | | [`transfer`] | two versions inside a training step: the harness's model, or the user's script |
//! | | [`lineage`] | a campaign in git: worktree, branch, candidates, commits, evidence |
//! | | [`proposer`] | who proposes changes: a queue of patches, an agent's command |
//! | | [`experience`] | what this repository has learned, and what the catalogue knows |
//! | 4 engine | [`campaign`] | the loop: define, prepare, read, baseline, rounds, report |
//! | 5 use cases | [`ops`] | one file per command's work |
//! | 6 edges | [`cli`] | one file per command: arguments, help text, one call into `ops` |
//!
//! # Files it writes
//!
//! | file | by | lifetime |
//! |---|---|---|
//! | `<name>/` | `new` | a kernel crate; moved into place whole, or not at all |
//! | `Cargo.toml` of the workspace around it | `new` | `workspace.members` gains one entry, all else is kept |
//! | `kernels/<op>.bindings.rs` | `bindings` | checked in with the crate |
//! | `target/` | `check`, `bench`, through cargo | may be deleted at any time |
//! | `target/kopt/revisions/<commit>/` | `compare`, `gate` | the files of a commit; may be deleted at any time, as all of `target/kopt` |
//! | `target/kopt/candidates/` | `compare`, `gate` | compiled kernels, by what they were compiled from |
//! | `target/kopt/trusted/`, `target/kopt/judge/` | `compare`, `gate` | the base's files and the judge built from them; `judge.lock`: who uses them |
//! | `target/kopt/evidence/<kernel>-<time>.json` | `compare`, `gate` | what a verdict rests on |
//! | the files of `--markdown`, `--junit` and `--html` | `gate` | what came of it |
//! | `.github/workflows/kopt-gate*.yml` | `gate --init github` | checked in; never overwritten unless asked |
//! | `.kopt/` | `optimize` and its kin | ignores itself for git |
//! | `.kopt/campaigns/<name>/` | the same | target, events, rounds with evidence and summaries, logs, report (`report.html` by `report --html`): keep it, or fetch `refs/kopt/<name>/evidence` |
//! | `.kopt/worktrees/<name>/` | the same | the campaign's worktree; gone when it is over |
//! | `.kopt/experience/` | the same | tips of this repository |
//! | `target/kopt/campaigns/<name>/` | the same | the judge, and the folder that versions are compiled in |
//! | `target/kopt/certificates/<judge>.json` | the same | what the crate's check made of wrong results |
//! | `target/kopt/machine.json` | `doctor`, `compare` | ceilings and noise of this machine |
//! | `target/kopt/trainer/` | `train-step`, `optimize` | the trainer, built when it is first asked for |
//! | `.kopt/campaigns/<kernel>.lock` | `optimize` and its kin | who is at work on the kernel |
//! | `kopt/venv/` in the user's folder for data | `doctor --install` | compilers from PyPI |
//! | `kopt-device-*` in the system's folder for temporary files | whatever times on a device | who has the device, and who is next |
//! | `target/criterion/` | the bench executables | criterion's reports |
//! | two files in the system's folder for temporary files | `check`, `bench` | one run of one executable |

pub mod audit;
pub mod build;
pub mod campaign;
pub mod cli;
pub mod context;
pub mod error;
pub mod experience;
pub mod gate;
pub mod ledger;
pub mod lineage;
pub mod machine;
pub mod manifest;
pub mod ops;
pub mod page;
pub mod process;
pub mod proposer;
pub mod reach;
pub mod records;
pub mod referee;
pub mod replacement;
pub mod revision;
pub mod runner;
pub mod sanitizer;
pub mod shell;
pub mod transfer;
pub mod workspace;
