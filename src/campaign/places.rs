//! Events go into git with the evidence, and from there anywhere: what they tell of places in this workspace is told from its root.
//! Compilers, and words of repairs, name folders whole.

use camino::Utf8Path;
use kopt_schema::campaign::Event;
use kopt_schema::exit::Exit;
use serde_json::Value;

use crate::error::{Error, Result};

/// The event with every place below `root` told from there, and every one below `own`, the tool's folder of what may be deleted, which
/// may lie elsewhere, from what it is called.
///
/// # Errors
/// When an event is no JSON, which is a bug.
pub(super) fn from_root(event: Event, root: &Utf8Path, own: &Utf8Path) -> Result<Event> {
    let below = [(format!("{root}/"), ""), (format!("{own}/"), "target/kopt/")];
    let told = serde_json::to_value(event).and_then(|mut value| {
        tell(&mut value, &below);
        serde_json::from_value(value)
    });
    told.map_err(|error| Error::new(Exit::Internal, "cannot write an event as JSON").because(&error))
}

fn tell(value: &mut Value, below: &[(String, &str)]) {
    match value {
        Value::String(text) => {
            for (place, name) in below.iter().filter(|(place, _)| place.len() > 1) {
                if text.contains(place.as_str()) {
                    *text = text.replace(place.as_str(), name);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| tell(value, below)),
        Value::Object(fields) => fields.values_mut().for_each(|value| tell(value, below)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use kopt_schema::campaign::event::{Reason, RolledBack};

    use super::*;

    fn told(message: &str, root: &str, own: &str) -> String {
        let event = Event::RolledBack(RolledBack { round: 2, reason: Reason::Build, message: message.to_owned() });
        let Event::RolledBack(told) = from_root(event, Utf8Path::new(root), Utf8Path::new(own)).unwrap() else {
            panic!("another event")
        };
        told.message
    }

    #[test]
    fn places_in_the_workspace_are_told_from_its_root_and_others_stay() {
        let said = "cd /srv/me/ws/target/kopt/x && TMPDIR=/srv/me/ws/t /usr/bin/nvcc -I/srv/me/ws/include a\\tb (/srv/me/wsx/y)";
        let left = "cd target/kopt/x && TMPDIR=t /usr/bin/nvcc -Iinclude a\\tb (/srv/me/wsx/y)";
        assert_eq!(told(said, "/srv/me/ws", "/srv/me/ws/target/kopt"), left);
        assert_eq!(told("in /scratch/t/kopt/a.cu", "/srv/me/ws", "/scratch/t/kopt"), "in target/kopt/a.cu");
        // Of a workspace at the root of the system nothing can be left out.
        assert_eq!(told("in /a/b", "", "/t/kopt"), "in /a/b");
    }
}
