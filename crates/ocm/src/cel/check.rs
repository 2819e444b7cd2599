//! Checks the types of expressions, so that what the hub cannot compile is known.
//!
//! Facts: the cluster has no type (`dyn`), so that only literals and the results of functions have one. Literals of
//! different types cannot be compared. A name that is not declared, and a function without a matching overload, are errors.

use cel::common::ast::operators as op;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::cel_type::CelType;
use super::format::{FormatPart, accepts_type, parse_format};
use super::{CelVariable, CompileError, MAX_DEPTH};

use CelType::{Bool, Bytes, Double, Dyn, Int, Library, List, Map, Null, Optional, Span, Text, Time, Uint};

const QUANTITY: CelType = Library("quantity");
const VERSION: CelType = Library("semver");
const ADDRESS: CelType = Library("ip");
const NETWORK: CelType = Library("cidr");
const URL: CelType = Library("url");

/// The functions that begin with a namespace.
const NAMESPACED: [&str; 6] = [
    "strings.quote",
    "optional.of",
    "optional.ofNonZeroValue",
    "optional.none",
    "optional.unwrap",
    "ip.isCanonical",
];

/// A function with the target of a member function.
pub(super) struct FunctionCall<'e> {
    /// The name, with its namespace.
    pub name: &'e str,
    /// The value before the name.
    pub target: Option<&'e IdedExpr>,
}

impl<'e> FunctionCall<'e> {
    /// The function of a call. A namespace looks like a target.
    pub(super) fn from_call(call: &'e CallExpr) -> Self {
        let name = call.func_name.as_str();
        let target = call.target.as_deref();
        if let Some(Expr::Ident(namespace)) = target.map(|target| &target.expr) {
            let is_of_namespace = |known: &&str| known.split_once('.') == Some((namespace.as_str(), name));
            if let Some(known) = NAMESPACED.into_iter().find(is_of_namespace) {
                return Self { name: known, target: None };
            }
        }
        Self { name, target }
    }
}

/// The name of the type that a name stands for.
pub(super) fn type_of_name(name: &str) -> Option<&'static str> {
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"]
        .into_iter()
        .find(|known| *known == name)
}

/// Checks an expression about a variable.
pub(super) fn check(root: &IdedExpr, variable: CelVariable) -> Result<(), CompileError> {
    Checker { variable, variables: Vec::new(), depth: 0 }.infer(root).map(drop)
}

struct Checker<'e> {
    variable: CelVariable,
    /// Those of macros, the innermost last.
    variables: Vec<(&'e str, CelType)>,
    /// How deep the expression is that is looked at.
    depth: usize,
}

fn invalid(why: impl Into<String>) -> CompileError {
    CompileError::Invalid(why.into())
}

fn unsupported(what: impl Into<String>) -> CompileError {
    CompileError::Unsupported(what.into())
}

/// Whether two types can be the same.
fn is_compatible(a: &CelType, b: &CelType) -> bool {
    match (a, b) {
        (Dyn, _) | (_, Dyn) => true,
        (List(a), List(b)) | (Optional(a), Optional(b)) => is_compatible(a, b),
        (Map(a, x), Map(b, y)) => is_compatible(a, b) && is_compatible(x, y),
        (a, b) => a == b,
    }
}

/// The type of values of two types: `dyn` if they have nothing in common.
fn join_types(a: CelType, b: CelType) -> CelType {
    match (a, b) {
        (List(a), List(b)) => List(Box::new(join_types(*a, *b))),
        (Optional(a), Optional(b)) => Optional(Box::new(join_types(*a, *b))),
        (Map(a, x), Map(b, y)) => Map(Box::new(join_types(*a, *b)), Box::new(join_types(*x, *y))),
        (a, b) if a == b => a,
        _ => Dyn,
    }
}

impl<'e> Checker<'e> {
    fn infer(&mut self, expression: &'e IdedExpr) -> Result<CelType, CompileError> {
        if self.depth == MAX_DEPTH {
            return Err(unsupported("it is nested too deeply"));
        }
        self.depth += 1;
        let result = self.infer_parts(expression);
        self.depth -= 1;
        result
    }

