//! Events go into git with the evidence, and from there anywhere: what their words tell of places in this workspace is told from its
//! root. Compilers, and words of repairs, name folders whole. Names stay as they are: by that of a proposer, which may hold the path of
//! an agent, a round knows whom to ask.

use camino::Utf8Path;
use kopt_schema::campaign::{Event, Training};

/// The event with every place below `root` told from there, and every one below `own`, the tool's folder of what may be deleted, which
/// may lie elsewhere, from what it is called.
pub(super) fn from_root(mut event: Event, root: &Utf8Path, own: &Utf8Path) -> Event {
    let tell = |words: &mut String| {
        for (place, name) in [(root, ""), (own, "target/kopt/")] {
            if !place.as_str().is_empty() {
                *words = words.replace(&format!("{place}/"), name);
            }
        }
    };
    match &mut event {
        Event::Refused(one) => tell(&mut one.message),
        Event::RolledBack(one) => tell(&mut one.message),
        Event::Measured(one) => one.reasons.iter_mut().for_each(tell),
        Event::Resumed(one) => one.repaired.iter_mut().for_each(tell),
        Event::Trained(one) => {
            if let Training::NotMeasured { why } | Training::Lost { why } = &mut one.training {
                tell(why);
            }
        }
        _ => {}
    }
    event
}

#[cfg(test)]
mod tests {
    use kopt_schema::campaign::event::{Reason, RolledBack, RoundBegan};

    use super::*;

    fn told(message: &str, root: &str, own: &str) -> String {
        let event = Event::RolledBack(RolledBack { round: 2, reason: Reason::Build, message: message.to_owned() });
        let Event::RolledBack(told) = from_root(event, Utf8Path::new(root), Utf8Path::new(own)) else {
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

    #[test]
    fn who_is_asked_keeps_the_name() {
        let began = RoundBegan {
            round: 2,
            incumbent: "0".to_owned(),
            proposer: "agent /srv/me/ws/agent.sh".to_owned(),
            rollbacks: 0,
        };
        let event = Event::RoundBegan(began);
        assert_eq!(from_root(event.clone(), Utf8Path::new("/srv/me/ws"), Utf8Path::new("/srv/me/ws/target")), event);
    }
}
