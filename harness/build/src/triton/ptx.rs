//! PTX as Triton writes it, one module a kernel, in one module: an object is one file.

use camino::Utf8Path;

use super::Kernel;

/// Shared memory that every kernel declares under one name.
const SHARED: &str = ".extern .shared";

/// The kernels in one module. Several lose their line numbers: debug data names labels that all of them have.
pub(super) fn joined(kernels: &[Kernel], texts: &[String], folder: &Utf8Path) -> Result<String, String> {
    for (kernel, text) in kernels.iter().zip(texts) {
        if let Some(line) = hiding(text) {
            return Err(format!("the PTX of `{}` is not written as Triton writes it: `{line}`", kernel.name));
        }
        let takes = parameters(text, &kernel.name).ok_or_else(|| format!("no kernel `{}` in its PTX", kernel.name))?;
        let given = kernel.arguments.len() + kernel.scratch.len();
        if takes != given {
            return Err(format!("`{}` takes {takes} arguments, the generator names {given}", kernel.name));
        }
    }
    let (Some(first), more) = (texts.first(), texts.len() > 1) else {
        return Err("no kernel was compiled".to_owned());
    };
    // The same bytes wherever the crate lies.
    let local = |text: &str| text.replace(&format!("\"{folder}/"), "\"./").replace(&format!("\"{folder}\""), "\".\"");
    if !more {
        return Ok(local(first));
    }
    let mut module = String::new();
    for line in first.lines().filter(|line| is_head(line)) {
        module.push_str(line);
        module.push('\n');
    }
    for text in texts {
        if texts.first().and_then(|first| architecture(first)) != architecture(text) {
            return Err("kernels of one object are of one target".to_owned());
        }
        for line in without_debug(text) {
            // Once is enough.
            if !(line.trim_start().starts_with(SHARED) && module.contains(line.trim())) {
                module.push_str(line);
                module.push('\n');
            }
        }
    }
    Ok(module)
}

/// A line in which an instruction could pass for something else. The source may write its own PTX, and who reads it goes by
/// lines: places (`.loc`) and declarations (`.local`) stand on lines of their own, and comments end with theirs.
fn hiding(text: &str) -> Option<&str> {
    let is_place = |word: &str| {
        let known = ["function_name", "inlined_at"].contains(&word) || word.starts_with("$L__info_string");
        word.is_empty() || known || word.chars().all(|c| c.is_ascii_digit())
    };
    text.lines().find(|line| {
        let bare = line.split("//").next().unwrap_or_default().trim();
        let hides = match (bare.strip_prefix(".local"), bare.strip_prefix(".loc")) {
            (Some(declaration), _) => declaration.split_once(';').is_some_and(|(_, rest)| !rest.is_empty()),
            (None, Some(place)) => !place.split([' ', '\t', ',']).all(is_place),
            (None, None) => false,
        };
        hides || line.contains("/*")
    })
}

/// `sm_90a`.
pub(super) fn architecture(text: &str) -> Option<&str> {
    let target = text.lines().find_map(|line| line.trim().strip_prefix(".target"))?;
    target.split([',', ' ']).map(str::trim).find(|word| !word.is_empty())
}

fn is_head(line: &str) -> bool {
    [".version", ".target", ".address_size"].iter().any(|word| line.trim_start().starts_with(word))
}

/// What is left without the module's head, lines and debug sections.
fn without_debug(text: &str) -> impl Iterator<Item = &str> {
    let mut in_section = false;
    text.lines().filter(move |line| {
        let bare = line.trim_start();
        let begins = bare.starts_with(".section");
        in_section |= begins;
        let is_debug = in_section || [".loc", ".file"].iter().any(|word| bare.starts_with(word));
        if in_section && bare.starts_with('}') {
            in_section = false;
        }
        !is_debug && !is_head(line)
    })
}

/// How many parameters an entry has.
fn parameters(text: &str, name: &str) -> Option<usize> {
    let list = text.split(".entry").skip(1).find_map(|entry| {
        let rest = entry.trim_start().strip_prefix(name)?.trim_start().strip_prefix('(')?;
        rest.split_once("\n)").map(|(list, _)| list)
    })?;
    Some(list.matches(".param").count())
}
