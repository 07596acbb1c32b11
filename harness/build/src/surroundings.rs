//! What is compiled may not depend on what lies around it. A source that asks whether a file is there, or what day it is, is one
//! kernel before the referee and another one where it is used.
//!
//! The preprocessor itself is asked: names that tell of the surroundings are poisoned, and where the crate's own files come by
//! one, spelled or pasted together, its message says where. Installed headers and declared include roots, which are somebody
//! else's, may ask. A source that gives its lines another file's name would have that file blamed, and is refused.

use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::{Class, Language};

use crate::cache::Found;
use crate::error::BuildError;
use crate::site::Site;

/// Ask whether a file is there.
const FILES: [&str; 3] = ["__has_include", "__has_include_next", "__has_embed"];
/// The moment, and a file's age. Where the harness makes constants of them (`recipe`) they tell nothing.
const MOMENTS: [&str; 3] = ["__DATE__", "__TIME__", "__TIMESTAMP__"];
/// The beginnings of all of those, and ways to paste a name together: without any of them a file cannot have one.
const TRACES: [&str; 6] = ["__has_", "__DATE", "__TIME", "##", "%:%:", "??="];
/// How GCC and clang call a poisoned name that is used.
const POISONED: [&str; 2] = [": error: attempt to use poisoned ", ": error: attempt to use a poisoned identifier"];

/// Refuses a source, which compiles, if it or a file beside it asks for its surroundings.
pub(crate) fn check(site: &Site<'_>, source: &str) -> Result<(), BuildError> {
    let own = own_files(site)?;
    let is_suspect = |text: &String| TRACES.iter().any(|trace| text.contains(trace));
    if !own.iter().any(|(_, text)| is_suspect(text)) {
        return Ok(());
    }
    if let Some((file, _)) =
        own.iter().find(|(file, text)| renames_lines(text) || file.as_str().contains(char::is_control))
    {
        let reason = "gives its lines the name of another file".to_owned();
        return Err(BuildError::Surroundings { place: shown(site, file), reason });
    }
    for pass in passes(site) {
        let said = site.listen(preprocess(site, source, pass)?, source)?;
        for (place, file) in said.lines().filter_map(poisoned) {
            let path = site.folder.join(file);
            let path = path.canonicalize_utf8().unwrap_or(path);
            if own.iter().any(|(one, _)| *one == path) {
                let reason = "asks for a file that need not be there, or for the day".to_owned();
                return Err(BuildError::Surroundings { place: place.to_owned(), reason });
            }
        }
    }
    Ok(())
}

/// A file of the crate, relative to it.
fn shown(site: &Site<'_>, file: &Utf8Path) -> String {
    let folder = site.folder.canonicalize_utf8().unwrap_or_else(|_| site.folder.to_owned());
    file.strip_prefix(folder).unwrap_or(file).to_string()
}

/// What lies beside sources and header, by real paths, with its text. Broken lines are put together.
fn own_files(site: &Site<'_>) -> Result<Vec<(Utf8PathBuf, String)>, BuildError> {
    let files = site.manifest.sources.iter().chain([&site.manifest.header]);
    let mut found = Found::default();
    for folder in files.filter_map(|file| Utf8Path::new(file).parent()) {
        found.gather(&site.folder.join(folder))?;
    }
    let read = |file: Utf8PathBuf| {
        let path = file.canonicalize_utf8().ok()?;
        let bytes = std::fs::read(&path).ok()?;
        Some((path, unbroken(&String::from_utf8_lossy(&bytes))))
    };
    Ok(found.files.into_iter().filter_map(read).collect())
}

/// A text in which no line goes on in the next: a backslash, blanks and the end of the line are nothing.
fn unbroken(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let after = &rest[at + 1..];
        let blanks = after.len() - after.trim_start_matches([' ', '\t', '\u{b}', '\u{c}', '\r']).len();
        let goes_on = after[blanks..].starts_with('\n');
        whole.push_str(&rest[..at + usize::from(!goes_on)]);
        rest = if goes_on { &after[blanks + 1..] } else { after };
    }
    whole + rest
}

/// Whether a directive gives what follows another name: a number and a name, or `#line`, whose number and name macros may make.
fn renames_lines(text: &str) -> bool {
    let marks = ["#", "%:", "??="];
    let afters = marks.iter().flat_map(|mark| text.match_indices(mark).map(|(at, mark)| &text[at + mark.len()..]));
    afters.map(past_blanks).any(|after| match after.strip_prefix("line") {
        Some(rest) if rest.starts_with(|one: char| one.is_alphanumeric() || one == '_') => false,
        Some(rest) => past_number(past_blanks(rest)).is_none_or(|rest| !rest.is_empty() && !rest.starts_with('\n')),
        None => past_number(after).is_some_and(|rest| rest.starts_with('"')),
    })
}

/// The text behind a number and blanks.
fn past_number(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|one: char| one.is_ascii_digit());
    (rest.len() < text.len()).then(|| past_blanks(rest))
}

/// The text behind blanks and comments of one line.
fn past_blanks(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|one: char| one.is_whitespace() && one != '\n');
        match rest.strip_prefix("/*").and_then(|comment| comment.split_once("*/")) {
            Some((_, after)) => rest = after,
            None => return rest,
        }
    }
}

/// What a source is compiled for, one after the other.
fn passes(site: &Site<'_>) -> &'static [&'static [&'static str]] {
    match (site.manifest.class, site.manifest.language) {
        (Class::Launcher, Language::Cuda) => &[&["-x", "cu"], &["-x", "c++", "-D__CUDACC__", "-D__NVCC__"]],
        (Class::Launcher, Language::Hip) => &[&["--cuda-device-only"], &["--cuda-host-only"]],
        (_, Language::Cuda) => &[&["-x", "cu"]],
        _ => &[&[]],
    }
}