    fn infer_parts(&mut self, expression: &'e IdedExpr) -> Result<CelType, CompileError> {
        match &expression.expr {
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Bool,
                LiteralValue::Bytes(_) => Bytes,
                LiteralValue::Double(_) => Double,
                LiteralValue::Int(_) => Int,
                LiteralValue::Null => Null,
                LiteralValue::String(_) => Text,
                LiteralValue::UInt(_) => Uint,
            }),
            Expr::Ident(name) => self.infer_name(name),
            Expr::Select(select) => match self.infer(&select.operand)? {
                Dyn => Ok(if select.test { Bool } else { Dyn }),
                Map(_, value) => Ok(if select.test { Bool } else { *value }),
                Optional(_) => Ok(if select.test { Bool } else { Optional(Box::new(Dyn)) }),
                other => {
                    Err(invalid(format!("type '{}' does not support field selection", describe(&other))))
                }
            },
            Expr::List(list) => {
                if !list.optional_indices.is_empty() {
                    return Err(unsupported("optional items of a list"));
                }
                self.infer_all(list.elements.iter()).map(|item| List(Box::new(item)))
            }
            Expr::Map(map) => {
                let mut keys = Vec::new();
                let mut values = Vec::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(unsupported("a message"));
                    };
                    if entry.optional {
                        return Err(unsupported("optional entries of a map"));
                    }
                    keys.push(&entry.key);
                    values.push(&entry.value);
                }
                let key = self.infer_all(keys.into_iter())?;
                let value = self.infer_all(values.into_iter())?;
                Ok(Map(Box::new(key), Box::new(value)))
            }
            Expr::Call(call) => self.infer_call(call),
            Expr::Comprehension(comprehension) => self.infer_comprehension(comprehension),
            Expr::Struct(_) | Expr::Unspecified => Err(unsupported("a message")),
        }
    }

    /// The type that all of several expressions have.
    fn infer_all(
        &mut self,
        expressions: impl Iterator<Item = &'e IdedExpr>,
    ) -> Result<CelType, CompileError> {
        let mut all: Option<CelType> = None;
        for expression in expressions {
            let one = self.infer(expression)?;
            all = Some(match all {
                Some(known) => join_types(known, one),
                None => one,
            });
        }
        Ok(all.unwrap_or(Dyn))
    }

    fn infer_name(&self, name: &str) -> Result<CelType, CompileError> {
        if let Some((_, known)) = self.variables.iter().rev().find(|(known, _)| *known == name) {
            return Ok(known.clone());
        }
        if name == self.variable.name() {
            return Ok(Dyn);
        }
        if type_of_name(name).is_some() {
            return Ok(CelType::Type);
        }
        Err(invalid(format!("undeclared reference to '{name}' (in container '')")))
    }

    fn infer_comprehension(&mut self, one: &'e ComprehensionExpr) -> Result<CelType, CompileError> {
        if one.iter_var2.is_some() {
            return Err(invalid(format!("undeclared reference to '{}' (in container '')", one.iter_var)));
        }
        let item = match self.infer(&one.iter_range)? {
            Dyn => Dyn,
            List(item) => *item,
            Map(key, _) => *key,
            other => {
                let range = describe(&other);
                return Err(invalid(format!(
                    "expression of type '{range}' cannot be range of a comprehension"
                )));
            }
        };
        let accumulated = self.infer(&one.accu_init)?;
        self.variables.push((&one.accu_var, accumulated.clone()));
        self.variables.push((&one.iter_var, item));
        self.infer(&one.loop_cond)?;
        let step = self.infer(&one.loop_step)?;
        self.variables.truncate(self.variables.len() - 2);
        if !is_compatible(&accumulated, &step) {
            return Err(invalid("found no matching overload for a step of a macro"));
        }
        let accumulated = if step == Dyn { accumulated } else { step };
        self.variables.push((&one.accu_var, accumulated));
        let result = self.infer(&one.result);
        self.variables.pop();
        result
    }

    fn infer_call(&mut self, call: &'e CallExpr) -> Result<CelType, CompileError> {
        if let Expr::Ident(namespace) =
            call.target.as_deref().map_or(&Expr::Unspecified, |target| &target.expr)
            && namespace == "format"
        {
            return Err(unsupported(format!("format.{}()", call.func_name)));
        }
        if let ("optMap" | "optFlatMap", Some(target), [variable, mapped]) =
            (call.func_name.as_str(), &call.target, call.args.as_slice())
        {
            return self.infer_mapped(&call.func_name, target, variable, mapped);
        }
        let FunctionCall { name, target } = FunctionCall::from_call(call);
        if name == "getQuery" {
            return Err(unsupported("getQuery()"));
        }
        let mut types = Vec::new();
        for value in target.into_iter().chain(&call.args) {
            types.push(self.infer(value)?);
        }
        if let ("format", Some(target), [arguments]) = (name, target, call.args.as_slice()) {
            self.check_format(target, arguments)?;
        }
        if let Some(result) = infer_operator(name, &types) {
            return result.map_err(|NoOverload| no_overload(name, &types));
        }
        let is_member = target.is_some();
        let overloads =
            if is_member { list_members(name, self.variable) } else { list_globals(name, self.variable) };
        if overloads.is_empty() {
            let exists = if is_member {
                !list_globals(name, self.variable).is_empty()
            } else {
                !list_members(name, self.variable).is_empty()
            };
            return Err(if exists {
                no_overload(name, &types)
            } else {
                invalid(format!("undeclared reference to '{name}' (in container '')"))
            });
        }
        let fits = |overload: &&Overload| {
            overload.0.len() == types.len() && overload.0.iter().zip(&types).all(|(a, b)| is_compatible(a, b))
        };
        let mut fitting = overloads.iter().filter(fits);
        let Some(first) = fitting.next() else { return Err(no_overload(name, &types)) };
        Ok(if fitting.all(|other| other.1 == first.1) { first.1.clone() } else { Dyn })
    }

    /// The type of a macro that maps the value of an optional.
    fn infer_mapped(
        &mut self,
        name: &str,
        target: &'e IdedExpr,
        variable: &'e IdedExpr,
        mapped: &'e IdedExpr,
    ) -> Result<CelType, CompileError> {
        let Expr::Ident(variable) = &variable.expr else {
            return Err(invalid(format!("{name}() variable name must be a simple identifier")));
        };
        let inner = match self.infer(target)? {
            Dyn => Dyn,
            Optional(inner) => *inner,
            other => return Err(no_overload("hasValue", &[other])),
        };
        self.variables.push((variable, inner));
        let result = self.infer(mapped);
        self.variables.pop();
        match result? {
            result if name == "optMap" => Ok(Optional(Box::new(result))),
            result @ (Dyn | Optional(_)) => Ok(result),
            other => Err(no_overload("_?_:_", &[Bool, other, Optional(Box::new(Dyn))])),
        }
    }

    /// Checks the arguments of a format, if both are literals.
    fn check_format(&mut self, format: &'e IdedExpr, arguments: &'e IdedExpr) -> Result<(), CompileError> {
        let (Expr::Literal(LiteralValue::String(format)), Expr::List(arguments)) =
            (&format.expr, &arguments.expr)
        else {
            return Ok(());
        };
        let parts =
            parse_format(format.inner()).ok_or_else(|| invalid("could not parse formatting clause"))?;
        let mut elements = arguments.elements.iter();
        for part in parts {
            let FormatPart::Clause(clause, _) = part else { continue };
            let element = elements.next().ok_or_else(|| invalid("index out of range"))?;
            self.check_argument(clause, element)?;
        }
        match elements.next() {
            Some(_) => Err(invalid("too many arguments supplied to string.format")),
            None => Ok(()),
        }
    }

    /// Checks an argument of a clause, with the items of lists and maps.
    fn check_argument(&mut self, clause: char, argument: &'e IdedExpr) -> Result<(), CompileError> {
        let found = self.infer(argument)?;
        if !accepts_type(clause, &found) {
            return Err(invalid(format!(
                "error during formatting: %{clause} was given {}",
                describe(&found)
            )));
        }
        match &argument.expr {
            Expr::List(list) => list.elements.iter().try_for_each(|item| self.check_argument(clause, item)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.check_argument(clause, &entry.key)?;
                    self.check_argument(clause, &entry.value)
                }
                EntryExpr::StructField(_) => Ok(()),
            }),
            _ => Ok(()),
        }
    }
}

