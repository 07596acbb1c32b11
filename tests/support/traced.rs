//! Kernels of `transfer-kernels/` before a real judge: what `transfer` and its benchmark share.

#[path = "judge.rs"]
mod judge;

use std::fs;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_kopt::context::Context;
use cargo_kopt::error::Result as KoptResult;
use cargo_kopt::gate;
use cargo_kopt::manifest::Kernel;
use cargo_kopt::process::Interrupts;
use cargo_kopt::referee::entrant::{self, Entrant, Version};
use cargo_kopt::referee::judge::Judge;
use cargo_kopt::referee::seeds::Master;
use cargo_kopt::referee::{Limits, Match};
use kopt_schema::bout::{JudgeReply, JudgeRequest};
use kopt_schema::evidence::Evidence;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const LIMIT: Duration = Duration::from_secs(300);

/// An example crate and its judge.
pub struct Ground {
    pub kernel: Kernel,
    pub judge: Utf8PathBuf,
}

impl Ground {
    /// The example, built.
    pub fn of(package: &str) -> Self {
        let (kernel, judge) = judge::of(package);
        Self { kernel, judge }
    }

    /// The example's own kernel.
    pub fn baseline(&self) -> Entrant {
        self.compile(&self.kernel.clone(), "baseline").unwrap()
    }

    /// `transfer-kernels/<op>.c`, compiled in place of the example's own.
    pub fn variant(&self, keeps: &str) -> KoptResult<Entrant> {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(scratch.path()).unwrap();
        fs::create_dir(folder.join("kernels")).unwrap();
        let op = &self.kernel.manifest.op;
        let own = self.kernel.member.folder.join("kernels").join(format!("{op}.h"));
        fs::copy(own, folder.join(format!("kernels/{op}.h"))).unwrap();
        let source = Utf8Path::new(ROOT).join(format!("tests/transfer-kernels/{op}.c"));
        fs::copy(source, folder.join(format!("kernels/{op}.c"))).unwrap();
        let mut kernel = self.kernel.clone();
        folder.clone_into(&mut kernel.member.folder);
        kernel.manifest.flags = vec![format!("-DKEEPS={keeps}")];
        self.compile(&kernel, keeps)
    }

    fn compile(&self, kernel: &Kernel, name: &str) -> KoptResult<Entrant> {
        let cache = Utf8Path::new(env!("CARGO_TARGET_TMPDIR")).join("transfer-kernels");
        let (revision, shown) = (name.to_owned(), name.to_owned());
        let version = Version { kernel, revision, name: name.to_owned(), shown };
        Ok(entrant::compile(&cache, &[version])?.remove(0))
    }

    /// A match of a variant with the example's own kernel.
    pub fn bout<'a>(&'a self, incumbent: &'a Entrant, candidate: &'a Entrant, shapes: &[&str]) -> Match<'a> {
        Match {
            kernel: &self.kernel,
            incumbent,
            candidate,
            shapes: shapes.iter().map(|shape| (*shape).to_owned()).collect(),
            left_out: Vec::new(),
            terms: gate::terms("default", None, false).unwrap(),
            seed: Master::secret().unwrap(),
            check: false,
            injected: Vec::new(),
            ceilings: None,
            even_if_identical: true,
            without: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// Holds a match.
    pub fn hold(&self, bout: &Match<'_>) -> Evidence {
        let (context, interrupts) = (Context::of_process().unwrap(), Interrupts::watch().unwrap());
        bout.hold(&context, &interrupts, &self.judge, &mut |_| Ok(())).unwrap()
    }

    /// Opens a bout and puts requests to the judge; what it replied.
    pub fn ask(&self, bout: &Match<'_>, requests: &[JudgeRequest]) -> Vec<JudgeReply> {
        let (context, interrupts) = (Context::of_process().unwrap(), Interrupts::watch().unwrap());
        let mut judge = Judge::start(&context, &interrupts, &self.judge, &self.kernel.member.folder).unwrap();
        let open = JudgeRequest::Open(bout.bout());
        let all = std::iter::once(&open).chain(requests);
        all.map(|request| judge.ask(request, LIMIT).unwrap()).collect()
    }
}
