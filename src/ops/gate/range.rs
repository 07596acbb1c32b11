//! Which two commits: what the user says, else what GitHub says of the event, else the default branch.

use crate::context::github::GitHub;
use crate::error::{Error, Result};
use crate::revision::{Revision, Revisions};

/// The two commits, and how they were chosen.
#[derive(Debug, Clone)]
pub struct Range {
    /// The version that stands.
    pub base: Revision,
    /// The version that is gated.
    pub head: Revision,
    /// For people.
    pub notes: Vec<String>,
}

/// How the head of a pull request is checked out.
const CHECK_OUT: &str = "`on: pull_request` does that by itself; on `pull_request_target` say `ref: ${{ \
                         github.event.pull_request.head.sha }}`, and what it changes then runs with that event's rights";

/// Chooses base and head. None where the head is the first commit of all, and nobody named a base.
///
/// # Errors
/// When a revision is not there, the two have nothing in common, or the history is cut off.
pub fn choose(revisions: &Revisions, github: &GitHub, base: Option<&str>, head: Option<&str>) -> Result<Option<Range>> {
    let chosen = between(revisions, github, base, revisions.resolve(head.unwrap_or("HEAD"))?)?;
    // A head that is named is what is wanted; one that is not must be what is asked for, whatever it is compared with.
    if let (None, Some(range)) = (head, &chosen)
        && lacks_the_request(revisions, github, range)?
    {
        return Err(Error::setup("what is checked out is the base, not the pull request").hint(CHECK_OUT));
    }
    Ok(chosen)
}

/// The head, and what it is compared with.
fn between(revisions: &Revisions, github: &GitHub, base: Option<&str>, head: Revision) -> Result<Option<Range>> {
    if let Some(name) = base {
        let named = resolve(revisions, name)?;
        return fork(revisions, named, head, Vec::new()).map(Some);
    }
    for (name, why) in told(revisions, github, &head)? {
        if let Some(found) = revisions.known(&name) {
            return fork(revisions, Revision { name: why, ..found }, head, Vec::new()).map(Some);
        }
        if revisions.is_shallow() {
            return Err(not_here(&why, &name));
        }
    }
    let Some(default) = revisions.default_branch(github.said("/repository/default_branch")) else {
        if revisions.is_clone() && github.event_name.is_none() {
            // The last commit alone would be gated, and what came before it on the branch pass unseen.
            return Err(Error::setup("this clone does not know a default branch, and no base is named")
                .hint("name the branch that the change is for: `cargo kopt gate BRANCH`; one that is not here is FETCH_HEAD after `git fetch origin BRANCH`"));
        }
        return match parent(revisions, &head)? {
            Some(parent) => {
                let notes = vec!["no default branch is known here: compared with the parent commit".to_owned()];
                Ok(Some(Range { base: parent, head, notes }))
            }
            None => Ok(None),
        };
    };
    let (name, commit) = (default.name.clone(), default.commit.clone());
    let range = fork(revisions, default, head, Vec::new())?;
    if range.base.commit != range.head.commit {
        return Ok(Some(range));
    }
    // On the default branch itself: what came last is what is gated.
    let where_ = if commit == range.head.commit { "is" } else { "is a part of" };
    let notes = vec![format!("the head {where_} {name}: compared with its parent commit")];
    Ok(parent(revisions, &range.head)?.map(|base| Range { base, head: range.head, notes }))
}

/// Whether the head has nothing of the pull request that the event is about. On `pull_request_target` it is the base's branch that
/// is checked out, which may have gone on since: a gate of that passes whatever anybody requests.
fn lacks_the_request(revisions: &Revisions, github: &GitHub, range: &Range) -> Result<bool> {
    let Some(request) = github.said("/pull_request/head/sha") else { return Ok(false) };
    let is_of_the_base = github.event_name.as_deref() == Some("pull_request_target");
    if request == range.head.commit || (range.base.commit != range.head.commit && !is_of_the_base) {
        return Ok(false);
    }
    // From a fork it is not even here.
    let Some(request) = revisions.known(request) else { return Ok(true) };
    let common = revisions.merge_base(&request, &range.head)?;
    Ok(common.is_none_or(|common| common.commit != request.commit))
}

/// What GitHub says of the base, by commit or branch, with words for it; the surest first.
fn told(revisions: &Revisions, github: &GitHub, head: &Revision) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    if let Some(branch) = github.said("/pull_request/head/sha") {
        // Actions checks out the merge of the pull request into its base: what it changes is what it changes there.
        if let [base, merged] = revisions.parents(head)?.as_slice()
            && merged == branch
        {
            found.push((base.clone(), "the base of the pull request".to_owned()));
        }
    }
    let said = [
        ("/pull_request/base/sha", "the base of the pull request"),
        ("/merge_group/base_sha", "the base of the merge group"),
        ("/before", "the commit before the push"),
    ];
    for (pointer, words) in said {
        // `before` is also said of other events, with another meaning.
        if pointer == "/before" && github.event_name.as_deref() != Some("push") {
            continue;
        }
        found.extend(github.said(pointer).map(|commit| (commit.to_owned(), words.to_owned())));
    }
    if let Some(branch) = &github.base_ref {
        found.push((format!("origin/{branch}"), format!("origin/{branch}")));
        found.push((branch.clone(), branch.clone()));
    }
    Ok(found)
}

/// The base, or where the head has left it.
fn fork(revisions: &Revisions, named: Revision, head: Revision, mut notes: Vec<String>) -> Result<Range> {
    if named.commit == head.commit {
        return Ok(Range { base: named, head, notes });
    }
    match revisions.merge_base(&named, &head)? {
        Some(common) if common.commit == named.commit => Ok(Range { base: named, head, notes }),
        Some(common) => {
            let (short, head_shown) = (common.shown(), head.shown());
            notes.push(format!(
                "{} is no ancestor of {head_shown}: compared with where they parted, {short}",
                named.shown()
            ));
            Ok(Range { base: common, head, notes })
        }
        None => Err(Error::setup(format!("{} and {} have no commit in common", named.shown(), head.shown()))
            .hint("a gate judges what a branch changes since it left another: name one that it descends from")),
    }
}

fn parent(revisions: &Revisions, head: &Revision) -> Result<Option<Revision>> {
    let Some(parent) = revisions.parents(head)?.into_iter().next() else {
        // Where a shallow clone ends, git shows no parents.
        return if revisions.is_shallow() { Err(not_here("the parent of", &head.commit)) } else { Ok(None) };
    };
    match revisions.known(&parent) {
        Some(found) => Ok(Some(found)),
        None => Err(not_here("the parent commit", &parent)),
    }
}

fn resolve(revisions: &Revisions, name: &str) -> Result<Revision> {
    match revisions.known(name) {
        Some(found) => Ok(found),
        None if revisions.is_shallow() => Err(not_here("the base", name)),
        None => revisions.resolve(name),
    }
}

fn not_here(what: &str, name: &str) -> Error {
    Error::setup(format!("{what} `{name}` is not in this clone, which is shallow"))
        .hint("`fetch-depth: 0` of actions/checkout gets the whole history, or `git fetch --unshallow`")
}
