//! Compiling outside cargo: many candidates at once, each at most once.
//!
//! The key covers everything that decides the object: format, compiler, flags, the manifest, and every file and link that the
//! compiler can read of the crate: the folder `kernels`, those of sources and header, and the include roots. The compiler's own
//! headers are covered by its version; those of libraries in the system's folders are by nothing, and after one of them is
//! upgraded the folder has to be deleted. An entry is written beside its place and moved there when complete, so a killed build leaves nothing that
//! could be taken for one.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::FORMAT_VERSION;
use kopt_schema::candidate::Candidate;
use kopt_schema::manifest::{Class, Manifest};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::compile::compile_recipe;
use crate::error::BuildError;
use crate::recipe::Recipe;
use crate::scratch::{self, Scratch};
use crate::site::{CUDA_LINK, DEVICE_HEADER, HIP_LINK, LINK};
use crate::{digest, sandbox, triton};

/// A folder of compiled candidates. It may be deleted at any time.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: Utf8PathBuf,
}

/// A kernel crate to compile.
#[derive(Debug, Clone)]
pub struct Order {
    /// The crate's folder.
    pub folder: Utf8PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
}

impl Cache {
    /// The cache in `folder`, made when first used.
    #[must_use]
    pub fn new(folder: impl Into<Utf8PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The `candidate.json` of a crate, compiled if it is not here yet.
    ///
    /// # Errors
    /// As [`crate::compile::compile`].
    pub fn candidate(&self, order: &Order) -> Result<Utf8PathBuf, BuildError> {
        for _ in 0..ATTEMPTS {
            if let Some(file) = self.attempt(order)? {
                return Ok(file);
            }
        }
        let reason = "changes again and again while it is compiled".to_owned();
        Err(BuildError::Header { header: order.manifest.sources.join(", "), reason })
    }

    /// The same, or nothing where a file changed while it was compiled: what came of it must not be kept under what the
    /// files held before.
    fn attempt(&self, order: &Order) -> Result<Option<Utf8PathBuf>, BuildError> {
        let recipe = Recipe::of(&order.folder, &order.manifest)?;
        let key = self.key(order, &recipe)?;
        let place = self.folder.join(&key);
        let file = place.join("candidate.json");
        if is_whole(&place) {
            return Ok(Some(file));
        }
        std::fs::create_dir_all(&self.folder).map_err(BuildError::file(&self.folder))?;
        scratch::sweep(&self.folder, UNFINISHED);
        let scratch = Scratch::new(&self.folder, UNFINISHED).map_err(BuildError::file(&self.folder))?;
        let out = scratch.path().join("out");
        let compiled = compile_recipe(&order.folder, &order.manifest, &recipe, &out);
        if self.key(order, &recipe)? != key || !recipe.still_suits(&order.folder, &order.manifest) {
            return Ok(None);
        }
        compiled?;
        install(&out, &place, scratch.path())?;
        Ok(Some(file))
    }

    fn key(&self, order: &Order, recipe: &Recipe) -> Result<String, BuildError> {
        key(order, recipe, &self.folder)
    }

    /// Several crates, `jobs` at a time, in the order given.
    #[must_use]
    pub fn candidates(&self, orders: &[Order], jobs: usize) -> Vec<Result<Utf8PathBuf, BuildError>> {
        let next = AtomicUsize::new(0);
        let results: Vec<_> = orders.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, orders.len().max(1)) {
                scope.spawn(|| {
                    while let Some((order, result)) = orders.get(next.load(Ordering::Relaxed)).and_then(|_| {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        Some((orders.get(index)?, results.get(index)?))
                    }) {
                        if let Ok(mut slot) = result.lock() {
                            *slot = Some(self.candidate(order));
                        }
                    }
                });
            }
        });
        let built = |slot: Mutex<Option<_>>| slot.into_inner().ok().flatten();
        let lost = || Err(BuildError::NoCompiler("a build thread was lost".to_owned()));
        results.into_iter().map(|slot| built(slot).unwrap_or_else(lost)).collect()
    }
}

/// Moves what was compiled to its place. Another process may do the same at any moment, and leave a whole entry or one without an
/// object, which is as good as this one: both were compiled from the same files. Whoever was told that an entry is there finds
/// one: what stands in the way, damaged or without an object, changes places with this one in one step.
fn install(out: &Utf8Path, place: &Utf8Path, scratch: &Utf8Path) -> Result<(), BuildError> {
    let mut tries = 0;
    loop {
        let Err(error) = std::fs::rename(out, place) else { return Ok(()) };
        if is_whole(place) {
            return Ok(());
        }
        tries += 1;
        let is_taken =
            matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists | ErrorKind::NotADirectory);
        if !is_taken || tries > MOVES {
            return Err(BuildError::file(place)(error));
        }
        match renameat_with(CWD, out.as_std_path(), CWD, place.as_std_path(), RenameFlags::EXCHANGE) {
            Ok(()) => return Ok(()),
            // A file system without that step: there an entry is gone for a moment.
            Err(Errno::INVAL | Errno::NOSYS) => clear(place, &scratch.join(format!("in-the-way-{tries}")))?,
            // Somebody has just done so.
            Err(Errno::NOENT) => {}
            Err(error) => return Err(BuildError::file(place)(error.into())),
        }
    }
}

