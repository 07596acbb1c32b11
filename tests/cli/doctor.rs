//! `doctor` with a judge whose times are known beforehand. How quiet the machine is that runs the tests is not asked.

use serde_json::{Value, json};

use crate::compare::{bout, changed, compare, evidence};
use crate::sandbox::{Ran, Sandbox};
use crate::schema::validator;

/// A judge that finds the 5 % that the tool has injected.
const FINDS: [&str; 2] = ["share * 0.95", "noise 0.002"];

fn quick(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    sandbox.kopt(&[&["doctor", "--quick"], arguments].concat())
}

fn of_reason<'a>(messages: &'a [Value], reason: &str) -> Vec<&'a Value> {
    messages.iter().filter(|message| message["reason"] == reason).collect()
}

#[test]
fn outside_of_a_workspace_it_says_what_it_can() {
    let ran = Sandbox::empty().kopt(&["doctor"]).exits(0);
    for text in ["toolchain", "not needed here", "Processor", "not measured: there is no kernel here", "cargo kopt new"]
    {
        assert!(ran.stderr.contains(text), "no `{text}` in:\n{}", ran.stderr);
    }
    // A workspace without kernels is no better; a name that nobody has is a mistake.
    let plain = Sandbox::empty();
    plain.write("Cargo.toml", "[workspace]\n");
    plain.kopt(&["doctor"]).exits(0).says("there is no kernel here");
    plain.kopt(&["doctor", "-p", "softmax"]).exits(4);
}

#[test]
fn a_compiler_that_a_kernel_needs_is_named_with_the_way_to_get_it() {
    if let Ok(nvcc) = kopt_build::toolchain::nvcc() {
        eprintln!("skipped: nvcc is here ({})", nvcc.path);
        return;
    }
    let sandbox = Sandbox::of("bout");
    let manifest = sandbox.read("Cargo.toml").replace("backend = \"cpu\"", "backend = \"cuda\"");
    sandbox.write("Cargo.toml", &manifest);
    sandbox.write("kernels/softmax.cu", "");
    sandbox.write("kernels/softmax.launch.toml", "[[launch]]\nkernel = \"softmax\"\ngrid = [\"rows\"]\nblock = [32]\n");
    let ran = sandbox
        .kopt(&["doctor"])
        .exits(96)
        .says("missing: nvcc, needed by bout: nvcc was not found, looked at: CUDA_HOME")
        .says("hint: `cargo kopt doctor --install cuda`")
        .says("Device cuda: not looked for: nvcc is missing")
        .says("incomplete: nvcc missing, and needed by kernels here; nothing was timed");
    assert!(!ran.stderr.contains("Compiling"), "{}", ran.stderr);
}

#[test]
fn who_asks_about_one_kernel_is_not_told_what_others_lack() {
    let workspace = Sandbox::of("kernels");
    let ran = workspace.kopt(&["doctor", "-p", "softmax", "--quick"]);
    assert!(!ran.stderr.contains("needed by gpu"), "{}", ran.stderr);
    assert!(ran.stderr.contains("Looking"), "{}", ran.stderr);
}

/// Answers what kopt-build asks a Python, and makes virtual environments whose pip writes an nvcc.
const PYTHON: &str = r#"#!/bin/sh
here=$(dirname "$(dirname "$0")")
case "$1 $2" in
"-I -c") printf '{"path": "%s", "version": "3.11.0", "roots": ["%s"], "packages": ["%s/packages"], "triton": null}\n' \
    "$0" "$here" "$here" ;;
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$here/pip" "$3/bin/pip" ;;
*) exit 2 ;;
esac
"#;

const PIP: &str = r#"#!/bin/sh
here=$(dirname "$(dirname "$0")")
echo "$@" >> "$here/pip.log"
echo "Collecting $2"
mkdir -p "$here/packages/nvidia/cu13/bin"
printf '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.88"\n' > "$here/packages/nvidia/cu13/bin/nvcc"
chmod +x "$here/packages/nvidia/cu13/bin/nvcc"
"#;

