use serde_json::{Value, json};

use crate::sandbox::Sandbox;

pub fn validator(subject: &str) -> jsonschema::Validator {
    let ran = Sandbox::empty().kopt(&["schema", subject]).exits(0);
    let schema: Value = serde_json::from_str(&ran.stdout).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn the_manifest_schema_takes_a_right_table_and_refuses_a_wrong_one() {
    let validator = validator("manifest");
    let table = json!({ "op": "softmax", "backend": "cpu", "shapes": [{ "name": "a", "rows": 1, "cols": 2 }] });
    assert!(validator.is_valid(&table));
    assert!(!validator.is_valid(&json!({ "op": "softmax", "backend": "tpu" })));
    assert!(!validator.is_valid(&json!({ "op": "softmax", "backend": "cpu", "shpaes": [] })));
}

#[test]
fn the_plan_schema_takes_numbers_and_expressions() {
    let validator = validator("plan");
    let launch = json!({ "kernel": "k", "grid": ["rows", 2], "block": [256], "shared": "cols * 4" });
    assert!(validator.is_valid(&json!({ "launch": [launch] })));
    assert!(!validator.is_valid(&json!({ "launch": [{ "kernel": "k" }] })));
    let map = json!({ "name": "m", "buffer": "x", "sizes": ["cols", "rows"], "box": [32, 8], "swizzle": "128" });
    assert!(validator.is_valid(&json!({ "tensor_map": [map] })));
    assert!(!validator.is_valid(&json!({ "tensor_map": [{ "name": "m", "buffer": "x", "swizzle": "48" }] })));
}

#[test]
fn what_the_tool_prints_fits_the_schema_of_messages() {
    let validator = validator("messages");
    for (fixture, code) in [("kernels", 0), ("mistakes", 96)] {
        for message in Sandbox::of(fixture).kopt(&["list", "--message-format", "json"]).exits(code).messages() {
            assert!(validator.is_valid(&message), "{message}");
        }
    }
    assert!(!validator.is_valid(&json!({ "reason": "unheard-of" })));
}

#[test]
fn the_defaults_of_a_workspace_have_a_schema_too() {
    assert!(validator("workspace").is_valid(&json!({ "flags": ["-O1"], "check": { "seeds": 3 } })));
}
