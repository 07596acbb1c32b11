//! What an agent says in its standard output: what it used, and its last words. Agents print one JSON object, or one a
//! line among other text, each in its own form. This looks for the few names they share, and finds nothing rather than
//! fail.

use kopt_schema::campaign::event::Usage;
use serde_json::Value;

/// Names of costs; the first is a total.
const COSTS: [&str; 2] = ["total_cost_usd", "cost_usd"];
/// Tokens that were read; some count those that came from a cache apart.
const READ: [&str; 3] = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
const WRITTEN: &str = "output_tokens";

/// What was found in an output.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Heard {
    /// What it used, where it says so.
    pub usage: Option<Usage>,
    /// What it said last.
    pub words: Option<String>,
}

/// Looks through `output`.
pub fn hear(output: &str) -> Heard {
    let mut sum = Usage::default();
    let mut total = Usage::default();
    let mut words = None;
    let mut take = |value: &Value| {
        let found = usage(value);
        // A line that tells a result, or a total, has the figures of the whole run.
        if value.get("type").and_then(Value::as_str) == Some("result") || value.get(COSTS[0]).is_some() {
            total = Usage {
                cost_usd: found.cost_usd.or(total.cost_usd),
                input_tokens: found.input_tokens.or(total.input_tokens),
                output_tokens: found.output_tokens.or(total.output_tokens),
            };
        } else {
            sum = Usage {
                cost_usd: added(sum.cost_usd, found.cost_usd, |a, b| (a + b).min(f64::MAX)),
                input_tokens: added(sum.input_tokens, found.input_tokens, u64::saturating_add),
                output_tokens: added(sum.output_tokens, found.output_tokens, u64::saturating_add),
            };
        }
        if let Some(said) = said(value) {
            words = Some(said.to_owned());
        }
    };
    match serde_json::from_str(output.trim()) {
        // Some print all their lines as one list.
        Ok(Value::Array(values)) => values.iter().for_each(&mut take),
        Ok(value) => take(&value),
        Err(_) => {
            output.lines().filter_map(|line| serde_json::from_str(line.trim()).ok()).for_each(|value| take(&value))
        }
    }
    let usage = Usage {
        cost_usd: total.cost_usd.or(sum.cost_usd),
        input_tokens: total.input_tokens.or(sum.input_tokens),
        output_tokens: total.output_tokens.or(sum.output_tokens),
    };
    Heard { usage: Some(usage).filter(|usage| *usage != Usage::default()), words }
}

/// The figures of one object, at its top or below.
fn usage(value: &Value) -> Usage {
    // What is no amount of money is not told; the ledger could not hold it.
    let amount = |cost: &f64| cost.is_finite() && *cost >= 0.0;
    let cost = COSTS.iter().find_map(|name| within(value, &|inner| inner.get(name)?.as_f64().filter(amount)));
    let tokens = within(value, &|inner| {
        let read: Vec<u64> = READ.iter().filter_map(|name| inner.get(name)?.as_u64()).collect();
        let written = inner.get(WRITTEN).and_then(Value::as_u64);
        let read = (!read.is_empty()).then(|| read.into_iter().fold(0, u64::saturating_add));
        (read.is_some() || written.is_some()).then_some((read, written))
    });
    let (input_tokens, output_tokens) = tokens.unwrap_or_default();
    Usage { cost_usd: cost, input_tokens, output_tokens }
}

/// The first thing that `find` finds in an object or in those inside it, its field `usage` before the others.
fn within<T>(value: &Value, find: &impl Fn(&Value) -> Option<T>) -> Option<T> {
    match value {
        Value::Object(fields) => find(value)
            .or_else(|| fields.get("usage").and_then(|inner| within(inner, find)))
            .or_else(|| fields.values().find_map(|inner| within(inner, find))),
        Value::Array(values) => values.iter().find_map(|inner| within(inner, find)),
        _ => None,
    }
}

/// The text of a result, or of a message of the agent.
fn said(value: &Value) -> Option<&str> {
    if let Some(result) = value.get("result").and_then(Value::as_str) {
        return Some(result);
    }
    let item = value.get("item")?;
    let kind = item.get("type").or_else(|| item.get("item_type"))?.as_str()?;
    ["agent_message", "assistant_message"].contains(&kind).then(|| item.get("text")?.as_str())?
}

fn added<T>(sum: Option<T>, more: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
    match (sum, more) {
        (Some(sum), Some(more)) => Some(add(sum, more)),
        (sum, more) => sum.or(more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(output: &str) -> Option<(Option<f64>, Option<u64>, Option<u64>)> {
        hear(output).usage.map(|usage| (usage.cost_usd, usage.input_tokens, usage.output_tokens))
    }

    #[test]
    fn one_object_is_taken_as_it_is() {
        let output = r#"{"type": "result", "result": "Done.\nMore", "total_cost_usd": 0.25,
            "usage": {"input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 7, "server": {"output_tokens": 9}}}"#;
        assert_eq!(used(output), Some((Some(0.25), Some(105), Some(7))));
        assert_eq!(hear(output).words.as_deref(), Some("Done.\nMore"));
    }

    #[test]
    fn lines_are_summed_unless_one_tells_the_total() {
        let lines = "starting\n{\"message\": {\"usage\": {\"input_tokens\": 10, \"output_tokens\": 1}}}\n\
                     {\"usage\": {\"input_tokens\": 20, \"output_tokens\": 2}, \"cost_usd\": 0.5}\n{\"cost_usd\": 0.25}\n";
        assert_eq!(used(lines), Some((Some(0.75), Some(30), Some(3))));
        let total = format!("{lines}{}", r#"{"type": "result", "total_cost_usd": 2, "usage": {"output_tokens": 4}}"#);
        assert_eq!(used(&total), Some((Some(2.0), Some(30), Some(4))));
    }

    #[test]
    fn events_of_turns_are_understood() {
        let lines = "{\"type\":\"thread.started\"}\n\
            {\"type\":\"item.completed\",\"item\":{\"id\":\"0\",\"type\":\"reasoning\",\"text\":\"hm\"}}\n\
            {\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"agent_message\",\"text\":\"Unrolled it\"}}\n\
            {\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":24763,\"cached_input_tokens\":24448,\"output_tokens\":122}}\n";
        assert_eq!(used(lines), Some((None, Some(24763), Some(122))));
        assert_eq!(hear(lines).words.as_deref(), Some("Unrolled it"));
    }

    #[test]
    fn nonsense_is_nothing() {
        let deep = "[".repeat(100_000);
        let odd = r#"{"cost_usd": -1, "usage": {"input_tokens": -5, "output_tokens": "many"}, "result": 3}"#;
        for output in ["", "no json", "3", "null", "{", odd, deep.as_str(), "{\"usage\": []}\n\u{0}\n"] {
            assert_eq!(hear(output), Heard::default(), "{}", &output[..output.len().min(40)]);
        }
    }

    #[test]
    fn costs_add_up_to_something_that_can_be_written_down() {
        let (cost, _, _) = used("{\"cost_usd\": 1e308}\n{\"cost_usd\": 1e308}\n").unwrap();
        assert_eq!(cost, Some(f64::MAX));
        assert_eq!(used("{\"cost_usd\": 1e999}\n{\"total_cost_usd\": -1}\n"), None);
    }
}