/// A machine of scripts: a Python, and what else is given. Nothing, where a compiler is installed for all.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn machine(programs: &[(&str, &str)]) -> Option<Sandbox> {
    let installed = ["/usr/local/cuda/bin/nvcc", "/opt/rocm/bin/hipcc"];
    if let Some(path) = installed.iter().find(|path| std::path::Path::new(path).exists()) {
        eprintln!("skipped: {path} is installed for all, and would be found");
        return None;
    }
    let sandbox = Sandbox::empty();
    sandbox.write("pip", PIP);
    for (name, text) in [("python3", PYTHON)].iter().chain(programs) {
        sandbox.write(&format!("bin/{name}"), text);
    }
    runnable(&sandbox);
    // What the scripts themselves need, and no compiler that is installed beside it.
    for name in ["chmod", "cp", "dirname", "mkdir"] {
        let folder =
            ["/usr/bin", "/bin"].iter().find(|folder| std::path::Path::new(folder).join(name).exists()).unwrap();
        std::os::unix::fs::symlink(format!("{folder}/{name}"), sandbox.path(&format!("bin/{name}"))).unwrap();
    }
    sandbox.write("work/place", "");
    Some(sandbox)
}

fn runnable(machine: &Sandbox) {
    use std::os::unix::fs::PermissionsExt as _;
    // Links are to programs of the system.
    for file in machine.files().iter().map(|file| machine.path(file)).filter(|file| !file.is_symlink()) {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn on(machine: &Sandbox, arguments: &[&str]) -> Ran {
    Ran::of(&mut ready(machine, arguments))
}

fn ready(machine: &Sandbox, arguments: &[&str]) -> std::process::Command {
    let mut command = machine.command(arguments);
    command.current_dir(machine.path("work")).env("PATH", machine.path("bin")).env("HOME", machine.path("home"));
    let places = ["CUDA_HOME", "CUDA_PATH", "NVCC_CCBIN", "ROCM_PATH", "HIP_PATH"];
    for name in places.into_iter().chain(["VIRTUAL_ENV", "KOPT_PYTHON", "XDG_DATA_HOME"]) {
        command.env_remove(name);
    }
    command
}

#[test]
fn nvcc_is_found_among_the_packages_of_pythons() {
    let Some(machine) = machine(&[]) else { return };
    let nvcc = "packages/nvidia/cu13/bin/nvcc";
    machine.write(&format!("venv/{nvcc}"), "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n");
    machine.write("venv/bin/python", PYTHON);
    runnable(&machine);
    on(&machine, &["doctor"]).exits(0).says("nvcc         missing");
    let with = |name: &str, value: &str| Ran::of(ready(&machine, &["doctor"]).env(name, machine.path(value))).exits(0);
    with("VIRTUAL_ENV", "venv").says(&format!("venv/{nvcc}"));
    with("KOPT_PYTHON", "venv/bin/python").says(&format!("venv/{nvcc}"));
    with("CUDA_HOME", "venv/packages/nvidia/cu13").says(&format!("venv/{nvcc}"));
    // As if it were installed for the Python on PATH.
    std::fs::rename(machine.path("venv/packages"), machine.path("packages")).unwrap();
    on(&machine, &["doctor"]).exits(0).says(&format!("/{nvcc}"));
    // A Python that is named is the only one.
    with("KOPT_PYTHON", "venv/bin/python").says("nvcc         missing");
}

#[test]
fn what_fetches_nvcc_is_printed_and_with_yes_it_is_fetched_and_found() {
    let Some(machine) = machine(&[]) else { return };
    let venv = machine.path("home/.local/share/kopt/venv");
    let shown = on(&machine, &["doctor", "--install", "cuda"])
        .exits(0)
        .says(&format!("-m venv {}", venv.display()))
        .says("bin/pip install 'nvidia-cuda-nvcc==13.0.*'")
        .says("hint: with --yes they are run");
    assert!(!venv.exists(), "{}", shown.stderr);
    let ran = on(&machine, &["doctor", "--install", "cuda", "--yes", "--message-format", "json"])
        .exits(0)
        .says("Collecting nvidia-cuda-nvcc==13.0.*")
        .says("Installed nvcc in ");
    let messages = ran.messages();
    assert!(messages.iter().all(|message| validator("messages").is_valid(message)), "{messages:?}");
    let install = of_reason(&messages, "install")[0];
    assert_eq!((&install["ran"], install["commands"].as_array().unwrap().len()), (&true.into(), 2));
    let fetched = std::fs::read_to_string(venv.join("pip.log")).unwrap();
    assert!(fetched.contains("install nvidia-cuda-nvcc==13.0.* nvidia-cuda-crt==13.0.*"), "{fetched}");
    on(&machine, &["doctor", "--install", "cuda"]).exits(0).says("nothing to fetch");
    on(&machine, &["doctor"]).exits(0).says("nvidia/cu13/bin/nvcc");
}

#[test]
fn a_pip_that_fails_is_told_of_and_names_its_command() {
    let Some(machine) = machine(&[]) else { return };
    machine.write("pip", "#!/bin/sh\nexit 7\n");
    on(&machine, &["doctor", "--install", "triton", "--yes"])
        .exits(96)
        .says("pip install 'triton==3.6.*'` ended with exit status: 7");
    machine.write("pip", "#!/bin/sh\nexit 0\n");
    std::fs::remove_dir_all(machine.path("home")).unwrap();
    on(&machine, &["doctor", "--install", "triton", "--yes"])
        .exits(96)
        .says("triton was fetched and is still not found")
        .says("packages of");
    on(&machine, &["doctor", "--yes"]).exits(2);
    on(&machine, &["doctor", "--install", "rust"]).exits(2);
}

#[test]
fn hips_runtime_is_looked_for_where_it_would_be_loaded_from() {
    let Some(machine) = machine(&[]) else { return };
    let runtime =
        |name: &str, value: &str| Ran::of(ready(&machine, &["doctor"]).env(name, machine.path(value))).exits(0);
    machine.write("rocm/lib/libamdhip64.so.7.1.0", "");
    std::os::unix::fs::symlink("libamdhip64.so.7.1.0", machine.path("rocm/lib/libamdhip64.so.7")).unwrap();
    for (name, value) in [("ROCM_PATH", "rocm"), ("LD_LIBRARY_PATH", "rocm/lib")] {
        runtime(name, value).says("hip runtime  libamdhip64.so.7.1.0").says("rocm/lib/libamdhip64.so.7 ");
    }
}

#[test]
fn hipcc_is_fetched_with_apt_get() {
    let apt = "#!/bin/sh\necho \"$@\" >> \"$HOME/apt.log\"\nprintf '#!/bin/sh\\necho HIP version: 5.2\\n' > \
               \"$(dirname \"$0\")/hipcc\"\nchmod +x \"$(dirname \"$0\")/hipcc\"\n";
    let Some(machine) = machine(&[("apt-get", apt), ("sudo", "#!/bin/sh\nexec \"$@\"\n")]) else { return };
    machine.write("home/here", "");
    on(&machine, &["doctor", "--install", "hip"]).exits(0).says("--no-install-recommends hipcc libamdhip64-dev");
    on(&machine, &["doctor", "--install", "hip", "--yes"]).exits(0).says("Installed hipcc in ");
    assert_eq!(machine.read("home/apt.log"), "update\ninstall --yes --no-install-recommends hipcc libamdhip64-dev\n");
}

#[test]
fn an_nvcc_newer_than_the_driver_is_said_and_the_driver_decides_what_is_fetched() {
    let driver =
        |version: &str| format!("#!/bin/sh\necho '| NVIDIA-SMI 1.2   Driver 3.4   CUDA Version: {version}     |'\n");
    let nvcc = "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n";
    let told = "nvcc is of CUDA 13.0, the driver takes CUDA up to 12.8: what it compiles does not load here";
    let Some(old) = machine(&[("nvidia-smi", &driver("12.8")), ("nvcc", nvcc)]) else { return };
    on(&old, &["doctor"]).exits(0).says(&format!("warning: {told}"));
    let messages = on(&old, &["doctor", "--message-format", "json"]).exits(0).messages();
    assert!(messages.iter().any(|message| message["mismatch"].as_str().is_some_and(|text| text.starts_with(told))));
    let fitting = machine(&[("nvidia-smi", &driver("13.1")), ("nvcc", nvcc)]).unwrap();
    assert!(!on(&fitting, &["doctor"]).exits(0).stderr.contains("warning"));
    let new = machine(&[("nvidia-smi", &driver("13.1"))]).unwrap();
    on(&new, &["doctor", "--install", "cuda"]).exits(0).says("'nvidia-cuda-nvcc==13.1.*'");
}

#[test]
fn what_programs_are_told_fits_the_schema_and_is_kept() {
    let sandbox = bout(&FINDS);
    let ran = quick(&sandbox, &["--message-format", "json"]).exits(0);
    let (messages, validator) = (ran.messages(), validator("messages"));
    for message in &messages {
        assert!(validator.is_valid(message), "{message}");
    }
    let tools: Vec<_> = of_reason(&messages, "toolchain").iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(tools, ["cc", "c++", "nvcc", "hipcc", "hip runtime", "triton", "libclang", "git"]);
    let reasons = ["device", "ceilings", "noise", "self-test", "diagnosis"];
    assert_eq!(reasons.map(|reason| of_reason(&messages, reason).len()), [1; 5]);
    let test = of_reason(&messages, "self-test")[0];
    assert_eq!((&test["right"], &test["injected"], &test["ruling"]), (&true.into(), &0.05.into(), &"accepted".into()));
    let (noise, ceilings) = (of_reason(&messages, "noise")[0], of_reason(&messages, "ceilings")[0]);
    assert_eq!((&noise["launches"], &noise["quiet"]), (&6.into(), &true.into()));
    let kept: Value = serde_json::from_str(&sandbox.read("target/kopt/machine.json")).unwrap();
    assert_eq!(kept["noise"][0]["launch_sigma"], noise["launch_sigma"]);
    assert_eq!((&kept["ceilings"][0]["device"], &ceilings["device"]), (&"Puppet".into(), &"Puppet".into()));
    // What was injected reached the incumbent and its twin, the control.
    let opened: Value = serde_json::from_str(&sandbox.read("opened")).unwrap();
    let handicaps = |contestant: usize| opened["contestants"][contestant]["handicaps"][0]["share"].clone();
    assert_eq!([0, 1, 2].map(handicaps), [0.05.into(), Value::Null, 0.05.into()]);
}

#[test]
fn a_machine_on_which_a_large_gain_is_not_found_is_not_trusted() {
    let sandbox = bout(&["noise 0.002"]);
    quick(&sandbox, &[]).exits(104).says("not trusted: a gain of 5 % was not found by this quick look");
    sandbox
        .kopt(&["doctor"])
        .exits(104)
        .says("5 % injected")
        .says("not trusted: a gain of 5 % was not found: the machine is too noisy to judge");
}

#[test]
fn figures_that_do_not_fit_are_told_of_and_measured_again() {
    let sandbox = bout(&FINDS);
    let file = "target/kopt/machine.json";
    sandbox.write(file, "{ \"format\": 1, \"proc");
    quick(&sandbox, &[]).exits(0).says("machine.json` is damaged").says("Kept in target/kopt/machine.json");
    let good = sandbox.read(file);
    assert!(!quick(&sandbox, &[]).exits(0).stderr.contains("note:"));
    let mut other: Value = serde_json::from_str(&good).unwrap();
    other["cores"] = 4096.into();
    sandbox.write(file, &other.to_string());
    quick(&sandbox, &[]).exits(0).says("machine.json` is of another machine");
    assert_eq!(
        serde_json::from_str::<Value>(&sandbox.read(file)).unwrap()["cores"],
        serde_json::from_str::<Value>(&good).unwrap()["cores"]
    );
    let newer = "{ \"format\": 999 }";
    sandbox.write(file, newer);
    let ran = quick(&sandbox, &[]).exits(0).says("was written by a newer cargo kopt");
    assert!(!ran.stderr.contains("Kept"));
    assert_eq!(sandbox.read(file), newer);
}

#[test]
fn a_comparison_uses_what_is_known_of_the_machine_and_keeps_what_it_finds() {
    let sandbox = changed(&FINDS);
    let file = "target/kopt/machine.json";
    compare(&sandbox, &["HEAD"]).exits(0).says("Ceilings Puppet: copy 20.0 GB/s, arithmetic 98.7 GFLOP/s");
    assert_eq!(evidence(&sandbox)["ceilings"]["copy_bytes_per_s"], 2e10);
    let mut kept: Value = serde_json::from_str(&sandbox.read(file)).unwrap();
    let told = "cannot be told from noise here";
    let ran = compare(&sandbox, &["HEAD"]).exits(0);
    assert!(!ran.stderr.contains("Ceilings") && !ran.stderr.contains(told), "{}", ran.stderr);
    kept["noise"] = json!([{
        "kernel": "bout", "backend": "cpu", "device": "Puppet", "measured": "2026-11-15 05:01", "launch_sigma": 0.05,
        "launches": 14, "load": 0.1,
    }]);
    sandbox.write(file, &kept.to_string());
    let ran = compare(&sandbox, &["HEAD"]).exits(0);
    assert!(ran.stderr.contains("this machine resolves about 2.7 % in 48 launches"), "{}", ran.stderr);
    assert!(ran.stderr.contains(told));
    assert!(!compare(&sandbox, &["HEAD", "--min-gain", "3%"]).exits(0).stderr.contains(told));
}
