//! Outputs that take no more.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::Stdio;

use crate::sandbox::{Ran, Sandbox};

#[test]
fn a_full_disk_is_an_error_of_its_own() {
    let sandbox = Sandbox::of("kernels");
    for arguments in [&["list", "--message-format", "json"][..], &["schema", "messages"], &["completions", "bash"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        Ran::of(sandbox.command(arguments).stdout(full)).exits(110).says("cannot write to stdout");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let sandbox = Sandbox::of("mistakes");
    let mut command = sandbox.command(&["list", "--message-format", "json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    // The verdict is still the verdict.
    assert_eq!(child.wait().unwrap().code(), Some(96));
    assert!(!stderr.contains("cannot write"), "{stderr}");
}

#[test]
fn colour_is_for_those_who_ask() {
    let sandbox = Sandbox::of("mistakes");
    assert!(!sandbox.kopt(&["list"]).stderr.contains('\u{1b}'));
    assert!(sandbox.kopt(&["list", "--color", "always"]).stderr.contains("\u{1b}[1m\u{1b}[31merror"));
    assert!(!sandbox.kopt(&["list", "--color", "never"]).stderr.contains('\u{1b}'));
}