/// Moves an entry out of the way, where nobody has done so meanwhile.
fn clear(place: &Utf8Path, aside: &Utf8Path) -> Result<(), BuildError> {
    match std::fs::rename(place, aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(BuildError::file(place)(error)),
        _ => Ok(()),
    }
}

/// Whether an entry is there and its object is the one that was compiled.
fn is_whole(place: &Utf8Path) -> bool {
    let Ok(text) = std::fs::read(place.join("candidate.json")) else { return false };
    let Ok(candidate) = serde_json::from_slice::<Candidate>(&text) else { return false };
    match &candidate.object {
        Some(object) => digest::of_file(&place.join(object)).is_ok_and(|digest| digest == candidate.digest),
        // Without a compiler nothing is kept: it may be installed by now.
        None => false,
    }
}

/// One more for each kind of mistake that is refused since: an entry of before was never held against it.
const CHECKS: u8 = 1;

/// Begins the names of folders in which versions are compiled.
const UNFINISHED: &str = ".building-";

/// How often a crate is compiled whose files change meanwhile.
const ATTEMPTS: usize = 3;

/// How often a place is looked at that others take and leave meanwhile.
const MOVES: usize = 16;

/// What `-march=native` stands for here.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    format!("{}\n{}\n{}", kopt_schema::machine::processor(&text), line("flags"), line("Features"))
}

fn key(order: &Order, recipe: &Recipe, own: &Utf8Path) -> Result<String, BuildError> {
    let mut parts: Vec<Vec<u8>> = vec![FORMAT_VERSION.to_le_bytes().into(), vec![CHECKS]];
    match &recipe.compiler {
        Ok(compiler) => parts.extend([compiler.path.as_str().into(), compiler.version.as_str().into()]),
        Err(reason) => parts.push(reason.as_str().into()),
    }
    // The prefix map names the crate's folder and is there to make the object independent of it.
    parts.extend(
        recipe.flags.iter().filter(|flag| !flag.starts_with("-ffile-prefix-map")).map(|flag| flag.as_str().into()),
    );
    if recipe.flags.iter().any(|flag| flag.ends_with("=native")) {
        parts.push(processor().into_bytes());
    }
    parts.extend(LINK.map(Into::into));
    if order.manifest.class == Class::Launcher {
        parts.extend(CUDA_LINK.iter().chain(&HIP_LINK).map(|flag| (*flag).into()));
    }
    if order.manifest.class != Class::Native {
        parts.extend([DEVICE_HEADER.into(), triton::GENERATOR.into()]);
        parts.extend(order.manifest.generator.iter().map(|word| word.as_str().into()));
    }
    // Which of the files are compiled, and by which plan they are called.
    let manifest = serde_json::to_vec(&order.manifest).map_err(|error| BuildError::file("manifest")(error.into()))?;
    parts.push(manifest);
    let found = Found::of(&order.folder, &order.manifest, Some(own))?;
    for (link, target) in &found.links {
        parts.extend([link.strip_prefix(&order.folder).unwrap_or(link), target].map(|path| path.as_str().into()));
    }
    for file in found.files {
        parts.push(file.strip_prefix(&order.folder).unwrap_or(&file).as_str().into());
        parts.push(match std::fs::read(&file) {
            // A link that leads nowhere: what the compiler would find there is nothing.
            Err(error) if error.kind() == ErrorKind::NotFound && file.is_symlink() => Vec::new(),
            read => read.map_err(BuildError::file(&file))?,
        });
    }
    Ok(digest::of_parts(parts.iter().map(Vec::as_slice)))
}

/// Everything that a compiler can read of a crate.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) files: Vec<Utf8PathBuf>,
    /// Links, and what they say.
    links: Vec<(Utf8PathBuf, Utf8PathBuf)>,
    /// Folders that were looked through, by their real paths: links may lead in a circle.
    seen: HashSet<Utf8PathBuf>,
}

impl Found {
    /// Of the crate in `folder`, without the folder `own`: a cache may lie among the sources.
    pub(crate) fn of(folder: &Utf8Path, manifest: &Manifest, own: Option<&Utf8Path>) -> Result<Self, BuildError> {
        let mut found = Self::default();
        found.seen.extend(own.and_then(|own| own.canonicalize_utf8().ok()));
        for sources in std::iter::once(folder.join("kernels")).chain(sandbox::of_sources(folder, manifest)) {
            found.gather(&sources)?;
        }
        let named = manifest.sources.iter().chain([&manifest.header]).chain(&manifest.launch);
        found.files.extend(named.map(|path| folder.join(path)));
        found.files.extend(manifest.generator.iter().map(|word| folder.join(word)).filter(|path| path.is_file()));
        found.files.sort();
        found.files.dedup();
        found.links.sort();
        Ok(found)
    }

    pub(crate) fn gather(&mut self, folder: &Utf8Path) -> Result<(), BuildError> {
        let Ok(real) = folder.canonicalize_utf8() else { return Ok(()) };
        // Nothing else is passed over, whatever it is called: what a compiler can include, it can be compiled from.
        if !self.seen.insert(real) {
            return Ok(());
        }
        for entry in folder.read_dir_utf8().map_err(BuildError::file(folder))? {
            let path = entry.map_err(BuildError::file(folder))?.into_path();
            if let Ok(target) = path.read_link_utf8() {
                self.links.push((path.clone(), target));
            }
            if path.is_dir() {
                self.gather(&path)?;
            } else {
                self.files.push(path);
            }
        }
        Ok(())
    }
}
