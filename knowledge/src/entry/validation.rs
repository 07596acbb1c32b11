//! What makes an entry invalid: empty texts, figures that cannot be, and advice that no campaign may follow.

use kopt_schema::diagnostic::{Diagnostic, Step, dotted, span_of};
use kopt_schema::expression::{Expression, ExpressionError, Type};

use super::{Applicability, Category, Entry, Evidence, Kind, Table};

/// The words that an anti-pattern of over-fitting must say.
const DO_NOT_RETRY: &str = "do not retry";

/// A measured gain below this is none: the default `min_gain` of a campaign.
const LEAST_GAIN: f64 = 0.01;

/// The parameter of grouped operators that says how rows are spread; at run time it is data.
const ROUTING: &str = "routing";

/// The entry, and everything that is wrong with it.
pub(super) fn validated(file: &str, text: &str, id: String, table: Table) -> (Entry, Vec<Diagnostic>) {
    let mut reader = Reader { file, text, findings: Vec::new() };
    let when = table.applicability.when.as_deref().and_then(|when| reader.condition(when));
    let applicability = Applicability {
        ops: table.applicability.ops,
        backends: table.applicability.backends,
        languages: table.applicability.languages,
        when,
    };
    let entry = Entry {
        id,
        kind: table.kind,
        title: table.title,
        category: table.category,
        bucket: table.bucket,
        context: table.context,
        signal: table.signal,
        takeaway: table.takeaway,
        applicability,
        evidence: table.evidence,
    };
    reader.texts(&entry);
    for (index, evidence) in entry.evidence.iter().enumerate() {
        reader.evidence(index, evidence);
    }
    reader.recommendation(&entry);
    reader.figures(&entry);
    (entry, reader.findings)
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    findings: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn wrong(&mut self, path: &[Step], message: impl Into<String>, hint: &str) {
        self.findings.push(Diagnostic::at_path(self.file, self.text, path, message).hint(hint));
    }

    fn texts(&mut self, entry: &Entry) {
        let is_id = |id: &str| {
            let parts =
                |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            id.split('-').all(parts)
        };
        if !is_id(&entry.id) {
            let message = format!("`{}` is not an id", entry.id);
            self.findings.push(Diagnostic::file(self.file, message).hint("name the file like `packed-panels.toml`"));
        }
        let signal = |key: &str| vec![Step::from("signal"), key.into()];
        for (path, text) in [
            (vec!["title".into()], &entry.title),
            (vec!["context".into()], &entry.context),
            (signal("metric"), &entry.signal.metric),
            (signal("value"), &entry.signal.value),
            (vec!["takeaway".into()], &entry.takeaway),
        ] {
            if text.trim().is_empty() {
                self.wrong(&path, "is empty", "say it in a sentence");
            }
        }
        for (index, op) in entry.applicability.ops.iter().enumerate() {
            let identifier = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if op.is_empty() || op.starts_with(|c: char| c.is_ascii_digit()) || !op.chars().all(identifier) {
                let path = ["applicability".into(), "ops".into(), index.into()];
                self.wrong(&path, format!("`{op}` is no operator"), "an operator is a C identifier such as `softmax`");
            }
        }
    }

    fn evidence(&mut self, index: usize, evidence: &Evidence) {
        let at = |key: &str| [Step::from("evidence"), index.into(), key.into()];
        for (key, text) in
            [("device", &evidence.device), ("toolchain", &evidence.toolchain), ("source", &evidence.source)]
        {
            if text.trim().is_empty() {
                self.wrong(&at(key), "is empty", "a measurement holds for what it was made with; name it");
            }
        }
        if !is_day(&evidence.date) {
            self.wrong(&at("date"), format!("`{}` is not a day", evidence.date), "write YYYY-MM-DD");
        }
        if evidence.shapes.is_empty() {
            self.wrong(&at("shapes"), "no shapes", "name those that the gain is the mean over");
        }
        if evidence.launches == 0 {
            self.wrong(&at("launches"), "nothing was launched", "leave out evidence that was not measured");
        }
        let Evidence { gain, low, high, .. } = *evidence;
        if !(-1.0 < low && low <= gain && gain <= high && high.is_finite()) {
            let message = format!("{gain} with the interval [{low}, {high}] is no gain");
            self.wrong(&at("gain"), message, "a gain is t_old / t_new - 1, above -1 and inside of its interval");
        }
    }

    /// What an entry may recommend.
    fn recommendation(&mut self, entry: &Entry) {
        let over_fitting = entry.category == Category::OverFitting;
        let to_anti_pattern = "write it down as an anti-pattern, \"do not retry\"";
        if entry.bucket.is_overfit() && !over_fitting {
            let message = format!("bucket {:?} is over-fitting", entry.bucket);
            self.wrong(&["category".into()], message, "write category = \"over-fitting\"");
        }
        match entry.kind {
            Kind::Technique => {
                if entry.bucket.is_overfit() {
                    let message = format!("a technique may not be of bucket {:?}", entry.bucket);
                    self.wrong(&["bucket".into()], message, to_anti_pattern);
                }
                if over_fitting {
                    self.wrong(&["category".into()], "over-fitting is no technique", to_anti_pattern);
                }
                if entry.applicability.when.as_ref().is_some_and(|when| when.names().contains(&ROUTING)) {
                    let path = ["applicability".into(), "when".into()];
                    self.wrong(&path, "a technique may not depend on how rows are routed", to_anti_pattern);
                }
            }
            Kind::AntiPattern => {
                let refused = over_fitting || entry.bucket.is_overfit();
                if refused && !entry.takeaway.to_lowercase().contains(DO_NOT_RETRY) {
                    let message = format!("does not say \"{DO_NOT_RETRY}\"");
                    self.wrong(&["takeaway".into()], message, "no campaign may try it again: say so");
                }
            }
        }
    }

    /// Whether the measurements are on the entry's side, on one device at least: its text tells of the others.
    fn figures(&mut self, entry: &Entry) {
        let contradicted = "a finding that contradicts an entry changes its conditions or its kind";
        match (entry.kind, entry.range_of_gains()) {
            (Kind::Technique, None) => {
                self.wrong(&["kind".into()], "a technique without evidence", "measure it, and add [[evidence]]");
            }
            (Kind::Technique, Some((_, gain))) if gain < LEAST_GAIN => {
                let message = format!("a technique, and its evidence is {:+.1} %", 100.0 * gain);
                self.wrong(&["kind".into()], message, contradicted);
            }
            (Kind::AntiPattern, Some((gain, _))) if gain >= LEAST_GAIN && entry.category != Category::OverFitting => {
                let message = format!("an anti-pattern, and its evidence is {:+.1} %", 100.0 * gain);
                self.wrong(&["kind".into()], message, contradicted);
            }
            _ => {}
        }
    }

    fn condition(&mut self, text: &str) -> Option<Expression> {
        let parsed = Expression::parse(text).and_then(|expression| {
            // Names differ by operator, and a few stand for texts. Taken as sizes they show what is no condition.
            match expression.check(&|_| Some(Type::Int), &[]) {
                Ok(found) if found != Type::Bool => {
                    let message = format!("needs a condition such as `cols > 64`, is {found}");
                    Err(ExpressionError { message, span: 0..text.len() })
                }
                _ => Ok(expression),
            }
        });
        parsed.map_err(|error| self.point(&error)).ok()
    }

    /// An error inside the condition, as a place in the file: the value starts with a quote.
    fn point(&mut self, error: &ExpressionError) {
        let path = ["applicability".into(), "when".into()];
        let start = span_of(self.text, &path).map_or(0, |span| span.start + 1);
        let span = start + error.span.start..start + error.span.end;
        let mut finding = Diagnostic::at(self.file, self.text, span, &error.message);
        finding.key = Some(dotted(&path));
        self.findings.push(finding);
    }
}

