//! A queue of patches: the header that each patch file starts with, and `truth.toml`, what each is really worth.

use serde::{Deserialize, Serialize};

/// What a patch of an example queue is for. Only tests and benchmarks of the tool read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Truth {
    /// Faster, and right.
    Helps,
    /// Wrong on a shape that the manifest does not list.
    Wrong,
    /// Right, and slower.
    Slower,
    /// Right, and neither faster nor slower.
    NoOp,
    /// Does not compile.
    NoBuild,
    /// Touches a file that it may not.
    Forbidden,
}

/// The `Key: value` lines before a patch's diff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchHeader {
    /// What changes.
    pub title: String,
    /// Why it should be faster.
    pub hypothesis: String,
    /// What its author expects, never used as a number.
    pub expected_gain: Option<String>,
    /// The direction it belongs to.
    pub category: Option<String>,
    /// The bucket its author claims.
    pub bucket: Option<String>,
    /// Example queues only.
    pub truth: Option<Truth>,
}

impl PatchHeader {
    /// Reads the header of a patch file: its own lines, or those of a mail as `git format-patch` writes it, whose subject is the
    /// title and whose first paragraph is the hypothesis.
    ///
    /// # Errors
    /// When a line is neither `Key: value` nor a continuation, a key is unknown, or title or hypothesis is missing.
    pub fn parse(patch: &str) -> Result<Self, String> {
        if patch.starts_with("From ") {
            return Self::of_mail(patch);
        }
        const KEYS: [&str; 6] = ["Title", "Hypothesis", "Expected-Gain", "Category", "Bucket", "Truth"];
        let mut values: [Option<String>; 6] = Default::default();
        let mut current = None;
        for line in patch.lines().take_while(|line| !line.trim().is_empty() && !line.starts_with("diff --git")) {
            if let (true, Some(index)) = (line.starts_with([' ', '\t']), current) {
                let value: &mut Option<String> = &mut values[index];
                value.get_or_insert_default().push_str(&format!(" {}", line.trim()));
                continue;
            }
            let (key, value) = line.split_once(':').ok_or_else(|| format!("`{line}` is not `Key: value`"))?;
            let index = KEYS.iter().position(|known| *known == key).ok_or_else(|| match crate::nearest(key, KEYS) {
                Some(near) => format!("unknown key `{key}`; did you mean `{near}`?"),
                None => format!("unknown key `{key}`; known: {}", KEYS.join(", ")),
            })?;
            values[index] = Some(value.trim().to_owned());
            current = Some(index);
        }
        let [title, hypothesis, expected_gain, category, bucket, truth] = values;
        let truth = truth
            .map(|word| serde_json::from_value(word.clone().into()).map_err(|_| format!("unknown truth `{word}`")))
            .transpose()?;
        Ok(Self {
            title: title.ok_or("`Title` is missing")?,
            hypothesis: hypothesis.ok_or("`Hypothesis` is missing")?,
            expected_gain,
            category,
            bucket,
            truth,
        })
    }

    fn of_mail(mail: &str) -> Result<Self, String> {
        let mut lines = mail.lines();
        let mut subject = None;
        for line in lines.by_ref().take_while(|line| !line.trim().is_empty()) {
            match (line.strip_prefix("Subject:"), &mut subject) {
                (Some(start), _) => subject = Some((start.trim().to_owned(), true)),
                (None, Some((text, true))) if line.starts_with([' ', '\t']) => {
                    text.push_str(&format!(" {}", line.trim()))
                }
                (None, Some((_, open))) => *open = false,
                (None, None) => {}
            }
        }
        let subject = subject.map(|(text, _)| text).ok_or("a mail without a `Subject`")?;
        let bare =
            subject.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(&*subject, |(_, title)| title);
        let title = bare.trim().to_owned();
        let body = lines.take_while(|line| *line != "---" && !line.starts_with("diff --git"));
        let first: Vec<&str> =
            body.map(str::trim).skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty()).collect();
        let hypothesis = if first.is_empty() { title.clone() } else { first.join(" ") };
        match title.is_empty() {
            true => Err("its `Subject` is empty".to_owned()),
            false => Ok(Self { title, hypothesis, ..Self::default() }),
        }
    }
}

/// A gain (`t_old / t_new - 1`) with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gain {
    /// The estimate.
    pub gain: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The gain at one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapeTruth {
    /// The shape's name.
    pub shape: String,
    /// The estimate.
    pub gain: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What one patch is worth on top of the helping patches before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchTruth {
    /// The patch's file name.
    pub patch: String,
    /// What it is for.
    pub truth: Truth,
    /// Pairs of fresh processes behind the figures; 0 where the patch cannot be timed.
    pub launches: usize,
    /// The day of the last of these, where it is not that of the whole queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Geometric mean over the shapes.
    pub aggregate: Option<Gain>,
    /// Each shape.
    #[serde(default)]
    pub shapes: Vec<ShapeTruth>,
}

/// What was measured of a queue on one machine: the same patch can help on one and cost on another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineTruth {
    /// The device it was measured on.
    pub device: String,
    /// The day of the last measurement.
    pub date: String,
    /// The command that made it.
    pub command: String,
    /// How the queue was another one then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// One row a patch, in the order of the queue.
    #[serde(rename = "patch")]
    pub patches: Vec<PatchTruth>,
}

/// `patches/truth.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TruthFile {
    /// Version of this format.
    pub format: u32,
    /// Each machine that the queue was measured on. The figures of the first are the ones that documents quote.
    #[serde(rename = "machine")]
    pub machines: Vec<MachineTruth>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_of_git_has_a_title_and_a_hypothesis() {
        let mail = "From 1a2b Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nSubject: [PATCH 1/2] Keep two\n sums: apart\n\n\
                    One chain waits\nfor each addition.\n\nMore.\n---\n k.c | 2 +-\n\ndiff --git a/k.c b/k.c\n";
        let header = PatchHeader::parse(mail).unwrap();
        assert_eq!(header.title, "Keep two sums: apart");
        assert_eq!(header.hypothesis, "One chain waits for each addition.");
        let bare = PatchHeader::parse("From 1a2b\nSubject: Two sums\n\n---\n").unwrap();
        assert_eq!((&*bare.title, &*bare.hypothesis), ("Two sums", "Two sums"));
        assert!(PatchHeader::parse("From 1a2b\nDate: today\n\n").unwrap_err().contains("Subject"));
        assert!(PatchHeader::parse("From 1a2b\nSubject: [PATCH]\n\n").unwrap_err().contains("empty"));
    }

    #[test]
    fn a_header_is_read_with_its_continuation_lines() {
        let header = PatchHeader::parse(
            "Title: Keep the row\nHypothesis: x is read twice,\n  once is enough\nTruth: no-op\n\ndiff --git a/x b/x\n",
        )
        .unwrap();
        assert_eq!(header.hypothesis, "x is read twice, once is enough");
        assert_eq!(header.truth, Some(Truth::NoOp));
    }

    #[test]
    fn a_header_without_a_hypothesis_or_with_a_typo_is_refused() {
        assert_eq!(PatchHeader::parse("Title: a\n\n").unwrap_err(), "`Hypothesis` is missing");
        assert!(PatchHeader::parse("Titel: a\n").unwrap_err().contains("did you mean `Title`"));
        assert!(PatchHeader::parse("Title: a\nHypothesis: b\nTruth: maybe\n").unwrap_err().contains("maybe"));
    }
}
