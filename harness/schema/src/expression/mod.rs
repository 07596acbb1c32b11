//! One small expression language for launch plans, knob constraints and conditions.
//!
//! ```text
//! ceil_div(rows, 4) * (cols <= 1024 ? 1 : 2)
//! dtype == "bf16" && cols % 8 == 0
//! ```
//!
//! 64-bit integers, booleans and texts; `+ - * / %`, comparisons, `&& || !`, `c ? a : b`, and the functions of
//! [`FUNCTIONS`]. Division truncates. Overflow and division by zero are errors, not values. Every error carries the
//! bytes it is about, so that a message can point into the file the expression stands in.

mod eval;
mod parser;

use std::fmt;
use std::ops::Range;

use crate::spelling::nearest;

/// What an expression can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A text, such as a dtype's name.
    Text(String),
}

/// The type of a [`Value`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// An integer.
    Int,
    /// A truth value.
    Bool,
    /// A text.
    Text,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Int => "an integer",
            Self::Bool => "a condition",
            Self::Text => "a text",
        })
    }
}

/// Functions and their number of arguments (the least; `min` and `max` take more).
pub const FUNCTIONS: [(&str, usize); 5] = [("min", 2), ("max", 2), ("ceil_div", 2), ("align_up", 2), ("next_pow2", 1)];

/// What is wrong with an expression, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExpressionError {
    /// What is wrong.
    pub message: String,
    /// The bytes of the expression that are meant.
    pub span: Range<usize>,
}

/// The names an expression may use.
pub trait Scope {
    /// The value of a name.
    fn value(&self, name: &str) -> Option<Value>;
    /// All names, for hints.
    fn names(&self) -> Vec<String>;
}

impl Scope for std::collections::BTreeMap<String, Value> {
    fn value(&self, name: &str) -> Option<Value> {
        self.get(name).cloned()
    }
    fn names(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }
}

/// A parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    text: String,
    root: Node,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    span: Range<usize>,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Literal(Value),
    Name(String),
    Unary(Operator, Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Choice(Box<Node>, Box<Node>, Box<Node>),
    Call(String, Vec<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Not,
}

impl Expression {
    /// Parses a text.
    ///
    /// # Errors
    /// When the text is not an expression.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        Ok(Self { text: text.to_owned(), root: parser::parse(text)? })
    }

    /// The expression as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Every name it uses.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        fn collect<'a>(node: &'a Node, into: &mut Vec<&'a str>) {
            match &node.kind {
                Kind::Literal(_) => {}
                Kind::Name(name) => into.push(name),
                Kind::Unary(_, a) => collect(a, into),
                Kind::Binary(_, a, b) => [a, b].into_iter().for_each(|node| collect(node, into)),
                Kind::Choice(a, b, c) => [a, b, c].into_iter().for_each(|node| collect(node, into)),
                Kind::Call(_, arguments) => arguments.iter().for_each(|node| collect(node, into)),
            }
        }
        let mut names = Vec::new();
        collect(&self.root, &mut names);
        names
    }

    /// Its type, given the types of the names. Finds unknown names and mixed types without any value.
    ///
    /// # Errors
    /// When a name is unknown or an operator is given what it cannot take.
    pub fn check(&self, types: &dyn Fn(&str) -> Option<Type>, names: &[String]) -> Result<Type, ExpressionError> {
        eval::type_of(&self.root, types, names)
    }

    /// Its value.
    ///
    /// # Errors
    /// When a name is unknown, types do not fit, or arithmetic overflows or divides by zero.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Value, ExpressionError> {
        eval::value_of(&self.root, scope)
    }

    /// Its value, which must be an integer.
    ///
    /// # Errors
    /// As [`Self::evaluate`], and when the value is no integer.
    pub fn integer(&self, scope: &dyn Scope) -> Result<i64, ExpressionError> {
        match self.evaluate(scope)? {
            Value::Int(value) => Ok(value),
            other => Err(self.whole(format!("needs an integer, is {}", other.type_of()))),
        }
    }

    /// Its value, which must be a condition.
    ///
    /// # Errors
    /// As [`Self::evaluate`], and when the value is no condition.
    pub fn condition(&self, scope: &dyn Scope) -> Result<bool, ExpressionError> {
        match self.evaluate(scope)? {
            Value::Bool(value) => Ok(value),
            other => Err(self.whole(format!("needs a condition such as `cols > 64`, is {}", other.type_of()))),
        }
    }

    fn whole(&self, message: String) -> ExpressionError {
        ExpressionError { message, span: 0..self.text.len() }
    }
}

impl Value {
    /// The type of this value.
    #[must_use]
    pub const fn type_of(&self) -> Type {
        match self {
            Self::Int(_) => Type::Int,
            Self::Bool(_) => Type::Bool,
            Self::Text(_) => Type::Text,
        }
    }
}

