//! From tokens to a template.

use std::collections::BTreeMap;
use std::mem;

use crate::ast::{
    Branches, NumberLiteral, OperandKind, TemplateCommand, TemplateNode, TemplateOperand, TemplatePipeline,
};
use crate::budget::limit_failure;
use crate::error::{TemplateErrorKind, TemplateFailure};
use crate::functions::TemplateFunctions;
use crate::lexer::{TemplateDelimiters, TemplateToken, TokenKind, read_tokens};
use crate::literal::{unquote_char, unquote_text};
use crate::number::{parse_float, parse_int, parse_uint};
use crate::text::GoText;

/// How deeply actions and parentheses may be nested.
const MAX_NESTING: usize = 100;

/// A text with the templates that it defines.
#[derive(Debug, Default)]
pub(crate) struct ParsedTemplate {
    pub(crate) root: Vec<TemplateNode>,
    pub(crate) definitions: BTreeMap<GoText, Vec<TemplateNode>>,
}

/// Parses a text.
pub(crate) fn parse_template(
    text: &str,
    delimiters: &TemplateDelimiters,
    functions: &TemplateFunctions,
) -> Result<ParsedTemplate, TemplateFailure> {
    let (tokens, failure) = read_tokens(text, delimiters);
    let mut parser = Parser {
        tokens: &tokens,
        next: 0,
        end: text.len(),
        failure,
        functions,
        variables: vec!["$".to_owned()],
        range_depth: 0,
        nesting: 0,
        parsed: ParsedTemplate::default(),
    };
    let mut root = Vec::new();
    loop {
        if parser.kind() == Some(TokenKind::LeftDelimiter) && parser.word_after_delimiter() == Some("define")
        {
            parser.read_definition()?;
        } else if parser.kind() == Some(TokenKind::End) {
            break;
        } else if let Ending::Node(node) = parser.read_node(&[])? {
            root.push(node);
        }
    }
    parser.parsed.root = root;
    Ok(parser.parsed)
}

struct Parser<'t, 'p> {
    tokens: &'p [TemplateToken<'t>],
    next: usize,
    end: usize,
    /// What is wrong after the last token.
    failure: Option<TemplateFailure>,
    functions: &'p TemplateFunctions,
    variables: Vec<String>,
    range_depth: usize,
    nesting: usize,
    parsed: ParsedTemplate,
}

/// What comes next in a list of nodes.
enum Ending {
    Node(TemplateNode),
    End,
    Else,
}

