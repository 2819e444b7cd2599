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
const SHORT: usize = 64;

fn same<T, U>(from: &Spanned<T>, node: U) -> Spanned<U> {
    Spanned::new(node, from.span())
}

fn body<'a>(statements: &[Stmt<'a>]) -> Vec<Stmt<'a>> {
    statements.iter().map(statement).collect()
}

fn all<'a>(expressions: &[Expr<'a>]) -> Vec<Expr<'a>> {
    expressions.iter().map(plain).collect()
}

/// The statement with limits.
pub(super) fn statement<'a>(statement: &Stmt<'a>) -> Stmt<'a> {
    match statement {
        Stmt::Template(s) => Stmt::Template(same(s, Template { children: body(&s.children) })),
        Stmt::EmitExpr(s) => Stmt::EmitExpr(same(s, EmitExpr { expr: plain(&s.expr) })),
        Stmt::EmitRaw(s) => {
            let text = Const { value: Value::from(s.raw) };
            Stmt::EmitExpr(same(s, EmitExpr { expr: Expr::Const(same(s, text)) }))
        }
        Stmt::ForLoop(s) => Stmt::ForLoop(same(
            s,
            ForLoop {
                target: plain(&s.target),
                iter: measured(&s.iter),
                filter_expr: s.filter_expr.as_ref().map(plain),
                recursive: s.recursive,
                body: body(&s.body),
                else_body: body(&s.else_body),
            },
        )),
        Stmt::IfCond(s) => Stmt::IfCond(same(
            s,
            IfCond { expr: plain(&s.expr), true_body: body(&s.true_body), false_body: body(&s.false_body) },
        )),
        Stmt::WithBlock(s) => {
            let assignments = s.assignments.iter().map(|(to, value)| (plain(to), measured(value))).collect();
            Stmt::WithBlock(same(s, WithBlock { assignments, body: body(&s.body) }))
        }
        Stmt::Set(s) => Stmt::Set(same(s, Set { target: plain(&s.target), expr: measured(&s.expr) })),
        Stmt::SetBlock(s) => Stmt::SetBlock(same(
            s,
            SetBlock { target: plain(&s.target), filter: s.filter.as_ref().map(plain), body: body(&s.body) },
        )),
        Stmt::AutoEscape(s) => {
            Stmt::AutoEscape(same(s, AutoEscape { enabled: plain(&s.enabled), body: body(&s.body) }))
        }
        Stmt::FilterBlock(s) => {
            Stmt::FilterBlock(same(s, FilterBlock { filter: plain(&s.filter), body: body(&s.body) }))
        }
        Stmt::Block(s) => {
            Stmt::Block(same(s, Block { name: s.name, required: s.required, body: body(&s.body) }))
        }
        Stmt::Import(s) => Stmt::Import(same(s, Import { expr: plain(&s.expr), name: plain(&s.name) })),
        Stmt::FromImport(s) => {
            let names = s.names.iter().map(|(name, to)| (plain(name), to.as_ref().map(plain))).collect();
            Stmt::FromImport(same(s, FromImport { expr: plain(&s.expr), names }))
        }
        Stmt::Extends(s) => Stmt::Extends(same(s, Extends { name: plain(&s.name) })),
        Stmt::Include(s) => {
            let include = Include { name: plain(&s.name), ignore_missing: s.ignore_missing };
            Stmt::Include(same(s, include))
        }
        Stmt::Macro(s) => Stmt::Macro(declaration(s)),
        Stmt::CallBlock(s) => Stmt::CallBlock(same(
            s,
            CallBlock { call: call(&s.call), macro_decl: declaration(&s.macro_decl) },
        )),
        Stmt::Do(s) => Stmt::Do(same(s, Do { call: call(&s.call) })),
    }
}

fn declaration<'a>(s: &Spanned<Macro<'a>>) -> Spanned<Macro<'a>> {
    let defaults = s.defaults.iter().map(measured).collect();
    same(s, Macro { name: s.name, args: all(&s.args), defaults, body: body(&s.body) })
}

fn call<'a>(e: &Spanned<Call<'a>>) -> Spanned<Call<'a>> {
    same(e, Call { expr: plain(&e.expr), args: arguments(&e.args) })
}