fn no_overload(name: &str, types: &[CelType]) -> CompileError {
    let types: Vec<String> = types.iter().map(describe).collect();
    invalid(format!("found no matching overload for '{name}' applied to '({})'", types.join(", ")))
}

fn describe(one: &CelType) -> String {
    match one {
        Dyn => "dyn".to_owned(),
        Null => "null".to_owned(),
        Bool => "bool".to_owned(),
        Int => "int".to_owned(),
        Uint => "uint".to_owned(),
        Double => "double".to_owned(),
        Text => "string".to_owned(),
        Bytes => "bytes".to_owned(),
        Time => "timestamp".to_owned(),
        Span => "duration".to_owned(),
        CelType::Type => "type".to_owned(),
        List(item) => format!("list({})", describe(item)),
        Map(key, value) => format!("map({}, {})", describe(key), describe(value)),
        Optional(inner) => format!("optional_type({})", describe(inner)),
        Library(name) => (*name).to_owned(),
    }
}

/// That no overload of an operator matches.
struct NoOverload;

/// The result of an operator; `None` if it is none.
fn infer_operator(name: &str, types: &[CelType]) -> Option<Result<CelType, NoOverload>> {
    let both = |known: &[CelType]| match types {
        [Dyn, Dyn] => Some(Dyn),
        [Dyn, other] | [other, Dyn] => known.contains(other).then(|| other.clone()),
        [a, b] => (a == b && known.contains(a)).then(|| a.clone()),
        _ => None,
    };
    let result = match (name, types) {
        (op::EQUALS | op::NOT_EQUALS, [a, b]) => is_compatible(a, b).then_some(Bool),
        (op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS, [_, _]) => {
            both(&[Bool, Int, Uint, Double, Text, Bytes, Time, Span]).map(|_| Bool)
        }
        (op::LOGICAL_AND | op::LOGICAL_OR, [a, b]) => {
            (is_compatible(a, &Bool) && is_compatible(b, &Bool)).then_some(Bool)
        }
        (op::LOGICAL_NOT, [value]) => is_compatible(value, &Bool).then_some(Bool),
        (op::NOT_STRICTLY_FALSE, [_]) => Some(Bool),
        (op::NEGATE, [value]) => matches!(value, Dyn | Int | Double).then(|| value.clone()),
        (op::CONDITIONAL, [condition, a, b]) => {
            (is_compatible(condition, &Bool) && is_compatible(a, b)).then(|| join_types(a.clone(), b.clone()))
        }
        (op::ADD, [List(a), List(b)]) => {
            is_compatible(a, b).then(|| List(Box::new(join_types((**a).clone(), (**b).clone()))))
        }
        (op::ADD, [List(_), Dyn] | [Dyn, List(_)]) => Some(List(Box::new(Dyn))),
        (op::ADD, [Time, Span | Dyn] | [Span | Dyn, Time]) => Some(Time),
        (op::ADD, [_, _]) => both(&[Int, Uint, Double, Text, Bytes, Span]).map(|one| {
            // A span may be added to a time.
            if types.contains(&Dyn) && one == Span { Dyn } else { one }
        }),
        (op::SUBSTRACT, [Time, Time]) => Some(Span),
        (op::SUBSTRACT, [Time, Span]) => Some(Time),
        (op::SUBSTRACT, [Time, Dyn] | [Dyn, Time | Span]) => Some(Dyn),
        (op::SUBSTRACT, [_, _]) => both(&[Int, Uint, Double, Span]),
        (op::MULTIPLY | op::DIVIDE, [_, _]) => both(&[Int, Uint, Double]),
        (op::MODULO, [_, _]) => both(&[Int, Uint]),
        (op::IN, [item, List(of)]) => is_compatible(item, of).then_some(Bool),
        (op::IN, [key, Map(of, _)]) => is_compatible(key, of).then_some(Bool),
        (op::IN, [_, container]) => (*container == Dyn).then_some(Bool),
        (op::INDEX, [List(item), index]) => is_compatible(index, &Int).then(|| (**item).clone()),
        (op::INDEX, [Map(of, value), key]) => is_compatible(key, of).then(|| (**value).clone()),
        (op::INDEX, [container, _]) => match container {
            Dyn => Some(Dyn),
            Optional(_) => Some(Optional(Box::new(Dyn))),
            _ => None,
        },
        (op::OPT_SELECT | op::OPT_INDEX, [container, _]) => {
            matches!(container, Dyn | Map(..) | List(_) | Optional(_)).then(|| Optional(Box::new(Dyn)))
        }
        _ => return None,
    };
    Some(result.ok_or(NoOverload))
}

