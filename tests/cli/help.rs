use crate::sandbox::Sandbox;

/// The commands that the help names.
fn commands() -> Vec<String> {
    let ran = Sandbox::empty().kopt(&["--help"]).exits(0).answers("103  correctness failed");
    let listed = ran.stdout.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let names: Vec<String> = names.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
    assert!(names.len() > 20 && names.contains(&"verify".to_owned()), "{names:?}");
    names
}

#[test]
fn each_command_explains_itself_with_an_example() {
    let sandbox = Sandbox::empty();
    for command in commands().iter().filter(|name| *name != "help") {
        let ran = sandbox.kopt(&[command, "--help"]).exits(0).answers("Example");
        assert!(ran.stdout.contains(&format!("cargo kopt {command}")), "{command}:\n{}", ran.stdout);
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
