//! Text to tree: a lexer and a precedence climber.

use std::ops::Range;

use super::{ExpressionError, FUNCTIONS, Kind, Node, Operator, Value, unknown};

/// Deep enough for anything a person writes, shallow enough for any stack.
const DEEPEST: usize = 64;

/// Operators of an expression at most: a chain of them is as deep as it is long.
const MOST: usize = 100;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Literal(Value),
    Name(String),
    Symbol(&'static str),
}

// Longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 20] =
    ["&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", "(", ")", ",", "="];

pub(super) fn parse(text: &str) -> Result<Node, ExpressionError> {
    let tokens = lex(text)?;
    let mut parser = Parser { text, tokens: &tokens, at: 0, depth: 0, operators: 0 };
    let node = parser.choice()?;
    match parser.tokens.get(parser.at) {
        None => Ok(node),
        Some((_, span)) => {
            Err(error(format!("unexpected `{}` after the expression", &text[span.clone()]), span.clone()))
        }
    }
}

fn error(message: impl Into<String>, span: Range<usize>) -> ExpressionError {
    ExpressionError { message: message.into(), span }
}

fn lex(text: &str) -> Result<Vec<(Token, Range<usize>)>, ExpressionError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length_while = |keep: fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
        let (token, length) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if first.is_ascii_digit() {
            let length = length_while(|c| c.is_ascii_digit() || c == '_');
            let digits = rest[..length].replace('_', "");
            let value = digits.parse().map_err(|_| error("the number does not fit 64 bits", at..at + length))?;
            (Token::Literal(Value::Int(value)), length)
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length = length_while(|c| c.is_ascii_alphanumeric() || c == '_');
            let token = match &rest[..length] {
                "true" => Token::Literal(Value::Bool(true)),
                "false" => Token::Literal(Value::Bool(false)),
                name => Token::Name(name.to_owned()),
            };
            (token, length)
        } else if first == '"' || first == '\'' {
            let Some(end) = rest[1..].find(first) else {
                return Err(error("the text is not closed", at..text.len()));
            };
            (Token::Literal(Value::Text(rest[1..=end].to_owned())), end + 2)
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            return Err(error(format!("unexpected `{first}`"), at..at + first.len_utf8()));
        };
        tokens.push((token, at..at + length));
        at += length;
    }
    Ok(tokens)
}

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [(Token, Range<usize>)],
    at: usize,
    depth: usize,
    operators: usize,
}

impl Parser<'_> {
    fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some((Token::Symbol(s), _)) if *s == symbol);
        self.at += usize::from(found);
        found
    }

    fn here(&self) -> Range<usize> {
        self.tokens.get(self.at).map_or(self.text.len()..self.text.len(), |(_, span)| span.clone())
    }

    fn expect(&mut self, symbol: &str) -> Result<(), ExpressionError> {
        if self.take(symbol) { Ok(()) } else { Err(error(format!("`{symbol}` is missing"), self.here())) }
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, ExpressionError>) -> Result<T, ExpressionError> {
        if self.depth == DEEPEST {
            return Err(error("nested too deeply", self.here()));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn choice(&mut self) -> Result<Node, ExpressionError> {
        self.deeper(|parser| {
            let condition = parser.binary(0)?;
            if !parser.take("?") {
                return Ok(condition);
            }
            let yes = parser.choice()?;
            parser.expect(":")?;
            let no = parser.choice()?;
            let span = condition.span.start..no.span.end;
            Ok(Node { span, kind: Kind::Choice(Box::new(condition), Box::new(yes), Box::new(no)) })
        })
    }

    fn binary(&mut self, least: u8) -> Result<Node, ExpressionError> {
        let mut left = self.unary()?;
        while let Some((Token::Symbol(symbol), span)) = self.tokens.get(self.at) {
            if *symbol == "=" {
                return Err(error("`=` does not compare, `==` does", span.clone()));
            }
            let Some((operator, strength)) = binary_operator(symbol) else { break };
            if strength < least {
                break;
            }
            self.at += 1;
            self.operators += 1;
            if self.operators > MOST {
                return Err(error(format!("more than {MOST} operators"), span.clone()));
            }
            let right = self.deeper(|parser| parser.binary(strength + 1))?;
            let span = left.span.start..right.span.end;
            left = Node { span, kind: Kind::Binary(operator, Box::new(left), Box::new(right)) };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, ExpressionError> {
        let start = self.here().start;
        let operator = if self.take("-") {
            Operator::Subtract
        } else if self.take("!") {
            Operator::Not
        } else {
            return self.atom();
        };
        let inner = self.deeper(Self::unary)?;
        Ok(Node { span: start..inner.span.end, kind: Kind::Unary(operator, Box::new(inner)) })
    }

    fn atom(&mut self) -> Result<Node, ExpressionError> {
        let Some((token, span)) = self.tokens.get(self.at).cloned() else {
            return Err(error("the expression ends here, a value is missing", self.here()));
        };
        self.at += 1;
        match token {
            Token::Literal(value) => Ok(Node { span, kind: Kind::Literal(value) }),
            Token::Name(name) if self.take("(") => self.call(name, span),
            Token::Name(name) => Ok(Node { span, kind: Kind::Name(name) }),
            Token::Symbol("(") => {
                let inner = self.choice()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Symbol(symbol) => Err(error(format!("a value is missing before `{symbol}`"), span)),
        }
    }

    fn call(&mut self, name: String, span: Range<usize>) -> Result<Node, ExpressionError> {
        let Some((_, wanted)) = FUNCTIONS.iter().find(|(function, _)| *function == name) else {
            let known: Vec<String> = FUNCTIONS.iter().map(|(function, _)| (*function).to_owned()).collect();
            return Err(unknown("function", &name, &known, span));
        };
        let mut arguments = Vec::new();
        if !self.take(")") {
            loop {
                arguments.push(self.choice()?);
                if self.take(")") {
                    break;
                }
                if !self.take(",") {
                    return Err(error("`)` is missing", self.here()));
                }
            }
        }
        let whole = span.start..self.tokens[self.at - 1].1.end;
        let variadic = matches!(name.as_str(), "min" | "max");
        if arguments.len() < *wanted || (arguments.len() > *wanted && !variadic) {
            let message = format!("`{name}` takes {wanted} arguments, not {}", arguments.len());
            return Err(error(message, whole));
        }
        Ok(Node { span: whole, kind: Kind::Call(name, arguments) })
    }
}

fn binary_operator(symbol: &str) -> Option<(Operator, u8)> {
    Some(match symbol {
        "||" => (Operator::Or, 0),
        "&&" => (Operator::And, 1),
        "==" => (Operator::Equal, 2),
        "!=" => (Operator::NotEqual, 2),
        "<" => (Operator::Less, 3),
        "<=" => (Operator::LessEqual, 3),
        ">" => (Operator::Greater, 3),
        ">=" => (Operator::GreaterEqual, 3),
        "+" => (Operator::Add, 4),
        "-" => (Operator::Subtract, 4),
        "*" => (Operator::Multiply, 5),
        "/" => (Operator::Divide, 5),
        "%" => (Operator::Remainder, 5),
        _ => return None,
    })
}