/// `2026-11-15`; whether the month has so many days is left to the clock that wrote it.
fn is_day(date: &str) -> bool {
    let digits = |part: &str| part.chars().all(|c| c.is_ascii_digit());
    let within = |part: &str, most: u32| part.parse().is_ok_and(|number: u32| (1..=most).contains(&number));
    let parts: Vec<&str> = date.split('-').collect();
    matches!(parts.as_slice(), [year, month, day]
        if parts.iter().all(|part| digits(part))
            && (year.len(), month.len(), day.len()) == (4, 2, 2)
            && within(month, 12)
            && within(day, 31))
}

#[cfg(test)]
mod tests {
    use super::super::tests::TECHNIQUE;
    use super::*;

    const OVER_FITTING: &str = r#"
kind = "anti-pattern"
title = "Remember the answer"
category = "over-fitting"
bucket = "W2"
context = "A benchmark repeats one call."
signal = { metric = "hits", value = "any" }
takeaway = "Do not retry."
"#;

    fn findings(text: &str) -> Vec<(Option<String>, String)> {
        let found = Entry::parse("an-entry.toml", text).err().unwrap_or_default();
        found.into_iter().map(|finding| (finding.key, finding.message)).collect()
    }

    /// The findings after one replacement in `text`, which must occur in it.
    fn changed(text: &str, right: &str, wrong: &str) -> Vec<(Option<String>, String)> {
        assert!(text.contains(right), "{right}");
        findings(&text.replacen(right, wrong, 1))
    }

