//! Pages in a real browser: that plots are drawn, that nothing is asked for and nothing complained of, that words of
//! strangers stay words, and that everything can be read on a phone, at a desk, in light and in dark.
//!
//! It needs Chromium; without it every test is ignored and says so. Pictures of the pages are left in `target/tmp/browser`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod devtools;
#[path = "../support/history.rs"]
mod history;
#[allow(dead_code, reason = "shared with the tests of the gate")]
#[path = "../gate/stage.rs"]
mod requests;
#[allow(dead_code, reason = "shared with the tests of other commands")]
#[path = "../cli/sandbox.rs"]
mod sandbox;
#[allow(dead_code, reason = "shared with the tests of campaigns")]
#[path = "../campaign/stage.rs"]
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use devtools::Browser;
use libtest_mimic::{Arguments, Completion, Trial};
use stage::{Queue, Stage, header};

/// Widths of a phone and of a desk.
const WIDTHS: [u32; 2] = [390, 1280];

/// What would break out if it could.
const HOSTILE: &str =
    "<script>window.broken = 1</script><img src=http://example.org/x onerror='window.broken = 1'>\"><svg/onload=1>";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let program = devtools::installed();
    type Check = fn(&Path, &Pages);
    let checks: [(&'static str, Check); 4] = [
        ("what_is_wrong_with_a_page_is_seen", what_is_wrong_with_a_page_is_seen),
        ("a_campaign_can_be_read_anywhere", a_campaign_can_be_read_anywhere),
        ("a_comparison_can_be_read_anywhere", a_comparison_can_be_read_anywhere),
        ("a_gate_can_be_read_anywhere", a_gate_can_be_read_anywhere),
    ];
    let pages = Arc::new(LazyLock::new(Pages::make as fn() -> Pages));
    let trials = checks.into_iter().map(|(name, check)| {
        let (program, pages) = (program.clone(), Arc::clone(&pages));
        Trial::ignorable_test(name, move || match &program {
            Some(program) => {
                check(program, &pages);
                Ok(Completion::Completed)
            }
            None => Ok(Completion::ignored_with("Chromium is not installed")),
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Pages as the tool makes them.
struct Pages {
    _stage: Stage,
    folder: PathBuf,
}

impl Pages {
    /// A campaign of the real binary, with every kind of round and with words that try to break out.
    fn make() -> Self {
        let stage = Stage::new();
        let mut queue = Queue::new(&stage);
        queue
            .gains(&header("Vectorise the loop", "Eight lanes do the work of one."), "TIME=1.000", "TIME=0.900")
            .tries(&header("Prefetch the next row", "Rows are read twice."), "TIME=0.900", "TIME=0.990")
            .tries(&header("Drop the return", "Nobody looks at it."), "return 0;", "return zero;")
            .tries(&header(HOSTILE, HOSTILE), "TIME=0.900", "TIME=0.901")
            .gains(&header("Fuse both passes", "Memory is read once."), "TIME=0.900", "TIME=0.800");
        let folder = queue.folder().to_owned();
        stage.optimize(&["--patches", &folder]).exits(0).says("cargo kopt report");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
        fs::create_dir_all(&folder).unwrap();
        let campaign = folder.join("campaign.html");
        stage.kopt(&["report", "--html", campaign.to_str().unwrap()]).exits(0);
        stage.kopt(&["report", "--html"]).exits(0).says("report.html");
        assert_eq!(fs::read(&campaign).unwrap(), fs::read(stage.last().path("report.html")).unwrap());
        let evidence = stage.last().path("evidence-total.json");
        let comparison = folder.join("comparison.html");
        let arguments = ["verdict", evidence.to_str().unwrap(), "--html", comparison.to_str().unwrap()];
        stage.kopt(&arguments).exits(0).says("comparison.html");
        gate(&folder.join("gate.html"));
        Self { _stage: stage, folder }
    }

    fn page(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// A gate with every kind of kernel that has something to show: one slower and allowed by hostile words, one with code that
/// the audit refuses, one faster, one new.
fn gate(page: &Path) {
    let stage = requests::Stage::new();
    stage.add("delta");
    stage.commit("three");
    let message = format!("Slower\n\nKopt-Allow: alpha {HOSTILE}\n");
    let head = stage.request(&message, |stage| {
        stage.edit(requests::ALPHA, requests::MARK, "TIME=1.000;tall=1.300;");
        stage.edit(requests::BETA, "    return 0;", "    static volatile int calls;\n    calls++;\n    return 0;");
        stage.edit("crates/delta/kernels/softmax.c", requests::MARK, "TIME=0.900;");
        stage.add("gamma");
    });
    let arguments = ["--html", page.to_str().unwrap()];
    stage.gate(&head, &arguments).exits(106).says("gate.html").says("alpha slower, allowed");
}

/// The test itself can fail: a page that does everything wrong is caught in each point.
fn what_is_wrong_with_a_page_is_seen(program: &Path, pages: &Pages) {
    let page = pages.page("wrong.html");
    let text = "<!DOCTYPE html><meta name=viewport content='width=device-width'><body><p style='color:#aaa'>faint</p>
        <svg viewBox='0 0 100 10' width=100><text x=95 y=8>cut off here</text></svg><div style='width:3000px'>wide</div>
        <img src='http://127.0.0.1:9/picture.png'><script>console.error('no')</script>";
    fs::write(&page, text).unwrap();
    let mut browser = Browser::start(program);
    browser.open(&page, 390, false);
    assert!(browser.requests.iter().any(|url| url.contains("picture.png")), "{:?}", browser.requests);
    assert!(!browser.complaints.is_empty());
    assert!(browser.evaluate(OVERFLOW).as_f64().unwrap() > 1000.0);
    assert_ne!(browser.evaluate(CUT_OFF), serde_json::json!([]));
    assert_ne!(browser.evaluate(FAINT), serde_json::json!([]));
}

fn a_campaign_can_be_read_anywhere(program: &Path, pages: &Pages) {
    let mut browser = Browser::start(program);
    let page = pages.page("campaign.html");
    for width in WIDTHS {
        for dark in [false, true] {
            is_readable(&mut browser, &page, width, dark);
            // Score, heat map, and four for the whole, the baseline and the three rounds that were measured.
            let plots = browser.evaluate("document.querySelectorAll('svg').length").as_u64().unwrap();
            assert!(plots >= 2 + 3 * 4, "{plots} plots");
            assert_eq!(
                browser.evaluate(
                    "window.broken === undefined && document.scripts.length === 0 && !document.querySelector('img')"
                ),
                true
            );
            let shown = browser.evaluate("document.body.textContent.includes('<script>window.broken = 1</script>')");
            assert_eq!(shown, true, "a stranger's words are shown as they are");
        }
    }
    // A point leads to its round, and opens it.
    browser.open(&page, 1280, false);
    let opened = "(async () => { document.querySelector('svg a[href=\"#round-2\"]').dispatchEvent(new MouseEvent('click', \
                  {bubbles: true, cancelable: true})); await new Promise(done => setTimeout(done, 200)); \
                  return document.getElementById('round-2').closest('details').open; })()";
    assert_eq!(browser.evaluate(opened), true);
    let reached = "[...document.querySelectorAll('svg a')].every(link => { link.focus(); return document.activeElement === link; })";
    assert_eq!(browser.evaluate(reached), true, "every point is reached by keyboard");
}

fn a_comparison_can_be_read_anywhere(program: &Path, pages: &Pages) {
    let mut browser = Browser::start(program);
    for width in WIDTHS {
        for dark in [false, true] {
            is_readable(&mut browser, &pages.page("comparison.html"), width, dark);
            assert_eq!(browser.evaluate("document.querySelectorAll('svg').length"), 4);
        }
    }
}

fn a_gate_can_be_read_anywhere(program: &Path, pages: &Pages) {
    let mut browser = Browser::start(program);
    for width in WIDTHS {
        for dark in [false, true] {
            is_readable(&mut browser, &pages.page("gate.html"), width, dark);
            let plots = browser.evaluate("document.querySelectorAll('svg').length").as_u64().unwrap();
            assert_eq!(plots, 2 * 4, "intervals, launches, ceiling and roofline of the two that were timed");
            assert_eq!(browser.evaluate("document.querySelectorAll('section').length"), 4, "one for each kernel");
            let shown = "document.body.textContent.includes('<script>window.broken = 1</script>') && !window.broken";
            assert_eq!(browser.evaluate(shown), true, "words of a commit are shown as they are");
        }
    }
    let lead =
        "[...document.querySelectorAll('table a')].every(link => document.querySelector(link.getAttribute('href')))";
    assert_eq!(browser.evaluate(lead), true, "every kernel leads to its section");
}

/// What every page must be, folded and with everything opened.
fn is_readable(browser: &mut Browser, page: &Path, width: u32, dark: bool) {
    browser.open(page, width, dark);
    let about = format!("{} at {width}, dark: {dark}", page.display());
    let ground = browser.evaluate("getComputedStyle(document.body).backgroundColor").to_string();
    assert_eq!(ground.contains("255, 255, 255"), !dark, "{about}: {ground}");
    let name = page.file_stem().unwrap().to_str().unwrap();
    let picture = format!("{name}-{width}-{}.png", if dark { "dark" } else { "light" });
    fs::write(page.with_file_name(picture), base64(&browser.picture())).unwrap();
    for opened in [false, true] {
        if opened {
            browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)");
        }
        let over = browser.evaluate(OVERFLOW).as_f64().unwrap();
        assert!(over <= 0.0, "{about}, opened: {opened}: {over} px too wide");
        assert_eq!(browser.evaluate(CUT_OFF), serde_json::json!([]), "{about}: words that leave their plot");
        assert_eq!(browser.evaluate(COVERED), serde_json::json!([]), "{about}: words that cover each other");
    }
    assert_eq!(browser.evaluate(FAINT), serde_json::json!([]), "{about}: words that are hard to see");
    let empty = "[...document.querySelectorAll('svg')].filter(one => one.getBoundingClientRect().height < 40).length";
    assert_eq!(browser.evaluate(empty), 0, "{about}: a plot without height");
    let asked: Vec<&String> =
        browser.requests.iter().filter(|url| !url.starts_with("file://") && !url.starts_with("data:")).collect();
    assert!(asked.is_empty(), "{about}: requests {asked:?}");
    assert!(browser.requests.iter().filter(|url| url.starts_with("file://")).count() <= 1, "{:?}", browser.requests);
    assert!(browser.complaints.is_empty(), "{about}: {:?}", browser.complaints);
}

/// Pixels by which the page is wider than the window.
const OVERFLOW: &str = "document.documentElement.scrollWidth - window.innerWidth";

/// Words of plots that do not lie within them.
const CUT_OFF: &str = "[...document.querySelectorAll('svg')].flatMap(svg => { const box = svg.getBoundingClientRect(); \
    return [...svg.querySelectorAll('text')].filter(text => { const own = text.getBoundingClientRect(); \
    return own.width > 0 && (own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 2 || own.bottom > box.bottom + 2); \
    }).map(text => text.textContent); })";

/// Words of plots that lie on each other, by more than a hair.
const COVERED: &str = "[...document.querySelectorAll('svg')].flatMap(svg => { \
    const all = [...svg.querySelectorAll('text')].filter(text => !text.getAttribute('transform')) \
    .map(text => [text.textContent, text.getBoundingClientRect()]).filter(([, box]) => box.width > 0); \
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width; \
    return all.flatMap(([a, one], at) => all.slice(at + 1).filter(([, two]) => \
    Math.min(one.right, two.right) - Math.max(one.left, two.left) > 1 && \
    Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top) > 5 * scale).map(([b]) => a + ' | ' + b)); })";

/// Words whose contrast with what is behind them is below 4.5, outside of plots.
const FAINT: &str = "(() => { const numbers = colour => colour.match(/[\\d.]+/g).map(Number); \
    const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); \
    return 0.2126 * x + 0.7152 * y + 0.0722 * z; }; \
    const behind = one => { for (let at = one; at; at = at.parentElement) { const c = numbers(getComputedStyle(at).backgroundColor); \
    if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; }; \
    const found = new Set(); \
    for (const one of document.querySelectorAll('p, a, li, td, th, dt, dd, summary, figcaption, code, pre, .badge, .card b, .card span')) { \
    if (one.closest('svg')) continue; \
    const [a, b] = [light(numbers(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x); \
    if ((a + 0.05) / (b + 0.05) < 4.5) found.add(one.tagName + '.' + one.className); } return [...found]; })()";

/// Bytes of a picture.
fn base64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let letters: Vec<u8> = text.bytes().filter(|letter| *letter != b'=').map(value).collect();
    let bytes = letters.chunks(4).flat_map(|four| {
        let group = four.iter().fold(0u32, |group, six| group << 6 | u32::from(*six)) << (6 * (4 - four.len()));
        group.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}
