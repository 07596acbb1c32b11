//! `arch` of a kernel table: what device code is compiled for. A workspace may name what all of its kernels are for; a crate takes
//! of that what its own backend has. A name that no backend has is a mistake, here and there.

use super::resolve::Resolver;
use super::{Backend, Language};
use crate::spelling::nearest;

/// The word for the device that is here.
const NATIVE: &str = "native";

/// Backends that have architectures.
const DEVICES: [Backend; 2] = [Backend::Cuda, Backend::Hip];

impl Resolver<'_> {
    pub(super) fn arch(
        &mut self,
        backend: Backend,
        language: Language,
        own: Option<Vec<String>>,
        inherited: Option<Vec<String>>,
    ) -> Vec<String> {
        let Some(usual) = usual(backend, language) else { return own.unwrap_or_default() };
        let Some(own) = own else {
            let inherited = self.inherited(backend, inherited.unwrap_or_default());
            return if inherited.is_empty() { vec![usual.to_owned()] } else { inherited };
        };
        if own.is_empty() {
            let hint = format!("leave it out for `{usual}`, or name the device here: [\"{NATIVE}\"]");
            self.wrong(&["arch".into()], "device code is compiled for an architecture", hint);
        }
        for (index, name) in own.iter().enumerate().filter(|(_, name)| !is_of(backend, name)) {
            let message = format!("`{name}` is no architecture of {}", backend.name());
            self.wrong(&["arch".into(), index.into()], message, hint(backend, name, usual));
        }
        own
    }

    /// What this backend has of the workspace's names. What is told of those that nobody has is the same for every crate.
    fn inherited(&mut self, backend: Backend, mut names: Vec<String>) -> Vec<String> {
        let is_known = |name: &str| DEVICES.iter().any(|backend| is_of(*backend, name));
        for (index, name) in names.iter().enumerate().filter(|(_, name)| !is_known(name)) {
            let likely = if name.to_lowercase().starts_with("gfx") { Backend::Hip } else { Backend::Cuda };
            let usual = usual(likely, likely.language()).unwrap_or_default();
            let message = format!("`{name}` is no architecture of any backend");
            self.wrong_in_workspace(&["arch".into(), index.into()], message, hint(likely, name, usual));
        }
        names.retain(|name| is_of(backend, name));
        names
    }
}

/// What is compiled for where nobody says anything; nothing for the processor, whose flags are the harness's.
const fn usual(backend: Backend, language: Language) -> Option<&'static str> {
    match (backend, language) {
        (Backend::Cpu, _) => None,
        (Backend::Cuda, _) => Some("sm_90"),
        (Backend::Hip, Language::Triton) => Some("gfx942"),
        (Backend::Hip, _) => Some("gfx90a"),
    }
}

/// Whether compilers of a backend may know that name: `sm_90`, `sm_90a`; `gfx90a`, `gfx90a:xnack-`, `gfx9-4-generic`; or `native`.
fn is_of(backend: Backend, name: &str) -> bool {
    let is_number = |text: &str| (2..=3).contains(&text.len()) && text.chars().all(|c| c.is_ascii_digit());
    match backend {
        Backend::Cpu => false,
        _ if name == NATIVE => true,
        Backend::Cuda => {
            let bare = name.strip_prefix("sm_");
            bare.is_some_and(|bare| is_number(bare.strip_suffix(['a', 'f']).unwrap_or(bare)))
        }
        Backend::Hip => name.strip_prefix("gfx").is_some_and(|bare| {
            bare.starts_with(|c: char| c.is_ascii_digit())
                && bare.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | ':'))
        }),
    }
}

fn hint(backend: Backend, name: &str, usual: &str) -> String {
    // It is none of this one.
    if let Some(other) = DEVICES.into_iter().find(|other| is_of(*other, name)) {
        return format!("that is one of {}; those of {} are such as `{usual}`", other.name(), backend.name());
    }
    let bare: String = name.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let number = bare.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let written = if backend == Backend::Cuda { format!("sm_{number}") } else { format!("gfx{number}") };
    match nearest(name, [NATIVE]).or(Some(written.as_str()).filter(|written| is_of(backend, written))) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("one such as `{usual}`, or `{NATIVE}` for that of the device here"),
    }
}

#[cfg(test)]
mod tests {
    use crate::diagnostic::Diagnostic;
    use crate::manifest::{Manifest, parse};

    fn manifest(table: &str, workspace: &str) -> Result<Manifest, Vec<Diagnostic>> {
        let text = format!("[package.metadata.kopt]\nop = \"softmax\"\n{table}\nshapes = [{{ rows = 1, cols = 1 }}]\n");
        let workspace = format!("[workspace.metadata.kopt]\n{workspace}\n");
        parse("a/Cargo.toml", &text, Some(("Cargo.toml", &workspace))).map(|kernel| kernel.unwrap())
    }