impl<'t> Parser<'t, '_> {
    fn token(&self) -> Option<&TemplateToken<'t>> {
        self.tokens.get(self.next)
    }

    fn kind(&self) -> Option<TokenKind> {
        self.token().map(|token| token.kind)
    }

    fn offset(&self) -> usize {
        self.token().map_or(self.end, |token| token.offset)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, TemplateFailure> {
        Err(TemplateFailure::new(TemplateErrorKind::Syntax, message).at(self.offset()))
    }

    /// The failure at a token that does not fit here, or at the end of what could be split into tokens.
    fn fail_unexpected<T>(&mut self, context: &str) -> Result<T, TemplateFailure> {
        match self.token() {
            None => match self.failure.take() {
                Some(failure) => Err(failure),
                None => self.fail("unexpected EOF"),
            },
            Some(token) if token.kind == TokenKind::End => self.fail("unexpected EOF"),
            Some(token) => {
                let text = token.text.to_owned();
                self.fail(format!("unexpected {text:?} in {context}"))
            }
        }
    }

    fn skip_space(&mut self) {
        while self.kind() == Some(TokenKind::Space) {
            self.next += 1;
        }
    }

    /// The next token that is not blank.
    fn peek(&mut self) -> Option<TokenKind> {
        self.skip_space();
        self.kind()
    }

    fn expect(&mut self, kind: TokenKind, context: &str) -> Result<(), TemplateFailure> {
        if self.peek() == Some(kind) {
            self.next += 1;
            return Ok(());
        }
        self.fail_unexpected(context)
    }

    /// The word that begins the action at the next token.
    fn word_after_delimiter(&self) -> Option<&'t str> {
        let mut after = self.tokens.iter().skip(self.next + 1);
        let token = after.find(|token| token.kind != TokenKind::Space)?;
        (token.kind == TokenKind::Word).then_some(token.text)
    }

    fn enter(&mut self) -> Result<(), TemplateFailure> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(limit_failure("nests actions or parentheses too deeply").at(self.offset()));
        }
        Ok(())
    }

    /// Text or an action. `endings` are the words that may end the list.
    fn read_node(&mut self, endings: &[&str]) -> Result<Ending, TemplateFailure> {
        match self.kind() {
            Some(TokenKind::Text) => {
                let text = self.token().map(|token| token.text.to_owned()).unwrap_or_default();
                self.next += 1;
                Ok(Ending::Node(TemplateNode::Text(text)))
            }
            Some(TokenKind::LeftDelimiter) => {
                let word = self.word_after_delimiter();
                self.next += 1;
                self.skip_space();
                self.read_action(word.unwrap_or_default(), endings)
            }
            _ => self.fail_unexpected("input"),
        }
    }

    fn read_action(&mut self, word: &str, endings: &[&str]) -> Result<Ending, TemplateFailure> {
        let offset = self.offset();
        let is_control = matches!(
            word,
            "block" | "break" | "continue" | "else" | "end" | "if" | "range" | "template" | "with"
        );
        if !is_control {
            let pipeline = self.read_pipeline("command", TokenKind::RightDelimiter)?;
            return Ok(Ending::Node(TemplateNode::Action(pipeline)));
        }
        if matches!(word, "end" | "else") && !endings.contains(&word) {
            return self.fail(format!("unexpected {{{{{word}}}}}"));
        }
        self.next += 1;
        let node = match word {
            "end" => {
                self.expect(TokenKind::RightDelimiter, "end")?;
                return Ok(Ending::End);
            }
            // What follows `else` is read by the action that it belongs to.
            "else" => return Ok(Ending::Else),
            "if" => TemplateNode::If(self.read_branches("if")?),
            "with" => TemplateNode::With(self.read_branches("with")?),
            "range" => TemplateNode::Range(self.read_branches("range")?),
            "break" | "continue" => {
                self.expect(TokenKind::RightDelimiter, word)?;
                if self.range_depth == 0 {
                    return Err(TemplateFailure::new(
                        TemplateErrorKind::Syntax,
                        format!("{{{{{word}}}}} outside {{{{range}}}}"),
                    )
                    .at(offset));
                }
                if word == "break" { TemplateNode::Break } else { TemplateNode::Continue }
            }
            "template" => {
                let name = self.read_template_name("template clause")?;
                let pipeline = if self.peek() == Some(TokenKind::RightDelimiter) {
                    self.next += 1;
                    None
                } else {
                    Some(self.read_pipeline("template clause", TokenKind::RightDelimiter)?)
                };
                TemplateNode::Call { offset, name, pipeline }
            }
            _ => {
                let name = self.read_template_name("block clause")?;
                let pipeline = self.read_pipeline("block clause", TokenKind::RightDelimiter)?;
                self.read_body(name.clone())?;
                TemplateNode::Call { offset, name, pipeline: Some(pipeline) }
            }
        };
        Ok(Ending::Node(node))
    }

    /// Nodes up to `end` or, if it is allowed, `else`.
    fn read_list(&mut self, endings: &[&str]) -> Result<(Vec<TemplateNode>, Ending), TemplateFailure> {
        self.enter()?;
        let mut nodes = Vec::new();
        loop {
            match self.read_node(endings)? {
                Ending::Node(node) => nodes.push(node),
                ending => {
                    self.nesting -= 1;
                    return Ok((nodes, ending));
                }
            }
        }
    }

    /// The rest of `if`, `with` and `range`.
    fn read_branches(&mut self, word: &str) -> Result<Branches, TemplateFailure> {
        let declared = self.variables.len();
        let pipeline = self.read_pipeline(word, TokenKind::RightDelimiter)?;
        let in_range = usize::from(word == "range");
        self.range_depth += in_range;
        let (then, ending) = self.read_list(&["end", "else"])?;
        self.range_depth -= in_range;
        let mut otherwise = Vec::new();
        if matches!(ending, Ending::Else) {
            self.skip_space();
            let again = self.token().filter(|token| token.kind == TokenKind::Word && token.text == word);
            if again.is_some() && word != "range" {
                self.next += 1;
                self.enter()?;
                let branches = self.read_branches(word)?;
                self.nesting -= 1;
                otherwise.push(if word == "if" {
                    TemplateNode::If(branches)
                } else {
                    TemplateNode::With(branches)
                });
            } else {
                self.expect(TokenKind::RightDelimiter, "else")?;
                otherwise = self.read_list(&["end"])?.0;
            }
        }
        self.variables.truncate(declared);
        Ok(Branches { pipeline, then, otherwise })
    }

    /// `{{define "name"}}` to its `{{end}}`.
    fn read_definition(&mut self) -> Result<(), TemplateFailure> {
        self.next += 1;
        self.skip_space();
        self.next += 1;
        let name = self.read_template_name("define clause")?;
        self.expect(TokenKind::RightDelimiter, "define clause")?;
        self.read_body(name)
    }

    /// The body of a definition, which sees no variables from outside.
    fn read_body(&mut self, name: GoText) -> Result<(), TemplateFailure> {
        let outside = mem::replace(&mut self.variables, vec!["$".to_owned()]);
        let range_depth = mem::take(&mut self.range_depth);
        let offset = self.offset();
        let (nodes, _) = self.read_list(&["end"])?;
        self.variables = outside;
        self.range_depth = range_depth;
        let known = self.parsed.definitions.get(&name);
        if known.is_none_or(|known| is_blank(known)) {
            self.parsed.definitions.insert(name, nodes);
        } else if !is_blank(&nodes) {
            let message = format!("multiple definition of template {name:?}");
            return Err(TemplateFailure::new(TemplateErrorKind::Syntax, message).at(offset));
        }
        Ok(())
    }

    fn read_template_name(&mut self, context: &str) -> Result<GoText, TemplateFailure> {
        match self.peek() {
            Some(TokenKind::Quoted | TokenKind::RawQuoted) => self.read_text(),
            _ => self.fail_unexpected(context),
        }
    }

    /// The text in quotes at the next token.
    fn read_text(&mut self) -> Result<GoText, TemplateFailure> {
        let text = self.token().and_then(|token| unquote_text(token.text));
        let Some(text) = text else { return self.fail("invalid syntax in a quoted text") };
        self.next += 1;
        Ok(text)
    }

    fn read_pipeline(&mut self, context: &str, end: TokenKind) -> Result<TemplatePipeline, TemplateFailure> {
        self.skip_space();
        let offset = self.offset();
        let (variables, assigns) = self.read_declarations(context)?;
        let mut commands: Vec<TemplateCommand> = Vec::new();
        loop {
            match self.peek() {
                Some(kind) if kind == end => {
                    if commands.is_empty() {
                        return self.fail(format!("missing value for {context}"));
                    }
                    self.next += 1;
                    return Ok(TemplatePipeline { offset, variables, assigns, commands });
                }
                Some(
                    TokenKind::Word
                    | TokenKind::Field
                    | TokenKind::Variable
                    | TokenKind::Dot
                    | TokenKind::Number
                    | TokenKind::Char
                    | TokenKind::Quoted
                    | TokenKind::RawQuoted
                    | TokenKind::LeftParenthesis,
                ) => {
                    let command = self.read_command()?;
                    if !commands.is_empty() && !is_executable(&command.first.kind) {
                        let stage = commands.len() + 1;
                        return self.fail(format!("non executable command in pipeline stage {stage}"));
                    }
                    commands.push(command);
                }
                _ => return self.fail_unexpected(context),
            }
        }
    }

    /// `$x :=`, `$x =`, and `$x, $y :=` in a range.
    fn read_declarations(&mut self, context: &str) -> Result<(Vec<String>, bool), TemplateFailure> {
        let mut names = Vec::new();
        loop {
            let start = self.next;
            let name = match self.token() {
                Some(token) if token.kind == TokenKind::Variable => token.text.to_owned(),
                _ => return Ok((names, false)),
            };
            self.next += 1;
            match self.peek() {
                Some(kind @ (TokenKind::Assign | TokenKind::Declare)) => {
                    self.next += 1;
                    self.skip_space();
                    self.variables.push(name.clone());
                    names.push(name);
                    return Ok((names, kind == TokenKind::Assign));
                }
                Some(TokenKind::Comma) => {
                    self.next += 1;
                    self.variables.push(name.clone());
                    names.push(name);
                    if context != "range" || names.len() > 1 {
                        return self.fail(format!("too many declarations in {context}"));
                    }
                    match self.peek() {
                        Some(
                            TokenKind::Variable | TokenKind::RightDelimiter | TokenKind::RightParenthesis,
                        ) => {}
                        _ => return self.fail("range can only initialize variables"),
                    }
                }
                _ => {
                    self.next = start;
                    return Ok((names, false));
                }
            }
        }
    }

    /// Operands up to `|` or to the end of the pipeline.
    fn read_command(&mut self) -> Result<TemplateCommand, TemplateFailure> {
        let mut operands = Vec::new();
        loop {
            self.skip_space();
            if let Some(operand) = self.read_operand()? {
                operands.push(operand);
            }
            match self.kind() {
                Some(TokenKind::Space) => {}
                Some(TokenKind::RightDelimiter | TokenKind::RightParenthesis) => break,
                Some(TokenKind::Pipe) => {
                    self.next += 1;
                    break;
                }
                _ => return self.fail_unexpected("operand"),
            }
        }
        let mut operands = operands.into_iter();
        let Some(first) = operands.next() else { return self.fail("empty command") };
        Ok(TemplateCommand { first, arguments: operands.collect() })
    }

    /// A term and the fields behind it.
    fn read_operand(&mut self) -> Result<Option<TemplateOperand>, TemplateFailure> {
        let offset = self.offset();
        let Some(kind) = self.read_term()? else { return Ok(None) };
        let mut fields = Vec::new();
        while let Some(token) = self.token().filter(|token| token.kind == TokenKind::Field) {
            fields.push(token.text.trim_start_matches('.').to_owned());
            self.next += 1;
        }
        if fields.is_empty() {
            return Ok(Some(TemplateOperand { offset, kind }));
        }
        let kind = match kind {
            OperandKind::Field(mut names) => {
                names.append(&mut fields);
                OperandKind::Field(names)
            }
            OperandKind::Variable(name, _) => OperandKind::Variable(name, fields),
            OperandKind::Bool(_)
            | OperandKind::Text(_)
            | OperandKind::Number(_)
            | OperandKind::Nil
            | OperandKind::Dot => {
                return self.fail(format!("unexpected . after term {}", kind.describe()));
            }
            kind => OperandKind::Chain(Box::new(TemplateOperand { offset, kind }), fields),
        };
        Ok(Some(TemplateOperand { offset, kind }))
    }

    fn read_term(&mut self) -> Result<Option<OperandKind>, TemplateFailure> {
        let Some(token) = self.token().cloned() else { return self.fail_unexpected("operand") };
        let kind = match token.kind {
            TokenKind::Word => self.read_word(token.text)?,
            TokenKind::Dot => OperandKind::Dot,
            TokenKind::Field => OperandKind::Field(vec![token.text.trim_start_matches('.').to_owned()]),
            TokenKind::Variable => {
                if !self.variables.iter().any(|name| name == token.text) {
                    return self.fail(format!("undefined variable {:?}", token.text));
                }
                OperandKind::Variable(token.text.to_owned(), Vec::new())
            }
            TokenKind::Number | TokenKind::Char => match read_number(&token) {
                Ok(number) => OperandKind::Number(number),
                Err(message) => return self.fail(message),
            },
            TokenKind::Quoted | TokenKind::RawQuoted => {
                return Ok(Some(OperandKind::Text(self.read_text()?)));
            }
            TokenKind::LeftParenthesis => {
                self.enter()?;
                self.next += 1;
                let pipeline = self.read_pipeline("parenthesized pipeline", TokenKind::RightParenthesis)?;
                self.nesting -= 1;
                return Ok(Some(OperandKind::Pipeline(Box::new(pipeline))));
            }
            _ => return Ok(None),
        };
        self.next += 1;
        Ok(Some(kind))
    }

    /// A constant or the name of a function.
    fn read_word(&mut self, word: &str) -> Result<OperandKind, TemplateFailure> {
        Ok(match word {
            "true" => OperandKind::Bool(true),
            "false" => OperandKind::Bool(false),
            "nil" => OperandKind::Nil,
            "block" | "break" | "continue" | "define" | "else" | "end" | "if" | "range" | "template"
            | "with" => {
                return self.fail_unexpected("operand");
            }
            name => {
                let Some(function) = self.functions.find(name) else {
                    let message = format!("function {name:?} not defined");
                    let failure = TemplateFailure::new(TemplateErrorKind::UnknownFunction, message);
                    return Err(failure.at(self.offset()));
                };
                OperandKind::Function(function)
            }
        })
    }
}