/// The types of the arguments, the target first, and that of the result.
type Overload = (Vec<CelType>, CelType);

fn any_list() -> CelType {
    List(Box::new(Dyn))
}

fn any_optional() -> CelType {
    Optional(Box::new(Dyn))
}

/// The overloads of a function with one argument of any of some types.
fn overloads_of(types: Vec<CelType>, result: CelType) -> Vec<Overload> {
    types.into_iter().zip(std::iter::repeat(result)).map(|(one, result)| (vec![one], result)).collect()
}

/// The overloads of a function that is not a member.
fn list_globals(name: &str, variable: CelVariable) -> Vec<Overload> {
    match name {
        "size" => overloads_of(vec![Text, Bytes, any_list(), Map(Box::new(Dyn), Box::new(Dyn))], Int),
        "type" => overloads_of(vec![Dyn], CelType::Type),
        "dyn" => overloads_of(vec![Dyn], Dyn),
        "int" => overloads_of(vec![Int, Uint, Double, Text, Time, Span], Int),
        "uint" => overloads_of(vec![Uint, Int, Double, Text], Uint),
        "double" => overloads_of(vec![Double, Int, Uint, Text], Double),
        "string" => {
            overloads_of(vec![Text, Bool, Int, Uint, Double, Bytes, Time, Span, ADDRESS, NETWORK], Text)
        }
        "bool" => overloads_of(vec![Bool, Text], Bool),
        "bytes" => overloads_of(vec![Bytes, Text], Bytes),
        "timestamp" => overloads_of(vec![Time, Text, Int], Time),
        "duration" => overloads_of(vec![Span, Text, Int], Span),
        "matches" => vec![(vec![Text, Text], Bool)],
        "quantity" => overloads_of(vec![Text], QUANTITY),
        "semver" => overloads_of(vec![Text], VERSION),
        "ip" => overloads_of(vec![Text], ADDRESS),
        "cidr" => overloads_of(vec![Text], NETWORK),
        "url" => overloads_of(vec![Text], URL),
        "isQuantity" | "isSemver" | "isIP" | "isCIDR" | "isURL" | "ip.isCanonical" => {
            overloads_of(vec![Text], Bool)
        }
        "strings.quote" => overloads_of(vec![Text], Text),
        "optional.of" | "optional.ofNonZeroValue" => overloads_of(vec![Dyn], any_optional()),
        "optional.none" => vec![(Vec::new(), any_optional())],
        "optional.unwrap" => overloads_of(vec![List(Box::new(any_optional()))], any_list()),
        "hasConditions" if variable == CelVariable::Object => overloads_of(vec![Dyn], Bool),
        _ => Vec::new(),
    }
}