    #[test]
    fn both_kinds_of_valid_entry_are_accepted() {
        assert_eq!(findings(TECHNIQUE), []);
        assert_eq!(findings(OVER_FITTING), []);
    }

    #[test]
    fn a_technique_that_needs_the_repetition_of_a_benchmark_is_refused() {
        for bucket in ["W2", "W3"] {
            let found = changed(TECHNIQUE, "\"K1\"", &format!("\"{bucket}\""));
            assert!(found.contains(&(Some("bucket".into()), format!("a technique may not be of bucket {bucket}"))));
        }
        let found = changed(TECHNIQUE, "data layout and movement", "over-fitting");
        assert_eq!(found, [(Some("category".into()), "over-fitting is no technique".into())]);
    }

    #[test]
    fn a_technique_for_evenly_routed_rows_is_refused() {
        let found = changed(TECHNIQUE, "rows * cols >= 8192", "routing == 'uniform'");
        assert!(!found.is_empty());
        let found = changed(TECHNIQUE, "\"rows * cols >= 8192\"", "'routing == \"uniform\"'");
        let message = "a technique may not depend on how rows are routed";
        assert_eq!(found, [(Some("applicability.when".into()), message.into())]);
    }

    #[test]
    fn over_fitting_must_say_do_not_retry_and_be_called_so() {
        let found = changed(OVER_FITTING, "Do not retry.", "Maybe later.");
        assert_eq!(found, [(Some("takeaway".into()), "does not say \"do not retry\"".into())]);
        let found = changed(OVER_FITTING, "over-fitting", "algorithm and fusion");
        assert_eq!(found, [(Some("category".into()), "bucket W2 is over-fitting".into())]);
    }

    #[test]
    fn figures_must_be_possible_and_on_the_side_of_the_entry() {
        for (right, wrong, key) in [
            ("gain = 0.21", "gain = 0.25", "evidence[0].gain"),
            ("low = 0.20", "low = nan", "evidence[0].gain"),
            ("launches = 60", "launches = 0", "evidence[0].launches"),
            ("shapes = [\"64x1024\"]", "shapes = []", "evidence[0].shapes"),
            ("2026-11-15", "15.11.2026", "evidence[0].date"),
            ("2026-11-15", "2026-13-15", "evidence[0].date"),
            ("\"a core\"", "\" \"", "evidence[0].device"),
            ("kind = \"technique\"", "kind = \"anti-pattern\"", "kind"),
        ] {
            let keys: Vec<_> = changed(TECHNIQUE, right, wrong).into_iter().filter_map(|(key, _)| key).collect();
            assert_eq!(keys, [key], "{wrong}");
        }
        let slower = changed(TECHNIQUE, "gain = 0.21\nlow = 0.20", "gain = -0.21\nlow = -0.22");
        assert_eq!(slower, [(Some("kind".into()), "a technique, and its evidence is -11.1 %".into())]);
        let elsewhere = TECHNIQUE[TECHNIQUE.find("[[evidence]]").unwrap()..].replace("a core", "another");
        let elsewhere = elsewhere.replace("gain = 0.21\nlow = 0.20", "gain = -0.41\nlow = -0.42");
        assert_eq!(findings(&format!("{TECHNIQUE}\n{elsewhere}")), [], "another device may lose");
        let unmeasured = findings(&TECHNIQUE[..TECHNIQUE.find("[[evidence]]").unwrap()]);
        assert_eq!(unmeasured, [(Some("kind".into()), "a technique without evidence".into())]);
    }

    #[test]
    fn a_condition_must_parse_and_be_one_and_is_pointed_into() {
        let shown = |condition: &str| {
            let text = TECHNIQUE.replace("rows * cols >= 8192", condition);
            Entry::parse("an-entry.toml", &text).unwrap_err()[0].to_string()
        };
        let line = TECHNIQUE.lines().position(|line| line.starts_with("when")).unwrap() + 1;
        assert!(shown("rows * cols >=").starts_with(&format!("an-entry.toml:{line}:23: `applicability.when`")));
        assert!(shown("rows * cols").contains("needs a condition such as `cols > 64`, is an integer"));
        assert_eq!(changed(TECHNIQUE, "\"rows * cols >= 8192\"", "'dtype == \"bf16\"'"), []);
    }

    #[test]
    fn texts_and_the_file_name_are_checked() {
        assert_eq!(changed(TECHNIQUE, "A large output.", " "), [(Some("context".into()), "is empty".into())]);
        let op = changed(TECHNIQUE, "\"softmax\"", "\"soft max\"");
        assert_eq!(op, [(Some("applicability.ops[0]".into()), "`soft max` is no operator".into())]);
        let named = Entry::parse("An_Entry.toml", TECHNIQUE).unwrap_err();
        assert_eq!(named[0].message, "`An_Entry` is not an id");
    }
}
