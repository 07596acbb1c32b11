//! A file replaced in one step. It is written without a name, and gets its place when complete: a reader, and whoever comes
//! after a process that was killed, finds the old file or the new one, and never half of either. What is killed leaves
//! nothing beside it, but for the moment in which a new file is there and takes the place of an old one: then, and where a
//! file system knows no files without names, a hidden [`PREFIX`] file may stay, which nothing reads.
//!
//! Power that fails is another matter. Only what is [`synced`](Replacement::synced) has reached the disk before it takes
//! the old one's place; the rest can be measured or written again. The move itself is not synced: afterwards the old
//! file may be back, whole.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use camino::Utf8Path;

/// What the name of a file that is not complete begins with.
pub const PREFIX: &str = ".new-";

/// Its owner may write it, and nobody else read it; or everybody.
const PRIVATE: u32 = 0o600;
const SHARED: u32 = 0o644;

/// A file that is about to be replaced, or made where there is none. A link is replaced, and not what it leads to.
#[derive(Debug, Clone, Copy)]
pub struct Replacement<'a> {
    path: &'a Utf8Path,
    access: Access,
    synced: bool,
}

/// Who may read and write the new file.
#[derive(Debug, Clone, Copy)]
enum Access {
    Private,
    Shared,
    Alike,
}

impl<'a> Replacement<'a> {
    /// One that its owner alone may read.
    #[must_use]
    pub const fn private(path: &'a Utf8Path) -> Self {
        Self { path, access: Access::Private, synced: false }
    }

    /// One that everybody may read.
    #[must_use]
    pub const fn shared(path: &'a Utf8Path) -> Self {
        Self { path, access: Access::Shared, synced: false }
    }

    /// One with the permissions of what it replaces; everybody may read it where there was nothing.
    #[must_use]
    pub const fn alike(path: &'a Utf8Path) -> Self {
        Self { path, access: Access::Alike, synced: false }
    }

    /// It is on the disk before it takes the old one's place.
    #[must_use]
    pub const fn synced(self) -> Self {
        Self { synced: true, ..self }
    }

    /// Writes it. Its folder must be there.
    ///
    /// # Errors
    /// When it cannot be written; then the old one is there as it was, and nothing beside it.
    pub fn write(self, bytes: &[u8]) -> io::Result<()> {
        let folder = folder_of(self.path);
        let unnamed = tempfile::tempfile_in(folder)?;
        self.fill(&unnamed, bytes)?;
        let Err(error) = name(&unnamed, self.path.as_std_path()) else { return Ok(()) };
        let mut beside = tempfile::Builder::new();
        beside.prefix(PREFIX);
        if error.kind() == io::ErrorKind::AlreadyExists {
            let file = beside.make_in(folder, |place| name(&unnamed, place))?;
            return file.persist(self.path).map(drop).map_err(|error| error.error);
        }
        // What is unnamed here can be given no name.
        let file = beside.tempfile_in(folder)?;
        self.fill(file.as_file(), bytes)?;
        file.persist(self.path).map(drop).map_err(|error| error.error)
    }

    fn fill(self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        file.set_permissions(self.permissions())?;
        file.write_all(bytes)?;
        if self.synced { file.sync_data() } else { Ok(()) }
    }

    fn permissions(self) -> Permissions {
        let shared = Permissions::from_mode(SHARED);
        match self.access {
            Access::Private => Permissions::from_mode(PRIVATE),
            Access::Shared => shared,
            Access::Alike => fs::metadata(self.path).map_or(shared, |found| found.permissions()),
        }
    }
}

/// Gives a file without a name one that nothing has yet.
fn name(file: &File, place: &Path) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(rustix::fs::CWD, own, rustix::fs::CWD, place, rustix::fs::AtFlags::SYMLINK_FOLLOW)?;
    Ok(())
}

/// The folder that a file is in; a name alone is in the current one.
#[must_use]
pub fn folder_of(path: &Utf8Path) -> &Utf8Path {
    path.parent().filter(|folder| !folder.as_str().is_empty()).unwrap_or(Utf8Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use camino::Utf8PathBuf;

    use super::*;

    /// A folder, and a file in it that is not there yet.
    fn place() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(folder.path().join("file")).unwrap();
        (folder, path)
    }

    fn mode(path: &Utf8Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn names(folder: &Utf8Path) -> Vec<String> {
        let mut names: Vec<String> =
            folder.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn who_reads_the_old_file_goes_on_reading_all_of_it() {
        let (_folder, path) = place();
        fs::write(&path, "the old one").unwrap();
        let mut reader = File::open(&path).unwrap();
        Replacement::shared(&path).synced().write(b"new").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!((read.as_str(), fs::read_to_string(&path).unwrap().as_str()), ("the old one", "new"));
        assert_eq!(names(folder_of(&path)), ["file"]);
    }

    #[test]
    fn a_new_file_has_no_other_name_before_its_own() {
        let (_folder, path) = place();
        let unnamed = tempfile::tempfile_in(folder_of(&path)).unwrap();
        Replacement::shared(&path).fill(&unnamed, b"new").unwrap();
        assert!(names(folder_of(&path)).is_empty());
        name(&unnamed, path.as_std_path()).unwrap();
        assert_eq!(
            (names(folder_of(&path)), fs::read_to_string(&path).unwrap()),
            (vec!["file".to_owned()], "new".to_owned())
        );
        assert_eq!(name(&unnamed, path.as_std_path()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn what_cannot_be_put_there_leaves_everything_as_it_was() {
        let (_folder, path) = place();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "kept").unwrap();
        Replacement::shared(&path).write(b"new").unwrap_err();
        assert_eq!(names(folder_of(&path)), ["file"]);
        assert_eq!(fs::read_to_string(path.join("inside")).unwrap(), "kept");
        // No folder is made: whether one is missing or was taken away is the caller's to know.
        let error = Replacement::shared(&path.join("missing/file")).write(b"new").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn permissions_are_those_that_were_asked_for() {
        let (_folder, path) = place();
        Replacement::alike(&path).write(b"1").unwrap();
        assert_eq!(mode(&path), 0o644);
        for wanted in [0o640, 0o600, 0o755] {
            fs::set_permissions(&path, Permissions::from_mode(wanted)).unwrap();
            Replacement::alike(&path).write(b"2").unwrap();
            assert_eq!(mode(&path), wanted);
        }
        Replacement::private(&path).write(b"3").unwrap();
        assert_eq!(mode(&path), 0o600);
        Replacement::shared(&path).write(b"4").unwrap();
        assert_eq!(mode(&path), 0o644);
    }

    #[test]
    fn a_link_is_replaced_and_not_written_through() {
        let (_folder, path) = place();
        let other = path.with_file_name("other");
        fs::write(&other, "of somebody else").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        Replacement::private(&path).write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "of somebody else");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn a_name_alone_is_in_the_current_folder() {
        for (path, folder) in [("a", "."), ("a/b", "a"), ("/a", "/"), ("./a", ".")] {
            assert_eq!(folder_of(Utf8Path::new(path)), folder, "{path}");
        }
    }
}