/// The overloads of a member function.
fn list_members(name: &str, variable: CelVariable) -> Vec<Overload> {
    let texts = || List(Box::new(Text));
    match name {
        "size" => list_globals(name, variable),
        "format" => vec![(vec![Text, any_list()], Text)],
        "getFullYear" | "getMonth" | "getDate" | "getDayOfMonth" | "getDayOfWeek" | "getDayOfYear" => {
            vec![(vec![Time], Int), (vec![Time, Text], Int)]
        }
        "getHours" | "getMinutes" | "getSeconds" | "getMilliseconds" => {
            vec![(vec![Time], Int), (vec![Time, Text], Int), (vec![Span], Int)]
        }
        "unwrapOpt" => vec![(vec![List(Box::new(any_optional()))], any_list())],
        "contains" | "startsWith" | "endsWith" | "matches" => vec![(vec![Text, Text], Bool)],
        "charAt" => vec![(vec![Text, Int], Text)],
        "indexOf" | "lastIndexOf" => {
            vec![(vec![Text, Text], Int), (vec![Text, Text, Int], Int), (vec![any_list(), Dyn], Int)]
        }
        "join" => vec![(vec![texts()], Text), (vec![texts(), Text], Text)],
        "lowerAscii" | "upperAscii" | "trim" | "reverse" => vec![(vec![Text], Text)],
        "replace" => vec![(vec![Text, Text, Text], Text), (vec![Text, Text, Text, Int], Text)],
        "split" => vec![(vec![Text, Text], texts()), (vec![Text, Text, Int], texts())],
        "substring" => vec![(vec![Text, Int], Text), (vec![Text, Int, Int], Text)],
        "find" => vec![(vec![Text, Text], Text)],
        "findAll" => vec![(vec![Text, Text], texts()), (vec![Text, Text, Int], texts())],
        "isSorted" => vec![(vec![any_list()], Bool)],
        "sum" | "min" | "max" => vec![(vec![any_list()], Dyn)],
        "first" | "last" => vec![(vec![any_list()], any_optional())],
        "getScheme" | "getHost" | "getHostname" | "getPort" | "getEscapedPath" => vec![(vec![URL], Text)],
        "isInteger" => vec![(vec![QUANTITY], Bool)],
        "asInteger" | "sign" => vec![(vec![QUANTITY], Int)],
        "asApproximateFloat" => vec![(vec![QUANTITY], Double)],
        "add" | "sub" => vec![(vec![QUANTITY, QUANTITY], QUANTITY), (vec![QUANTITY, Int], QUANTITY)],
        "isLessThan" | "isGreaterThan" => {
            vec![(vec![QUANTITY, QUANTITY], Bool), (vec![VERSION, VERSION], Bool)]
        }
        "compareTo" => vec![(vec![QUANTITY, QUANTITY], Int), (vec![VERSION, VERSION], Int)],
        "major" | "minor" | "patch" => vec![(vec![VERSION], Int)],
        "family" => vec![(vec![ADDRESS], Int)],
        "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast" => {
            vec![(vec![ADDRESS], Bool)]
        }
        "containsIP" => vec![(vec![NETWORK, ADDRESS], Bool), (vec![NETWORK, Text], Bool)],
        "containsCIDR" => vec![(vec![NETWORK, NETWORK], Bool), (vec![NETWORK, Text], Bool)],
        "ip" => vec![(vec![NETWORK], ADDRESS)],
        "masked" => vec![(vec![NETWORK], NETWORK)],
        "prefixLength" => vec![(vec![NETWORK], Int)],
        "hasValue" => vec![(vec![any_optional()], Bool)],
        "value" => vec![(vec![any_optional()], Dyn)],
        "orValue" => vec![(vec![any_optional(), Dyn], Dyn)],
        "or" => vec![(vec![any_optional(), any_optional()], any_optional())],
        "scores" if variable == CelVariable::ManagedCluster => vec![(vec![Dyn, Text], any_list())],
        "parseJSON" if variable == CelVariable::ManagedCluster => vec![(vec![Text], Dyn)],
        _ => Vec::new(),
    }
}