fn arguments<'a>(arguments: &[CallArg<'a>]) -> Vec<CallArg<'a>> {
    let argument = |argument: &CallArg<'a>| match argument {
        CallArg::Pos(e) => CallArg::Pos(measured(e)),
        CallArg::Kwarg(name, e) => CallArg::Kwarg(name, measured(e)),
        CallArg::PosSplat(e) => CallArg::PosSplat(measured(e)),
        CallArg::KwargSplat(e) => CallArg::KwargSplat(measured(e)),
    };
    arguments.iter().map(argument).collect()
}

/// An expression whose value is only passed on or accessed; values are measured when they are emitted.
fn plain<'a>(expression: &Expr<'a>) -> Expr<'a> {
    match expression {
        Expr::Var(e) => Expr::Var(same(e, Var { id: e.id })),
        Expr::Const(e) => Expr::Const(same(e, Const { value: e.value.clone() })),
        Expr::Slice(e) => Expr::Slice(same(
            e,
            Slice {
                expr: measured(&e.expr),
                start: e.start.as_ref().map(plain),
                stop: e.stop.as_ref().map(plain),
                step: e.step.as_ref().map(plain),
            },
        )),
        Expr::UnaryOp(e) => {
            // The engine's type is not `Copy`.
            #[expect(clippy::needless_match, reason = "it is behind a reference")]
            let op = match e.op {
                UnaryOpKind::Not => UnaryOpKind::Not,
                UnaryOpKind::Neg => UnaryOpKind::Neg,
            };
            Expr::UnaryOp(same(e, UnaryOp { op, expr: plain(&e.expr) }))
        }
        Expr::BinOp(e) => match e.op {
            BinOpKind::ScAnd | BinOpKind::ScOr => {
                Expr::BinOp(same(e, BinOp { op: e.op, left: plain(&e.left), right: plain(&e.right) }))
            }
            BinOpKind::Mul => {
                let args = vec![CallArg::Pos(measured(&e.right))];
                Expr::Filter(same(e, Filter { name: TIMES, expr: Some(measured(&e.left)), args }))
            }
            op => Expr::BinOp(same(e, BinOp { op, left: measured(&e.left), right: measured(&e.right) })),
        },
        Expr::Compare(e) => {
            let ops = e.ops.iter().map(|op| CompareOp { op: op.op, expr: measured(&op.expr) }).collect();
            Expr::Compare(same(e, Compare { expr: measured(&e.expr), ops }))
        }
        Expr::IfExpr(e) => Expr::IfExpr(same(
            e,
            IfExpr {
                test_expr: plain(&e.test_expr),
                true_expr: plain(&e.true_expr),
                false_expr: e.false_expr.as_ref().map(plain),
            },
        )),
        Expr::Filter(e) => {
            let (expr, args) = (e.expr.as_ref().map(measured), arguments(&e.args));
            Expr::Filter(same(e, Filter { name: e.name, expr, args }))
        }
        Expr::Test(e) => {
            let (expr, args) = (measured(&e.expr), arguments(&e.args));
            Expr::Test(same(e, Test { name: e.name, expr, args }))
        }
        Expr::GetAttr(e) => Expr::GetAttr(same(e, GetAttr { expr: plain(&e.expr), name: e.name })),
        Expr::GetItem(e) => {
            Expr::GetItem(same(e, GetItem { expr: plain(&e.expr), subscript_expr: plain(&e.subscript_expr) }))
        }
        Expr::Call(e) => Expr::Call(call(e)),
        Expr::List(e) => Expr::List(same(e, List { items: all(&e.items) })),
        Expr::Tuple(e) => Expr::Tuple(same(e, Tuple { items: all(&e.items) })),
        Expr::Map(e) => Expr::Map(same(e, Map { keys: all(&e.keys), values: all(&e.values) })),
    }
}

/// An expression whose value is measured before it is used.
fn measured<'a>(expression: &Expr<'a>) -> Expr<'a> {
    let small = match expression {
        Expr::Const(e) => match e.value.kind() {
            ValueKind::String => e.value.as_str().is_none_or(|text| text.len() <= SHORT),
            ValueKind::Seq | ValueKind::Map => false,
            _ => true,
        },
        Expr::UnaryOp(_) | Expr::Test(_) | Expr::Compare(_) => true,
        _ => false,
    };
    if small {
        return plain(expression);
    }
    let filter = Filter { name: MEASURE, expr: Some(plain(expression)), args: Vec::new() };
    Expr::Filter(Spanned::new(filter, expression.span()))
}