fn unknown(what: &str, name: &str, names: &[String], span: Range<usize>) -> ExpressionError {
    let hint = match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", names.join(", ")),
    };
    ExpressionError { message: format!("unknown {what} `{name}`; {hint}"), span }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scope() -> std::collections::BTreeMap<String, Value> {
        [
            ("rows".to_owned(), Value::Int(7)),
            ("cols".to_owned(), Value::Int(1000)),
            ("dtype".to_owned(), Value::Text("f32".to_owned())),
        ]
        .into()
    }

    fn eval(text: &str) -> Result<Value, ExpressionError> {
        Expression::parse(text)?.evaluate(&scope())
    }

    #[test]
    fn precedence_and_functions_follow_c() {
        for (text, value) in [
            ("1 + 2 * 3", 7),
            ("(1 + 2) * 3", 9),
            ("10 - 4 - 3", 3),
            ("-rows + 10", 3),
            ("ceil_div(cols, 256) * 2", 8),
            ("align_up(cols, 64)", 1024),
            ("next_pow2(cols)", 1024),
            ("min(3, 1, 2) + max(3, 1, 2)", 4),
            ("cols <= 1024 ? 1 : 2", 1),
            ("rows > 7 ? 1 : rows == 7 ? 2 : 3", 2),
            ("cols % 7", 6),
        ] {
            assert_eq!(eval(text), Ok(Value::Int(value)), "{text}");
        }
        assert_eq!(eval("dtype == \"f32\" && !(rows != 7)"), Ok(Value::Bool(true)));
        assert_eq!(eval("rows == 0 || cols >= 1000"), Ok(Value::Bool(true)));
    }

    #[test]
    fn the_untaken_side_is_not_computed() {
        assert_eq!(eval("rows == 0 ? 1 / 0 : 5"), Ok(Value::Int(5)));
        assert_eq!(eval("rows == 0 && 1 / 0 == 1"), Ok(Value::Bool(false)));
    }

    #[test]
    fn errors_say_what_and_where() {
        for (text, message, span) in [
            ("rosw + 1", "unknown name `rosw`; did you mean `rows`?", 0..4),
            ("rows +", "the expression ends here, a value is missing", 6..6),
            ("rows / 0", "division by zero", 0..8),
            ("9223372036854775807 + 1", "overflows 64 bits", 0..23),
            ("ceil_dvi(1, 2)", "unknown function `ceil_dvi`; did you mean `ceil_div`?", 0..8),
            ("ceil_div(1)", "`ceil_div` takes 2 arguments, not 1", 0..11),
            ("rows && 1", "`&&` takes conditions, this is an integer", 0..4),
            ("rows $ 1", "unexpected `$`", 5..6),
            ("(rows", "`)` is missing", 5..5),
            ("rows rows", "unexpected `rows` after the expression", 5..9),
            ("dtype == 3", "cannot compare a text with an integer", 0..10),
            ("99999999999999999999", "the number does not fit 64 bits", 0..20),
            ("\"f32", "the text is not closed", 0..4),
        ] {
            assert_eq!(eval(text), Err(ExpressionError { message: message.to_owned(), span }), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_not_overflowed() {
        let text = "(".repeat(100_000);
        assert_eq!(eval(&text).unwrap_err().message, "nested too deeply");
        let text = format!("{}1", "-".repeat(100_000));
        assert_eq!(eval(&text).unwrap_err().message, "nested too deeply");
        let text = format!("1{}", " + 1".repeat(100_000));
        assert_eq!(eval(&text).unwrap_err().message, "more than 100 operators");
        assert_eq!(eval(&format!("1{}", " + 1".repeat(100))), Ok(Value::Int(101)));
    }

    #[test]
    fn types_are_checked_without_values() {
        let names = ["rows".to_owned()];
        let types = |name: &str| (name == "rows").then_some(Type::Int);
        let check = |text: &str| Expression::parse(text).unwrap().check(&types, &names);
        assert_eq!(check("rows > 3 ? rows : 1"), Ok(Type::Int));
        assert_eq!(check("rows == 1"), Ok(Type::Bool));
        assert!(check("rows ? 1 : 2").is_err());
        assert!(check("rows > 0 ? 1 : \"a\"").is_err());
        assert!(check("cols").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            let _ = eval(&text);
        }

        #[test]
        fn sums_agree_with_rust(a in -1000i64..1000, b in -1000i64..1000, c in 1i64..1000) {
            prop_assert_eq!(eval(&format!("({a}) * ({b}) + ({a}) / {c} - ({b}) % {c}")), Ok(Value::Int(a * b + a / c - b % c)));
        }
    }
}
