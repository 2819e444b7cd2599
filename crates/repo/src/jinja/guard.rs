//! Adds limits to a parsed template.
//!
//! The engine counts steps but not the size of data: `x ~ x` doubles a value in each step. Therefore every
//! operand that a step may copy, compare or convert first passes through the filter [`MEASURE`], `*` becomes
//! the filter [`TIMES`], and literal text is emitted like other values, so that loops over it are counted.
//! Templates cannot write the names of these filters.

use minijinja::machinery::ast::{
    AutoEscape, BinOp, BinOpKind, Block, Call, CallArg, CallBlock, Compare, CompareOp, Const, Do, EmitExpr,
    Expr, Extends, Filter, FilterBlock, ForLoop, FromImport, GetAttr, GetItem, IfCond, IfExpr, Import,
    Include, List, Macro, Map, Set, SetBlock, Slice, Spanned, Stmt, Template, Test, Tuple, UnaryOp,
    UnaryOpKind, Var, WithBlock,
};
use minijinja::value::{Value, ValueKind};

/// Measures a value and returns it.
pub(super) const MEASURE: &str = "<measure>";

/// Multiplies, and repeats texts and lists within the limits.
pub(super) const TIMES: &str = "<times>";

/// Text constants up to this length are not measured.
const MAX_UNMEASURED_BYTES: usize = 64;

fn with_span_of<T, U>(from: &Spanned<T>, node: U) -> Spanned<U> {
    Spanned::new(node, from.span())
}

fn guard_body<'a>(statements: &[Stmt<'a>]) -> Vec<Stmt<'a>> {
    statements.iter().map(guard_statement).collect()
}

fn guard_expressions<'a>(expressions: &[Expr<'a>]) -> Vec<Expr<'a>> {
    expressions.iter().map(guard_expression).collect()
}

/// The statement with limits.
pub(super) fn guard_statement<'a>(statement: &Stmt<'a>) -> Stmt<'a> {
    match statement {
        Stmt::Template(s) => Stmt::Template(with_span_of(s, Template { children: guard_body(&s.children) })),
        Stmt::EmitExpr(s) => Stmt::EmitExpr(with_span_of(s, EmitExpr { expr: guard_expression(&s.expr) })),
        Stmt::EmitRaw(s) => {
            let text = Const { value: Value::from(s.raw) };
            Stmt::EmitExpr(with_span_of(s, EmitExpr { expr: Expr::Const(with_span_of(s, text)) }))
        }
        Stmt::ForLoop(s) => Stmt::ForLoop(with_span_of(
            s,
            ForLoop {
                target: guard_expression(&s.target),
                iter: measure_expression(&s.iter),
                filter_expr: s.filter_expr.as_ref().map(guard_expression),
                recursive: s.recursive,
                body: guard_body(&s.body),
                else_body: guard_body(&s.else_body),
            },
        )),
        Stmt::IfCond(s) => Stmt::IfCond(with_span_of(
            s,
            IfCond {
                expr: guard_expression(&s.expr),
                true_body: guard_body(&s.true_body),
                false_body: guard_body(&s.false_body),
            },
        )),
        Stmt::WithBlock(s) => {
            let assignments = s
                .assignments
                .iter()
                .map(|(to, value)| (guard_expression(to), measure_expression(value)))
                .collect();
            Stmt::WithBlock(with_span_of(s, WithBlock { assignments, body: guard_body(&s.body) }))
        }
        Stmt::Set(s) => Stmt::Set(with_span_of(
            s,
            Set { target: guard_expression(&s.target), expr: measure_expression(&s.expr) },
        )),
        Stmt::SetBlock(s) => Stmt::SetBlock(with_span_of(
            s,
            SetBlock {
                target: guard_expression(&s.target),
                filter: s.filter.as_ref().map(guard_expression),
                body: guard_body(&s.body),
            },
        )),
        Stmt::AutoEscape(s) => Stmt::AutoEscape(with_span_of(
            s,
            AutoEscape { enabled: guard_expression(&s.enabled), body: guard_body(&s.body) },
        )),
        Stmt::FilterBlock(s) => Stmt::FilterBlock(with_span_of(
            s,
            FilterBlock { filter: guard_expression(&s.filter), body: guard_body(&s.body) },
        )),
        Stmt::Block(s) => Stmt::Block(with_span_of(
            s,
            Block { name: s.name, required: s.required, body: guard_body(&s.body) },
        )),
        Stmt::Import(s) => Stmt::Import(with_span_of(
            s,
            Import { expr: guard_expression(&s.expr), name: guard_expression(&s.name) },
        )),
        Stmt::FromImport(s) => {
            let names = s
                .names
                .iter()
                .map(|(name, to)| (guard_expression(name), to.as_ref().map(guard_expression)))
                .collect();
            Stmt::FromImport(with_span_of(s, FromImport { expr: guard_expression(&s.expr), names }))
        }
        Stmt::Extends(s) => Stmt::Extends(with_span_of(s, Extends { name: guard_expression(&s.name) })),
        Stmt::Include(s) => {
            let include = Include { name: guard_expression(&s.name), ignore_missing: s.ignore_missing };
            Stmt::Include(with_span_of(s, include))
        }
        Stmt::Macro(s) => Stmt::Macro(guard_macro(s)),
        Stmt::CallBlock(s) => Stmt::CallBlock(with_span_of(
            s,
            CallBlock { call: guard_call(&s.call), macro_decl: guard_macro(&s.macro_decl) },
        )),
        Stmt::Do(s) => Stmt::Do(with_span_of(s, Do { call: guard_call(&s.call) })),
    }
}

