//! Completion scripts, and a real bash with keys typed into it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::sandbox::{Ran, Sandbox};

/// Something that completes cargo: in its own way, which leaves no space behind a word and knows no files.
const OWN: &str = "
_own() {
    case $COMP_CWORD in
        1) COMPREPLY=($(compgen -W 'build kopt' -- \"$2\")) ;;
        *) COMPREPLY=($(compgen -W '--own-option' -- \"$2\")) ;;
    esac
}
complete -o nospace -F _own cargo
";

/// The arguments that are left when `keys` are typed into a bash with the script, which comes after `before`: a line for each
/// line. TAB is `~` here.
fn typed(before: &str, keys: &[&str]) -> Vec<String> {
    let sandbox = Sandbox::empty();
    let script = sandbox.kopt(&["completions", "bash"]).exits(0).stdout;
    sandbox.write("some-file", "");
    sandbox.write("script", &script);
    let told = "cargo() { echo \"$@\"; }\ncargo-kopt() { echo \"$@\"; }\n";
    sandbox.write("start", &format!("{before}\nsource ./script\n{told}"));
    // In a session of its own: an interactive bash would take the terminal away from whoever runs this test.
    let mut bash = Command::new("setsid");
    bash.args(["bash", "--noprofile", "--norc", "-i"]).current_dir(sandbox.path(""));
    bash.env("HOME", sandbox.path("")).env("TERM", "dumb").env("INPUTRC", "/dev/null");
    bash.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = bash.spawn().unwrap();
    let lines = format!("source ./start\n{}\n", keys.join("\n")).replace('~', "\t");
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn completions_are_a_script_and_nothing_else() {
    let sandbox = Sandbox::empty();
    for shell in ["bash", "zsh", "fish"] {
        let ran = sandbox.kopt(&["completions", shell, "--message-format", "json"]).exits(0);
        assert!(ran.stdout.contains("cargo-kopt") && ran.stdout.contains("completions"), "{shell}");
        assert!(!ran.stdout.contains("\"reason\""));
        assert_eq!(ran.stderr, "");
    }
    sandbox.kopt(&["completions", "csh"]).exits(2);
}

#[test]
fn the_script_for_bash_says_nothing_when_it_is_read() {
    let sandbox = Sandbox::empty();
    sandbox.write("script", &sandbox.kopt(&["completions", "bash"]).exits(0).stdout);
    let read = Ran::of(Command::new("bash").args(["-euc", "source ./script"]).current_dir(sandbox.path(""))).exits(0);
    assert_eq!((read.stdout.as_str(), read.stderr.as_str()), ("", ""));
}

#[test]
fn bash_completes_commands_options_and_values_by_either_name() {
    for (name, left) in [("cargo-kopt", ""), ("cargo kopt", "kopt "), ("cargo +nightly -v kopt", "+nightly -v kopt ")] {
        let rest = ["compl~.", "completions ba~.", "list --mess~js~.", "train-step --pres~.", "audit some~."];
        let keys = rest.map(|rest| format!("{name} {rest}"));
        let wanted = [
            "completions .",
            "completions bash .",
            "list --message-format json .",
            "train-step --preset .",
            "audit some-file .",
        ];
        for before in ["", OWN] {
            let typed = typed(before, &keys.each_ref().map(String::as_str));
            assert_eq!(typed, wanted.map(|wanted| format!("{left}{wanted}")), "{name}");
        }
    }
}

#[test]
fn bash_leaves_the_rest_of_cargo_to_what_completed_it() {
    let keys = ["cargo bui~.", "cargo build --ow~.", "cargo build some~.", "cargo ko~ li~."];
    // What completes cargo leaves no space behind a word: one is typed.
    let wanted = ["build.", "build --own-option.", "build some.", "kopt list ."];
    assert_eq!(typed(OWN, &keys), wanted);
    let twice = format!("{OWN}\nsource ./script");
    assert_eq!(typed(&twice, &keys), wanted, "read twice");
    let late = format!("_late() {{ {OWN} return 124; }}\ncomplete -D -F _late");
    assert_eq!(typed(&late, &keys), wanted, "loaded when it is first asked for");
    assert_eq!(typed("complete -W 'one two' cargo", &["cargo tw~."]), ["two ."], "no function");
    assert_eq!(typed("", &["cargo some~."]), ["some-file ."], "nothing");
}