/// Whether a command that begins so can take the value of the one before.
fn is_executable(first: &OperandKind) -> bool {
    !matches!(
        first,
        OperandKind::Bool(_)
            | OperandKind::Dot
            | OperandKind::Nil
            | OperandKind::Number(_)
            | OperandKind::Text(_)
    )
}

/// Whether a template has nothing but blanks; it may be defined again.
fn is_blank(nodes: &[TemplateNode]) -> bool {
    nodes.iter().all(|node| matches!(node, TemplateNode::Text(text) if text.trim().is_empty()))
}

fn read_number(token: &TemplateToken<'_>) -> Result<NumberLiteral, String> {
    let text = token.text.to_owned();
    #[expect(clippy::cast_precision_loss, reason = "as Go converts it")]
    let whole =
        |int: i64| NumberLiteral { text: text.clone(), int: Some(int), float: int as f64, is_float: false };
    if token.kind == TokenKind::Char {
        let Some(c) = unquote_char(&text) else {
            return Err(format!("malformed character constant: {text}"));
        };
        return Ok(whole(i64::from(u32::from(c))));
    }
    if text.ends_with('i') && !text.starts_with("0x") {
        return Err(format!("{text}: federate does not carry out complex numbers"));
    }
    let is_float = !text.to_ascii_lowercase().starts_with("0x") && text.contains(['.', 'e', 'E'])
        || text.contains(['p', 'P']);
    if let Some(int) = parse_int(&text) {
        return Ok(NumberLiteral { is_float, ..whole(int) });
    }
    if let Some(uint) = parse_uint(text.trim_start_matches('+')) {
        #[expect(clippy::cast_precision_loss, reason = "as Go converts it")]
        let float = uint as f64;
        return Ok(NumberLiteral { text, int: None, float, is_float: false });
    }
    let Some(float) = parse_float(&text) else { return Err(format!("bad number syntax: {text:?}")) };
    if !text.contains(['.', 'e', 'E', 'p', 'P']) {
        return Err(format!("integer overflow: {text:?}"));
    }
    let int = crate::number::float_to_int(float);
    #[expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "whether it is whole")]
    let int = (int as f64 == float).then_some(int);
    Ok(NumberLiteral { text, int, float, is_float })
}
