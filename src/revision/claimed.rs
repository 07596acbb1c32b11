//! Files of a commit where the tool keeps its own things: compiled versions and judges that lie there are believed, because it
//! was the tool who put them there. What a commit brings along must not be taken for that.

use camino::{Utf8Path, Utf8PathBuf};
use git2::ObjectType;
use kopt_schema::exit::Exit;

use super::{Revision, Revisions};
use crate::error::{Error, Result};
use crate::reach::plain;

impl Revisions {
    /// Neither what is checked out nor `head` has anything in `own`, where the tool keeps its own, nor leads it elsewhere by what
    /// is no folder around it. What only another commit has does no harm, so that a change may take it away.
    ///
    /// # Errors
    /// [`Exit::Integrity`] where one of them has; and where it cannot be read.
    pub fn keeps_clear(&self, own: &Utf8Path, head: Option<&Revision>) -> Result<()> {
        let checked_out = self.known("HEAD");
        for place in self.inside(own) {
            for revision in checked_out.iter().chain(head) {
                let Some(found) = self.claims(revision, &place)? else { continue };
                let wrong = format!("{} has `{found}` in git, where this tool keeps its own", revision.shown());
                let wrong = Error::new(Exit::Integrity, wrong)
                    .cause("what is compiled and built is believed there, and must not come with a change");
                return Err(match found.as_str() {
                    "" => wrong.hint("let cargo build in another folder: `build.target-dir`, or CARGO_TARGET_DIR"),
                    _ => wrong.hint(format!("`git rm -r --cached {found}`, commit it, and name it in .gitignore")),
                });
            }
        }
        Ok(())
    }

    /// What a commit has at `place`, or around it where only folders should be.
    fn claims(&self, revision: &Revision, place: &Utf8Path) -> Result<Option<Utf8PathBuf>> {
        for path in place.ancestors() {
            match self.entry(revision, path)? {
                Some((ObjectType::Tree, _)) if path != place => {}
                Some(_) => return Ok(Some(path.to_owned())),
                None => {}
            }
        }
        Ok(None)
    }

    /// Where a folder lies in the repository: by its name, and by where links on the way to it lead. Outside of it git has nothing.
    fn inside(&self, folder: &Utf8Path) -> Vec<Utf8PathBuf> {
        let top = self.repository.workdir().and_then(|top| Utf8PathBuf::from_path_buf(top.canonicalize().ok()?).ok());
        let real = folder.ancestors().find_map(|above| {
            let rest = folder.strip_prefix(above).ok()?;
            Some(above.canonicalize_utf8().ok()?.join(rest))
        });
        let ways = [(Some(self.top.clone()), Some(folder.to_owned())), (top, real)];
        let mut found: Vec<Utf8PathBuf> = ways
            .into_iter()
            .filter_map(|(top, folder)| Some(plain(&folder?).strip_prefix(top?).ok()?.to_owned()))
            .collect();
        found.dedup();
        found
    }
}
