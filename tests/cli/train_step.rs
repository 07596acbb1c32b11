//! `train-step` on real repositories, with a training script whose figures are known beforehand.

use crate::compare::changed;
use crate::sandbox::Sandbox;
use crate::schema::validator;

/// A repository whose manifest names this script; the candidate is another version in the working tree.
fn scripted(script: &str) -> Sandbox {
    let sandbox = changed(&["share * 0.9"]);
    let manifest = sandbox.read("Cargo.toml");
    sandbox.write("train.sh", script);
    sandbox.write("Cargo.toml", &format!("{manifest}\n[package.metadata.kopt.transfer]\ncommand = \"sh train.sh\"\n"));
    sandbox
}

/// The first object seen is the incumbent's.
const FASTER: &str = "echo \"$KOPT_OBJECT\" >> seen
ms=10; test \"$(head -n 1 seen)\" = \"$KOPT_OBJECT\" || ms=8
for step in 1 2 3; do echo METRIC step_ms=$ms; echo METRIC loss=$((5 - step)).5; done
";

#[test]
fn a_script_of_the_users_tells_times_and_losses() {
    let sandbox = scripted(FASTER);
    let ran = sandbox.kopt(&["train-step", "--message-format", "json"]).exits(0);
    let messages = ran.messages();
    let validator = validator("messages");
    messages.iter().for_each(|message| assert!(validator.is_valid(message), "{message}"));
    let step = messages.iter().find(|message| message["reason"] == "training-step").unwrap();
    assert!((step["gain"]["gain"].as_f64().unwrap() - 0.25).abs() < 1e-9, "{step}");
    assert_eq!(step["trainer"]["command"], "sh train.sh");
    ran.says("Training bout: the working tree against HEAD (")
        .says("10.0 ms with the incumbent, 8.00 ms with the candidate")
        .says("Step gain +25.00 %")
        .says("Losses agree: within 1.0e-3 over 3 steps; 50 steps would say more");
}

#[test]
fn other_losses_exit_with_103_and_so_does_a_candidate_that_crashes() {
    let other = FASTER.replace("$((5 - step)).5", "$((5 - step)).$ms");
    scripted(&other).kopt(&["train-step"]).exits(103).says("Losses do NOT agree: at step 1 the loss is 4.1000000");
    let crashes = format!("{FASTER}test $ms = 10 || kill -9 $$\n");
    scripted(&crashes).kopt(&["train-step"]).exits(103).says("it died of signal 9");
}

#[test]
fn without_a_trainer_or_a_script_it_says_what_to_give() {
    let sandbox = changed(&["share * 0.9"]);
    let ran = sandbox.kopt(&["train-step"]).exits(96);
    ran.says("the crate declares no slot").says("transfer] slot = \"softmax\"").says("command = ");
    let manifest = sandbox.read("Cargo.toml");
    sandbox.write("Cargo.toml", &format!("{manifest}\n[package.metadata.kopt.transfer]\nslot = \"softmax\"\n"));
    let ran = sandbox.kopt(&["train-step"]).exits(96);
    ran.says("there is no `kopt-train` in the workspace").says("transfer] command = ");
}