/// The preprocessor alone, with the poison first.
fn preprocess(site: &Site<'_>, source: &str, pass: &[&str]) -> Result<Command, BuildError> {
    let moments: &[&str] = if site.manifest.class == Class::Native { &[] } else { &MOMENTS };
    let names = [&FILES, moments].concat().join(" ");
    let poison = site.scratch().join("poison.h");
    std::fs::write(&poison, format!("#pragma GCC poison {names}\n")).map_err(BuildError::file(&poison))?;
    let mut command = site.command();
    command.args(pass).args(["-E", "-include"]).arg(&poison).arg(source).args(["-o", "/dev/null"]);
    if site.compiler.version.contains("clang") {
        // It gives up after twenty, which the system's headers may reach.
        command.arg("-ferror-limit=0");
    }
    Ok(command)
}

/// Where a message says that a poisoned name is used: the place, and the file.
fn poisoned(line: &str) -> Option<(&str, &str)> {
    let place = POISONED.iter().find_map(|words| line.split_once(words))?.0;
    let mut parts = place.rsplitn(3, ':');
    let (_column, _line) = (parts.next()?, parts.next()?);
    Some((place, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::{poisoned, renames_lines, unbroken};
    use crate::error::BuildError;
    use crate::sandbox::tests::{END, Ground};

    #[test]
    fn a_source_that_asks_for_a_file_is_refused_at_its_line_however_it_asks() {
        let sources = [
            ("#if __has_include(\"../Cargo.toml.orig\")\n#endif", "softmax.c:1"),
            ("#if __has_include(<stdio.h>)\n#endif", "softmax.c:1"),
            ("#include <math.h>\n#ifdef __has_include\n#endif", "softmax.c:2"),
            ("#if __has_\\ \ninclude(\"a\")\n#endif", "softmax.c:1"),
            ("#define PASTE(a, b) a##b\n#if PASTE(__has, _include)(\"a\")\n#endif", "softmax.c:2"),
            ("%:define PASTE(a, b) a %:%: b\n%:if PASTE(_, _has_include)(\"a\")\n%:endif", "softmax.c:2"),
            ("#include \"table.h\"", "table.h:2"),
        ];
        for (source, place) in sources {
            let ground = Ground::new(&format!("{source}{END}"));
            let table = "#pragma GCC system_header\n#if __has_include(\"a\")\n#endif\n";
            std::fs::write(ground.path("crate/kernels/table.h"), table).unwrap();
            let error = ground.compile("").unwrap_err();
            assert!(matches!(&error, BuildError::Surroundings { .. }), "{source}: {error}");
            assert!(error.to_string().contains(place) && error.to_string().contains("hint: "), "{source}: {error}");
        }
    }

    #[test]
    fn a_source_that_blames_another_file_is_refused() {
        let asks = "#if __has_include(\"a\")\n#endif";
        for renames in [
            "#line 1 \"/usr/include/math.h\"",
            "# 1 \"/usr/include/math.h\" 1 3",
            "#define M 1 \"/usr/x.h\"\n# /**/ line M",
        ] {
            let error = Ground::new(&format!("{renames}\n{asks}{END}")).compile("").unwrap_err();
            assert!(error.to_string().contains("the name of another file"), "{renames}: {error}");
        }
    }

    #[test]
    fn pasting_compilers_and_libraries_are_nothing_to_refuse() {
        let source = "#include <math.h>\n#include <wchar.h>\n#define PASTE(a, b) a##b\nint PASTE(o, ne) = 1;\n#line 7\n\
                      #if __has_builtin(__builtin_expect) && __has_attribute(simd)\n#endif\n#include \"library.h\"";
        let ground = Ground::new(&format!("{source}{END}"));
        std::fs::write(ground.path("beside/library.h"), "#if __has_include(\"nothing.h\")\n#endif\n").unwrap();
        let built = ground.compile("include_roots = [\"../beside\"]\n");
        assert!(built.is_ok(), "{:?}", built.err().map(|error| error.to_string()));
    }

    #[test]
    fn broken_lines_are_put_together() {
        assert_eq!(unbroken("__has_\\\ninclude a\\b \\ \t\r\nc\\"), "__has_include a\\b c\\");
    }

    #[test]
    fn directives_that_rename_lines_are_seen_however_they_are_written() {
        for text in [
            "#line 3 \"x.h\"",
            " # /* a */ line FILE",
            "%: line 4 \"x.h\"",
            "a\n# 12 /**/ \"x.h\" 1 3",
            "\"/*\"\n# /* */ line 3 \"*/\"",
        ] {
            assert!(renames_lines(text), "{text}");
        }
        for text in
            ["#define line(x) #x", "/* see #12 */", "#\nline", "# 3", "#linear", "a ## b", "#line 7\n\"x\"", "#line 7"]
        {
            assert!(!renames_lines(text), "{text}");
        }
    }

    #[test]
    fn messages_of_both_compilers_are_read() {
        let gcc = "kernels/a:b.c:8:1: error: attempt to use poisoned \"__has_include\"";
        assert_eq!(poisoned(gcc), Some(("kernels/a:b.c:8:1", "kernels/a:b.c")));
        let clang = "./x.hip:7:5: error: attempt to use a poisoned identifier";
        assert_eq!(poisoned(clang), Some(("./x.hip:7:5", "./x.hip")));
        assert_eq!(poisoned("poison.h:1:20: warning: poisoning existing macro \"__DATE__\""), None);
    }
}
