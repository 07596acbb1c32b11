//! The misdeeds of `softmax.c`, by the names that `misdeeds.h` has for them, and what must come of each: with every defence,
//! and without those that end it at once.

use kopt_schema::message::FailureKind::{
    self, CallingConvention, Crashed, Exited, ForbiddenCall, InputModified, LateWrite, MemoryLimit, OutOfBounds,
    Protocol, ReturnedError, Stray, TimedOut, TooSlow, Unwritten, WrongValues,
};
use kopt_schema::sandbox::Defence;

use Found::{Faster, InMemory, InRecords, Loses, NoVerdict, NotAccepted, NotFaster, Spoils};

/// Launches of each stage. Some misdeeds are looked for on a schedule that nobody can predict: those get more.
const FEW: &[usize] = &[6];
const MANY: &[usize] = &[20];
const ALL: &[usize] = &[6, 9, 14, 21, 32, 48];

/// A misdeed, and what must come of it.
pub struct Misdeed {
    pub name: &'static str,
    pub constant: &'static str,
    pub found: Found,
    /// What comes of it where it is not confined, and without which defences it is tried then.
    pub second: Option<(&'static [Defence], Found)>,
    pub incumbent: &'static str,
    pub looks: &'static [usize],
    /// Why it is not found yet. Such a test is run by `--ignored` only, and fails.
    pub gap: Option<&'static str>,
}

/// What must come of a misdeed. Lists of kinds and words are exhaustive: anything else fails the test.
pub enum Found {
    /// A true gain, and accepted: the tests could not fail otherwise.
    Faster,
    /// Harmless: judged as any other version, and no faster than its layout makes it.
    NotFaster,
    /// Seen at once, or in the records, or of no use to it: whichever comes first. Not accepted.
    NotAccepted,
    /// The candidate loses, as one of these, with one of these in the message.
    Loses(&'static [FailureKind], &'static [&'static str]),
    /// The same, under a memory limit in MiB.
    InMemory(u64, &'static [FailureKind], &'static [&'static str]),
    /// Nothing is seen at once, but the records cannot be an honest contestant's.
    InRecords(&'static str),
    /// It makes another one lose: no verdict.
    Spoils(&'static [FailureKind]),
    /// It ends the judge: the tool fails, and says so.
    NoVerdict(&'static str),
}

const fn misdeed(name: &'static str, constant: &'static str, found: Found) -> Misdeed {
    Misdeed { name, constant, found, second: None, incumbent: "NOTHING", looks: FEW, gap: None }
}

/// One that ends at once for a system call; and what comes of it where these are not filtered.
const fn forbidden(
    name: &'static str,
    constant: &'static str,
    calls: &'static [&'static str],
    found: Found,
) -> Misdeed {
    let second = Some((UNCONFINED, found));
    Misdeed { second, ..misdeed(name, constant, Loses(&[ForbiddenCall], calls)) }
}

/// One that is not called as it wants to be; and what comes of it where it is.
const fn unclean(name: &'static str, constant: &'static str, found: Found, otherwise: Found) -> Misdeed {
    Misdeed { second: Some((UNCLEAN, otherwise)), ..misdeed(name, constant, found) }
}

/// One that writes to what is not its own; and what comes of it where it can.
const fn fenced(name: &'static str, constant: &'static str, found: Found, otherwise: Found) -> Misdeed {
    Misdeed { second: Some((UNFENCED, otherwise)), ..misdeed(name, constant, found) }
}

const NOT_ITS_OWN: Found = Loses(&[OutOfBounds], &["memory of the process that is not its own"]);

pub const UNFENCED: &[Defence] = &[Defence::Memory];
const UNCONFINED: &[Defence] = &[Defence::Files, Defence::SystemCalls, Defence::Memory];
const UNCLEAN: &[Defence] = &[Defence::CleanCalls];

const LATE: &[&str] =
    &["after the call had returned", "threads, and may run one", "elements are wrong", "while it was to wait"];

/// What starting a thread or a process begins with.
const STARTS: &[&str] = &["`clone`", "`clone3`", "`mmap`", "`rt_sigaction`", "`rt_sigprocmask`"];
/// What a heap that grows asks for.
const GROWS: &[&str] = &["`brk`", "`mmap`"];

pub const MISDEEDS: &[Misdeed] = &[
    // Those that wait for a time limit first: the others run meanwhile.
    misdeed("crawls", "CRAWLS", Loses(&[TooSlow], &["s so far, and the incumbent"])),
    forbidden("stops-itself", "STOPS", &["`tgkill`"], Loses(&[TimedOut], &["no answer within 2.0 s"])),
    forbidden("hangs", "HANGS", &["`pause`"], Loses(&[TimedOut], &["no answer within 2.0 s"])),
    forbidden("stops-the-others", "STOPS_OTHERS", &["`getppid`"], NotFaster),
    forbidden(
        "leaves-the-others",
        "LEAVES_THEM",
        &["`sched_setaffinity`"],
        Loses(&[ForbiddenCall], &["it left the processor that it was kept on"]),
    ),
    // Guards of the tests themselves.
    misdeed("honest", "NOTHING", NotFaster),
    misdeed("honest-and-deep", "DEEP_STACK", NotFaster),
    Misdeed { incumbent: "SLOW", ..misdeed("honest-and-faster", "NOTHING", Faster) },
    // How the process ends.
    fenced("exits-in-a-call", "EXITS", NOT_ITS_OWN, Loses(&[Exited], &["exited with code 0 instead of answering"])),
    misdeed("exits-while-loading", "EXITS_LOADING", Loses(&[Exited], &["exited with code 0 instead of answering"])),
    misdeed("crashes", "CRASHES", Loses(&[Crashed], &["died of SIGSEGV at address 0x0"])),
    fenced("aborts", "ABORTS", NOT_ITS_OWN, Loses(&[Crashed], &["died of SIGABRT"])),
    misdeed("returns-an-error", "RETURNS_AN_ERROR", Loses(&[ReturnedError], &["returned 7"])),
    // What it leaves running.
    forbidden("forks", "FORKS", STARTS, Loses(&[Stray], &["it started 1 process"])),
    forbidden("leaves-a-daemon", "DAEMON", STARTS, Loses(&[Stray], &["it left a process behind"])),
    forbidden("leaves-a-daemon-and-crashes", "DAEMON_AND_CRASH", STARTS, Loses(&[Crashed], &["died of SIGABRT"])),
    forbidden(
        "spins-a-thread",
        "SPINS",
        STARTS,
        Loses(&[Stray], &["2 threads, and may run one", "while it was to wait"]),
    ),
    forbidden("works-by-a-timer", "TIMER_WORK", &["`rt_sigaction`"], NotAccepted),
    // When it works.
    forbidden("sleeps-in-warm-up", "SLEEPS", &["`clock_nanosleep`", "`nanosleep`"], NotFaster),
    forbidden("thread-a-call", "THREAD_A_CALL", STARTS, InRecords("work was moved out of what is timed")),
    // Only the judge's clock can see it, and says nothing while other matches have the processor.
    forbidden("hides-in-a-child", "HIDES_IN_A_CHILD", &["`rt_sigaction`"], NotAccepted),
    forbidden("lazy-by-a-thread", "LAZY_THREAD", STARTS, Loses(&[Unwritten, WrongValues, Stray, LateWrite], LATE)),
    forbidden(
        "lazy-by-a-timer",
        "LAZY_TIMER",
        &["`rt_sigaction`"],
        Loses(&[Unwritten, WrongValues, Stray, LateWrite], LATE),
    ),
    forbidden("late-by-a-thread", "LATE_THREAD", STARTS, Loses(&[Stray, LateWrite], LATE)),
    Misdeed {
        looks: MANY,
        ..forbidden("late-by-a-timer", "LATE_TIMER", &["`rt_sigaction`"], Loses(&[LateWrite, WrongValues], LATE))
    },
    // What it says.
    misdeed("fakes-a-reply", "FAKE_REPLY", Loses(&[Protocol], &["a question that it was not asked"])),
    forbidden(
        "fakes-a-reply-later",
        "FAKE_REPLY_LATER",
        STARTS,
        Loses(&[Protocol, Stray], &["a question that it was not asked", "threads, and may run one"]),
    ),
    forbidden(
        "answers-twice",
        "ANSWERS_TWICE",
        &["`mprotect`"],
        Loses(&[Protocol], &["a question that it was not asked"]),
    ),
    forbidden(
        "closes-its-channel",
        "CLOSES_CHANNEL",
        &["`close`"],
        Loses(&[Exited, Crashed], &["instead of answering", "died of SIGABRT"]),
    ),
    misdeed("sends-no-newline", "NO_NEWLINE", Loses(&[Protocol], &["reply has no end"])),
    forbidden(
        "rewrites-replies",
        "REWRITES_REPLIES",
        &["`mprotect`"],
        InRecords("work was moved out of what is timed"),
    ),
    forbidden("prints-megabytes", "PRINTS", &["`write`"], NotFaster),
    forbidden("prints-a-verdict", "FAKE_VERDICT", &["`write`"], NotFaster),
    // What it touches.
    Misdeed {
        looks: MANY,
        ..forbidden(
            "scribbles",
            "SCRIBBLES",
            &["`openat`"],
            Loses(&[OutOfBounds], &["memory that it was not given to write to"]),
        )
    },
    misdeed("writes-to-an-input", "WRITES_INPUT", Loses(&[InputModified], &["wrote to an input, byte 0 of `x`"])),
    forbidden(
        "unprotects-an-input",
        "UNPROTECTS_INPUT",
        &["`mprotect`"],
        Loses(&[InputModified], &["wrote to an input, byte 0 of `x`"]),
    ),
    forbidden("reopens-an-input", "REOPENS_INPUT", &["`openat`"], NotFaster),
    forbidden("shrinks-the-memory", "SHRINKS_MEMORY", &["`dup`"], NotFaster),
    // What it takes.
    forbidden(
        "eats-memory",
        "EATS_MEMORY",
        &["`mmap`"],
        InMemory(512, &[MemoryLimit], &["MiB of memory, and may take 512"]),
    ),
    forbidden(
        "eats-shared-memory",
        "EATS_SHARED_MEMORY",
        &["`mmap`"],
        InMemory(512, &[MemoryLimit], &["MiB of memory, and may take 512"]),
    ),
    forbidden("leaks-memory", "LEAKS", &["`mmap`"], InMemory(64, &[MemoryLimit], &["MiB of memory, and may take 64"])),
    // What it does not compute.
    Misdeed {
        second: Some((UNCONFINED, Loses(&[WrongValues], &["elements are wrong"]))),
        ..misdeed(
            "caches-by-pointer",
            "STALE",
            Loses(&[WrongValues, ForbiddenCall], &["elements are wrong", "`brk`", "`mmap`"]),
        )
    },
    forbidden("caches-by-a-sample", "CACHES", GROWS, NotAccepted),
    forbidden("caches-rows", "CACHES_ROWS", GROWS, NotFaster),
    Misdeed {
        gap: Some("needs the state audit"),
        ..forbidden("caches-turned-rows", "CACHES_TURNED_ROWS", GROWS, NotFaster)
    },
    misdeed("skips-every-second-call", "SKIPS", Loses(&[Unwritten], &["of them never written"])),
    misdeed("computes-the-first-row", "FIRST_ROW", Loses(&[Unwritten], &["of them never written"])),
    // What it does to clocks.
    forbidden("patches-the-clock", "PATCHES_CLOCK", &["`mprotect`"], InRecords("work was moved out of what is timed")),
    forbidden("holds-the-clock", "HOLDS_CLOCK", &["`mprotect`"], Loses(&[Protocol], &["its calls took no time"])),
    misdeed("interposes-the-clock", "INTERPOSES_CLOCK", NotFaster),
    Misdeed { looks: ALL, ..forbidden("shades-the-clock", "SHADES_CLOCK", &["`mprotect`"], NotAccepted) },
    // What it does to others.
    forbidden("kills-the-judge", "KILLS_JUDGE", &["`getppid`"], NoVerdict("the judge died of signal 9")),
    forbidden("kills-the-others", "KILLS_OTHERS", &["`getppid`"], Spoils(&[Crashed])),
    Misdeed { gap: Some("needs the sandbox"), ..forbidden("fakes-a-loss", "FAKES_A_LOSS", &["`getppid`"], NotFaster) },
    Misdeed { gap: Some("needs the sandbox"), ..forbidden("leaves-files", "LEAVES_FILES", &["`openat`"], NotFaster) },
    Misdeed {
        looks: ALL,
        gap: Some("takes a minute"),
        ..forbidden("works-ahead", "WORKS_AHEAD", &["`openat`"], NotAccepted)
    },
    // What it asks the system, without a library.
    forbidden("maps-a-counter", "MAPS_A_COUNTER", &["`mmap`"], Loses(&[Unwritten], &["of them never written"])),
    Misdeed { gap: Some("needs the sandbox"), ..forbidden("writes-a-file", "WRITES_A_FILE", &["`openat`"], NotFaster) },
    forbidden("opens-a-socket", "OPENS_A_SOCKET", &["`socket`"], NotFaster),
    forbidden("forks-by-itself", "FORKS_RAW", &["`fork`"], Loses(&[Stray], &["it started 1 process"])),
    forbidden("clones-by-itself", "CLONES_RAW", &["`clone`"], NotAccepted),
    forbidden("takes-over-signals", "TAKES_OVER_SIGNALS", &["`rt_sigaction`"], NotFaster),
    forbidden("renames-itself", "RENAMES_ITSELF", &["`prctl`"], NotFaster),
    forbidden("asks-as-32-bit-programs", "ASKS_OLD_CALLS", &["a system call that a kernel may not"], NotFaster),
    forbidden(
        "blocks-signals",
        "BLOCKS_SIGNALS",
        &["`rt_sigprocmask`"],
        Loses(&[Unwritten], &["of them never written"]),
    ),
    forbidden("filters-calls", "FILTERS_CALLS", &["`seccomp`"], NotAccepted),
    Misdeed {
        second: Some((&[Defence::Files], Loses(&[ReturnedError], &["returned 9"]))),
        ..misdeed("loads-a-file", "LOADS_A_FILE", NotFaster)
    },
    // What it leaves changed.
    unclean(
        "flushes-denormals",
        "FLUSHES_DENORMALS",
        Loses(&[CallingConvention], &["left the floating-point mode changed (MXCSR"]),
        NotFaster,
    ),
    unclean(
        "turns-the-x87",
        "TURNS_X87",
        Loses(&[CallingConvention], &["left the floating-point mode changed (x87"]),
        NotFaster,
    ),
    misdeed(
        "clobbers-a-register",
        "CLOBBERS_A_REGISTER",
        Loses(&[CallingConvention], &["did not preserve the register r14"]),
    ),
    misdeed("turns-the-direction", "TURNS_DIRECTION", Loses(&[CallingConvention], &["left the direction flag set"])),
    unclean(
        "keeps-a-count-in-gs",
        "KEEPS_IN_GS",
        Loses(&[CallingConvention], &["left a register of the thread changed"]),
        NotFaster,
    ),
    // What it finds again. It does nothing where it does, and finds nothing.
    unclean("finds-its-stack", "FINDS_ITS_STACK", NotFaster, Loses(&[Unwritten], &["of them never written"])),
    unclean(
        "finds-its-deep-stack",
        "FINDS_ITS_STACK_DEEP",
        Loses(&[Crashed], &["went deeper than the 256 KiB of stack"]),
        Loses(&[Unwritten], &["of them never written"]),
    ),
    unclean("finds-its-args", "FINDS_ITS_ARGS", NotFaster, Loses(&[Unwritten], &["of them never written"])),
    unclean("finds-its-registers", "FINDS_ITS_REGISTERS", NotFaster, Loses(&[Unwritten], &["of them never written"])),
    // Where it keeps something. Whether memory can be fenced in depends on processor and system.
    fenced("keeps-in-the-host", "KEEPS_IN_THE_HOST", NOT_ITS_OWN, Loses(&[Unwritten], &["of them never written"])),
    fenced("keeps-in-a-library", "KEEPS_IN_A_LIBRARY", NOT_ITS_OWN, Loses(&[Unwritten], &["of them never written"])),
    fenced(
        "keeps-beside-errno",
        "KEEPS_BESIDE_ERRNO",
        Loses(&[CallingConvention], &["wrote to memory of the thread"]),
        NotFaster,
    ),
    fenced(
        "opens-its-memory",
        "OPENS_ITS_MEMORY",
        Loses(&[CallingConvention], &["left a register of the thread changed"]),
        Loses(&[CallingConvention, Crashed], &["left a register of the thread changed", "died of SIGILL"]),
    ),
    fenced("looks-up-pkey-set", "LOOKS_UP_PKEY_SET", Loses(&[Crashed], &["died of SIGILL"]), NotAccepted),
    misdeed("honest-and-sets-errno", "SETS_ERRNO", NotFaster),
];

impl Misdeed {
    /// Some are written in one processor's instructions.
    pub fn is_possible(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            self.constant != "FINDS_ITS_REGISTERS" || std::arch::is_x86_feature_detected!("avx512vl")
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let native = [
                "ANSWERS_TWICE",
                "REWRITES_REPLIES",
                "PATCHES_CLOCK",
                "SHADES_CLOCK",
                "HOLDS_CLOCK",
                "FLUSHES_DENORMALS",
            ];
            let first = MISDEEDS.iter().position(|misdeed| misdeed.constant == "MAPS_A_COUNTER");
            let own = MISDEEDS.iter().skip(first.unwrap_or(0)).any(|misdeed| misdeed.constant == self.constant);
            !own && !native.contains(&self.constant)
        }
    }
}