fn guard_macro<'a>(s: &Spanned<Macro<'a>>) -> Spanned<Macro<'a>> {
    let defaults = s.defaults.iter().map(measure_expression).collect();
    with_span_of(
        s,
        Macro { name: s.name, args: guard_expressions(&s.args), defaults, body: guard_body(&s.body) },
    )
}

fn guard_call<'a>(e: &Spanned<Call<'a>>) -> Spanned<Call<'a>> {
    with_span_of(e, Call { expr: guard_expression(&e.expr), args: guard_arguments(&e.args) })
}

fn guard_arguments<'a>(arguments: &[CallArg<'a>]) -> Vec<CallArg<'a>> {
    arguments
        .iter()
        .map(|argument| match argument {
            CallArg::Pos(e) => CallArg::Pos(measure_expression(e)),
            CallArg::Kwarg(name, e) => CallArg::Kwarg(name, measure_expression(e)),
            CallArg::PosSplat(e) => CallArg::PosSplat(measure_expression(e)),
            CallArg::KwargSplat(e) => CallArg::KwargSplat(measure_expression(e)),
        })
        .collect()
}

/// An expression whose value is only passed on or accessed; values are measured when they are emitted.
fn guard_expression<'a>(expression: &Expr<'a>) -> Expr<'a> {
    match expression {
        Expr::Var(e) => Expr::Var(with_span_of(e, Var { id: e.id })),
        Expr::Const(e) => Expr::Const(with_span_of(e, Const { value: e.value.clone() })),
        Expr::Slice(e) => Expr::Slice(with_span_of(
            e,
            Slice {
                expr: measure_expression(&e.expr),
                start: e.start.as_ref().map(guard_expression),
                stop: e.stop.as_ref().map(guard_expression),
                step: e.step.as_ref().map(guard_expression),
            },
        )),
        Expr::UnaryOp(e) => {
            // The engine's type is not `Copy`.
            #[expect(clippy::needless_match, reason = "it is behind a reference")]
            let op = match e.op {
                UnaryOpKind::Not => UnaryOpKind::Not,
                UnaryOpKind::Neg => UnaryOpKind::Neg,
            };
            Expr::UnaryOp(with_span_of(e, UnaryOp { op, expr: guard_expression(&e.expr) }))
        }
        Expr::BinOp(e) => match e.op {
            BinOpKind::ScAnd | BinOpKind::ScOr => Expr::BinOp(with_span_of(
                e,
                BinOp { op: e.op, left: guard_expression(&e.left), right: guard_expression(&e.right) },
            )),
            BinOpKind::Mul => {
                let args = vec![CallArg::Pos(measure_expression(&e.right))];
                Expr::Filter(with_span_of(
                    e,
                    Filter { name: TIMES, expr: Some(measure_expression(&e.left)), args },
                ))
            }
            op => Expr::BinOp(with_span_of(
                e,
                BinOp { op, left: measure_expression(&e.left), right: measure_expression(&e.right) },
            )),
        },
        Expr::Compare(e) => {
            let ops =
                e.ops.iter().map(|op| CompareOp { op: op.op, expr: measure_expression(&op.expr) }).collect();
            Expr::Compare(with_span_of(e, Compare { expr: measure_expression(&e.expr), ops }))
        }
        Expr::IfExpr(e) => Expr::IfExpr(with_span_of(
            e,
            IfExpr {
                test_expr: guard_expression(&e.test_expr),
                true_expr: guard_expression(&e.true_expr),
                false_expr: e.false_expr.as_ref().map(guard_expression),
            },
        )),
        Expr::Filter(e) => {
            let (expr, args) = (e.expr.as_ref().map(measure_expression), guard_arguments(&e.args));
            Expr::Filter(with_span_of(e, Filter { name: e.name, expr, args }))
        }
        Expr::Test(e) => {
            let (expr, args) = (measure_expression(&e.expr), guard_arguments(&e.args));
            Expr::Test(with_span_of(e, Test { name: e.name, expr, args }))
        }
        Expr::GetAttr(e) => {
            Expr::GetAttr(with_span_of(e, GetAttr { expr: guard_expression(&e.expr), name: e.name }))
        }
        Expr::GetItem(e) => Expr::GetItem(with_span_of(
            e,
            GetItem { expr: guard_expression(&e.expr), subscript_expr: guard_expression(&e.subscript_expr) },
        )),
        Expr::Call(e) => Expr::Call(guard_call(e)),
        Expr::List(e) => Expr::List(with_span_of(e, List { items: guard_expressions(&e.items) })),
        Expr::Tuple(e) => Expr::Tuple(with_span_of(e, Tuple { items: guard_expressions(&e.items) })),
        Expr::Map(e) => Expr::Map(with_span_of(
            e,
            Map { keys: guard_expressions(&e.keys), values: guard_expressions(&e.values) },
        )),
    }
}

/// An expression whose value is measured before it is used.
fn measure_expression<'a>(expression: &Expr<'a>) -> Expr<'a> {
    let small = match expression {
        Expr::Const(e) => match e.value.kind() {
            ValueKind::String => e.value.as_str().is_none_or(|text| text.len() <= MAX_UNMEASURED_BYTES),
            ValueKind::Seq | ValueKind::Map => false,
            _ => true,
        },
        Expr::UnaryOp(_) | Expr::Test(_) | Expr::Compare(_) => true,
        _ => false,
    };
    if small {
        return guard_expression(expression);
    }
    let filter = Filter { name: MEASURE, expr: Some(guard_expression(expression)), args: Vec::new() };
    Expr::Filter(Spanned::new(filter, expression.span()))
}
