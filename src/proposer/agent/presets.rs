//! Command lines of known agents, under a short name. Each runs without a person, and may read and edit files but, as far
//! as the program can be told so, run nothing.
//!
//! They follow the programs' public documentation. None of them is run by this repository's tests: the programs need
//! accounts, and change. Where one has changed, its line can be given as a template.

/// A command line under a short name.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// What the user writes.
    pub name: &'static str,
    /// What it stands for.
    pub template: &'static str,
}

/// The presets. None names the prompt: both programs read it from their standard input.
pub const PRESETS: [Preset; 2] = [
    // The list of allowed tools only says which ones need no permission; nobody is there to give it for the others, and
    // those that could run something are denied by name besides. The round's folder is added for `proposal.toml`.
    Preset {
        name: "claude",
        template: "claude -p --output-format json --permission-mode acceptEdits --max-turns 100 \
                   --allowedTools Read,Edit,Write,Grep,Glob --disallowedTools Bash,WebFetch,WebSearch,Task \
                   --add-dir {round_dir}",
    },
    // The sandbox lets commands write in the crate and the round's folder only, and gives them no network.
    Preset { name: "codex", template: "codex exec --sandbox workspace-write --add-dir {round_dir} --json -" },
];

/// The preset of this name.
pub fn named(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
