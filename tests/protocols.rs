//! Programs of another version of this tool: each says which version it speaks and which it was spoken to in, and does
//! nothing. A judge is built from the base of a change, so that this happens to users; a worker of another version is a judge's
//! executable that was exchanged while it ran. (A trainer's answer is tested where trainers are.)

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/judge.rs"]
mod judge;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_kopt::context::Context;
use cargo_kopt::manifest::Kernel;
use cargo_kopt::process::Interrupts;
use cargo_kopt::referee::judge::Judge;
use kopt_schema::bout::{BOUT_VERSION, Bout, JudgeRequest};
use kopt_schema::exit::Exit;
use kopt_schema::manifest::{Backend, Class};
use kopt_schema::wire::{Blame, Reply, Request, Turn, WIRE_VERSION};

static EXAMPLE: LazyLock<(Kernel, Utf8PathBuf)> = LazyLock::new(|| judge::of("softmax-cpu"));

/// One of before, and one that is still to come.
const fn others(version: u32) -> [u32; 2] {
    [version - 1, version + 1]
}

#[test]
fn a_judge_of_another_version_opens_nothing_and_says_what_to_do() {
    let (kernel, executable) = &*EXAMPLE;
    let (context, interrupts) = (Context::of_process().unwrap(), Interrupts::watch().unwrap());
    for version in others(BOUT_VERSION) {
        let mut judge = Judge::start(&context, &interrupts, executable, &kernel.member.folder).unwrap();
        let bout = Bout {
            version,
            contestants: Vec::new(),
            shapes: Vec::new(),
            seed: "beef".to_owned(),
            blocks: 1,
            batch_s: 0.001,
            timeout_s: 10.0,
            memory: 1 << 30,
            without: Vec::new(),
        };
        let error = judge.ask(&JudgeRequest::Open(bout), Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.exit(), Exit::Setup);
        let said = error.failure().message;
        assert!(said.contains(&format!("speaks version {version}, the judge {BOUT_VERSION}")), "{said}");
        assert!(said.contains("rebuild the base"), "{said}");
    }
}

#[test]
fn a_worker_of_another_version_loads_nothing() {
    for version in others(WIRE_VERSION) {
        let request = Request::Load {
            version,
            backend: Backend::Cpu,
            class: Class::Native,
            object: "/nowhere/kernel.so".to_owned(),
            symbols: Vec::new(),
            without: Vec::new(),
        };
        // It answers on a descriptor that it is told the number of.
        match asked(&EXAMPLE.1, &["--kopt-worker", "1"], request) {
            Reply::Failed { message, blame } => {
                assert_eq!(message, format!("protocol {version} is not {WIRE_VERSION}"));
                assert_eq!(blame, Blame::Setup);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Starts a program, and puts one request to it.
fn asked(program: &Utf8Path, arguments: &[&str], request: Request) -> Reply {
    let mut command = Command::new(program);
    let mut process = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = serde_json::to_string(&Turn { turn: 7, says: request }).unwrap();
    line.push('\n');
    process.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert!(process.wait().unwrap().success());
    let answer: Turn<Reply> = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer.turn, 7);
    answer.says
}
