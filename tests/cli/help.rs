use crate::sandbox::Sandbox;

#[test]
fn the_long_help_lists_commands_and_exit_codes() {
    let ran = Sandbox::empty().kopt(&["--help"]).exits(0);
    for text in [
        "new",
        "doctor",
        "list",
        "check",
        "certify",
        "audit",
        "bench",
        "compare",
        "train-step",
        "verdict",
        "gate",
        "schema",
        "bindings",
        "completions",
        "103  correctness failed",
    ] {
        assert!(ran.stdout.contains(text), "no `{text}` in:\n{}", ran.stdout);
    }
}

#[test]
fn each_command_explains_itself_with_an_example() {
    let sandbox = Sandbox::empty();
    for command in [
        "new",
        "doctor",
        "list",
        "check",
        "certify",
        "audit",
        "bench",
        "compare",
        "train-step",
        "verdict",
        "gate",
        "schema",
        "bindings",
        "completions",
    ] {
        let ran = sandbox.kopt(&[command, "--help"]).exits(0);
        assert!(ran.stdout.contains("Example: cargo kopt"), "{command}:\n{}", ran.stdout);
    }
}

#[test]
fn a_mistake_on_the_command_line_exits_with_2() {
    let sandbox = Sandbox::empty();
    sandbox.kopt(&["chekc"]).exits(2).says("check");
    sandbox.kopt(&["check", "--seed", "xyz"]).exits(2).says("hexadecimal");
    sandbox.kopt(&["check", "--exact"]).exits(2);
    sandbox.kopt(&["check", "--seeds", "0"]).exits(2);
    sandbox.kopt(&["list", "--message-format", "xml"]).exits(2);
    sandbox.kopt(&["list", "-q", "-v"]).exits(2);
    assert_eq!(sandbox.kopt(&[]).exits(2).stdout, "");
    let json = sandbox.kopt(&["check", "--frobnicate", "--message-format", "json"]).exits(2);
    assert_eq!(json.reasons(), ["started", "error", "finished"]);
    assert!(!sandbox.kopt(&["list", "--frob", "--color", "never"]).stderr.contains('\u{1b}'));
    assert!(sandbox.kopt(&["list", "--frob", "--color=always"]).stderr.contains('\u{1b}'));
    sandbox.kopt(&["new", "demo", "--op", "softmax", "--manifest-path", "Cargo.toml"]).exits(2).says("--path");
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