    #[test]
    fn a_crate_takes_what_its_backend_has_of_what_the_workspace_names() {
        let all = "arch = [\"sm_80\", \"gfx1030\", \"sm_90a\", \"gfx942\"]";
        let cases: [(&str, &str, &[&str]); 8] = [
            ("backend = \"cuda\"", all, &["sm_80", "sm_90a"]),
            ("backend = \"hip\"", all, &["gfx1030", "gfx942"]),
            ("backend = \"cpu\"", all, &[]),
            ("backend = \"hip\"", "arch = [\"sm_90\"]", &["gfx90a"]),
            ("backend = \"hip\"\nlanguage = \"triton\"", "arch = [\"sm_90\"]", &["gfx942"]),
            ("backend = \"cuda\"", "arch = [\"gfx90a\"]", &["sm_90"]),
            ("backend = \"cuda\"", "arch = [\"native\"]", &["native"]),
            ("backend = \"cuda\"\narch = [\"sm_100f\", \"native\"]", all, &["sm_100f", "native"]),
        ];
        for (table, workspace, wanted) in cases {
            assert_eq!(manifest(table, workspace).unwrap().arch, wanted, "{table} {workspace}");
        }
        let whole = manifest("backend = \"hip\"\narch = [\"gfx90a:sramecc+:xnack-\", \"gfx9-4-generic\"]", "");
        assert_eq!(whole.unwrap().arch.len(), 2);
    }

    #[test]
    fn an_architecture_that_there_is_not_is_told_with_the_one_that_was_meant() {
        let cases = [
            ("cuda", "\"sm90\"", 0, "did you mean `sm_90`?"),
            ("cuda", "\"sm_80\", \"SM_90a\"", 1, "did you mean `sm_90a`?"),
            ("cuda", "\"9.0\"", 0, "did you mean `sm_90`?"),
            ("cuda", "\"natvie\"", 0, "did you mean `native`?"),
            ("cuda", "\"gfx90a\"", 0, "that is one of hip; those of cuda are such as `sm_90`"),
            ("cuda", "\"hopper\"", 0, "one such as `sm_90`, or `native`"),
            ("hip", "\"gfx_942\"", 0, "did you mean `gfx942`?"),
            ("hip", "\"sm_90\"", 0, "that is one of cuda; those of hip are such as `gfx90a`"),
        ];
        for (backend, names, index, hint) in cases {
            let findings = manifest(&format!("backend = \"{backend}\"\narch = [{names}]"), "").unwrap_err();
            let [finding] = findings.as_slice() else { panic!("{findings:?}") };
            assert_eq!(finding.key, Some(format!("package.metadata.kopt.arch[{index}]")), "{names}");
            assert_eq!(finding.position.map(|(line, _)| line), Some(4), "{names}");
            assert!(finding.message.contains(&format!("is no architecture of {backend}")), "{finding}");
            assert!(finding.hint.as_deref().is_some_and(|told| told.contains(hint)), "{finding}");
        }
        let findings = manifest("backend = \"cuda\"\narch = []", "arch = [\"sm_90\"]").unwrap_err();
        assert_eq!(findings[0].key.as_deref(), Some("package.metadata.kopt.arch"));
        assert!(findings[0].hint.as_deref().is_some_and(|told| told.contains("leave it out for `sm_90`")));
    }

    #[test]
    fn a_name_that_no_backend_has_is_told_where_the_workspace_gives_it() {
        let cases = [
            ("\"sm80\"", 0, "did you mean `sm_80`?"),
            ("\"gfx90a\", \"SM_80\"", 1, "did you mean `sm_80`?"),
            ("\"sm_90\", \"gfx_942\"", 1, "did you mean `gfx942`?"),
            ("\"natvie\"", 0, "did you mean `native`?"),
            ("\"gfx\"", 0, "one such as `gfx90a`, or `native`"),
        ];
        for (names, index, hint) in cases {
            let workspace = format!("arch = [{names}]");
            let of = |table: &str| manifest(table, &workspace);
            let findings = of("backend = \"cuda\"").unwrap_err();
            let [finding] = findings.as_slice() else { panic!("{findings:?}") };
            assert_eq!((finding.file.as_str(), finding.position.map(|(line, _)| line)), ("Cargo.toml", Some(2)));
            assert_eq!(finding.key, Some(format!("workspace.metadata.kopt.arch[{index}]")), "{names}");
            assert!(finding.message.contains("is no architecture of any backend"), "{finding}");
            assert!(finding.hint.as_deref().is_some_and(|told| told.contains(hint)), "{finding}");
            // Said once, whoever reads it.
            assert_eq!(of("backend = \"hip\"").unwrap_err(), findings, "{names}");
            assert_eq!(of("backend = \"hip\"\nlanguage = \"triton\"").unwrap_err(), findings, "{names}");
            assert!(of("backend = \"cpu\"").is_ok() && of("backend = \"cuda\"\narch = [\"sm_90\"]").is_ok());
        }
    }
}
