//! `workspace.members` of the manifest around a new crate: whether it covers the crate already, and if not, the same
//! text with one more entry, everything else as it was.

use camino::Utf8Path;
use glob::{MatchOptions, Pattern};
use toml_edit::{Array, DocumentMut, Item, Value};

/// What the workspace says of a folder in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A member already.
    Member,
    /// Kept out on purpose.
    Excluded,
    /// Not mentioned.
    Unmentioned,
}

/// How the workspace manifest regards `folder`, given relative to it.
pub fn standing(document: &DocumentMut, folder: &Utf8Path) -> Standing {
    let listed = |key: &str| -> Vec<String> {
        let array = document.get("workspace").and_then(|workspace| workspace.get(key)?.as_array());
        array.into_iter().flatten().filter_map(|value| value.as_str().map(clean)).collect()
    };
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
    let covers = |glob: &String| Pattern::new(glob).is_ok_and(|glob| glob.matches_with(folder.as_str(), options));
    if listed("exclude").iter().any(|path| folder.starts_with(path)) {
        Standing::Excluded
    } else if listed("members").iter().any(covers) {
        Standing::Member
    } else {
        Standing::Unmentioned
    }
}

/// Adds `folder` to the members: in order if they are in order, else at the end, on a line of its own if they are.
pub fn add(document: &mut DocumentMut, folder: &Utf8Path) -> Option<()> {
    let workspace = document.get_mut("workspace")?.as_table_like_mut()?;
    let members =
        workspace.entry("members").or_insert_with(|| Item::Value(Value::Array(Array::new()))).as_array_mut()?;
    let names: Vec<&str> = members.iter().filter_map(Value::as_str).collect();
    let at = match names.is_sorted() {
        true => names.partition_point(|name| *name < folder.as_str()),
        false => names.len(),
    };
    let before_first = members.get(0).and_then(|first| first.decor().prefix()?.as_str().map(str::to_owned));
    let own_line = before_first.filter(|space| space.contains('\n'));
    let mut value = Value::from(folder.as_str());
    match own_line {
        Some(space) => {
            let margin = space.rsplit('\n').next().unwrap_or_default();
            value.decor_mut().set_prefix(format!("\n{margin}"));
            // Without a comma after the last entry, the line break before `]` belongs to that entry.
            if !members.trailing_comma()
                && let Some(last) = members.len().checked_sub(1).and_then(|last| members.get_mut(last))
            {
                let end = last.decor().suffix().and_then(|space| space.as_str()).unwrap_or_default().to_owned();
                last.decor_mut().set_suffix("");
                members.set_trailing(end);
                members.set_trailing_comma(true);
            }
        }
        None => {
            value.decor_mut().set_prefix(if at == 0 { "" } else { " " });
            if at == 0
                && let Some(first) = members.get_mut(0)
            {
                first.decor_mut().set_prefix(" ");
            }
        }
    }
    members.insert_formatted(at, value);
    Some(())
}

fn clean(path: &str) -> String {
    path.trim_start_matches("./").trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(text: &str, folder: &str) -> String {
        let mut document: DocumentMut = text.parse().unwrap();
        add(&mut document, folder.into()).unwrap();
        document.to_string()
    }

    #[test]
    fn an_entry_is_added_and_all_else_is_kept() {
        let cases = [
            ("[workspace]\nmembers = [\"a\", \"c\"] # two\n", "[workspace]\nmembers = [\"a\", \"b\", \"c\"] # two\n"),
            ("[workspace]\nmembers = [\"c\"]\n", "[workspace]\nmembers = [\"b\", \"c\"]\n"),
            ("[workspace]\nmembers = [\"z\", \"a\"]\n", "[workspace]\nmembers = [\"z\", \"a\", \"b\"]\n"),
            (
                "[workspace]\nmembers = [\n    # first\n    \"a\",\n    \"c\"\n]\nx = 1\n",
                "[workspace]\nmembers = [\n    # first\n    \"a\",\n    \"b\",\n    \"c\",\n]\nx = 1\n",
            ),
            ("[workspace]\nresolver = \"3\"\n", "[workspace]\nresolver = \"3\"\nmembers = [\"b\"]\n"),
            ("[workspace]\n", "[workspace]\nmembers = [\"b\"]\n"),
        ];
        for (before, after) in cases {
            assert_eq!(added(before, "b"), after);
        }
    }

    #[test]
    fn globs_and_exclusions_are_understood() {
        let text = "[workspace]\nmembers = [\"kernels/*\", \"./tool/\"]\nexclude = [\"old\"]\n";
        let document: DocumentMut = text.parse().unwrap();
        let of = |folder: &str| standing(&document, folder.into());
        assert_eq!(of("kernels/a"), Standing::Member);
        assert_eq!(of("kernels/a/b"), Standing::Unmentioned);
        assert_eq!(of("tool"), Standing::Member);
        assert_eq!(of("old/a"), Standing::Excluded);
        assert_eq!(of("a"), Standing::Unmentioned);
    }
}
