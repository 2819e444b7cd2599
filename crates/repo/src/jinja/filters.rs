//! Filters whose result can be much larger than their input: the result is estimated before they run.

use std::sync::LazyLock;

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, Output, State, filters};

use super::guard::{MEASURE, TIMES};
use super::measure::{MAX_VALUE, charge_bytes, compute_size, limit_error, measure_value, too_large};

/// The largest count or width that a filter accepts.
const MAX_COUNT: usize = 10_000;

/// The cost of a call.
struct Estimate {
    /// The size of the result.
    result: usize,
    /// The size of the data that is handled.
    work: usize,
}

impl From<usize> for Estimate {
    fn from(result: usize) -> Self {
        Self { result, work: result }
    }
}

/// Adds the limits to an environment.
pub(super) fn add_limits(environment: &mut Environment<'static>) {
    add_bounded_filter(environment, "indent", Value::from_function(filters::indent), estimate_indent);
    add_bounded_filter(environment, "tojson", Value::from_function(filters::tojson), estimate_tojson);
    add_bounded_filter(environment, "batch", Value::from_function(filters::batch), by_count);
    add_bounded_filter(environment, "slice", Value::from_function(filters::slice), by_count);
    add_bounded_filter(environment, "round", Value::from_function(filters::round), by_count);
    add_bounded_filter(environment, "replace", Value::from_function(filters::replace), estimate_replace);
    add_bounded_filter(environment, "join", Value::from_function(filters::join), estimate_join);
    add_bounded_filter(environment, "format", Value::from_function(filters::format), estimate_format);
    add_bounded_filter(environment, "map", Value::from_function(filters::map), estimate_each);
    add_bounded_filter(environment, "select", Value::from_function(filters::select), estimate_each);
    add_bounded_filter(environment, "reject", Value::from_function(filters::reject), estimate_each);
    add_bounded_filter(environment, "selectattr", Value::from_function(filters::selectattr), estimate_each);
    add_bounded_filter(environment, "rejectattr", Value::from_function(filters::rejectattr), estimate_each);
    environment.add_filter(MEASURE, |state: &mut State, value: &Value| measure_value(state, value));
    environment.add_filter(TIMES, multiply_values);
    environment.set_formatter(|out: &mut Output, state: &mut State, value: &Value| {
        let value = measure_value(state, value)?;
        minijinja::escape_formatter(out, state, &value)
    });
}

/// Estimates the cost before a filter runs. The filter keeps its name, because `map` takes names as text.
fn add_bounded_filter(
    environment: &mut Environment<'static>,
    name: &'static str,
    own: Value,
    estimate: fn(&[Value]) -> Result<Estimate, Error>,
) {
    environment.add_filter(name, move |state: &mut State, arguments: Rest<ValueOrKwargs>| {
        let arguments = arguments.into_values();
        let Estimate { result, work } = estimate(&arguments)?;
        if result > MAX_VALUE {
            return Err(too_large());
        }
        charge_bytes(state, work)?;
        own.call(state, &arguments)
    });
}

/// The arguments except the filtered value; named ones come last.
fn collect_options(arguments: &[Value]) -> Vec<Value> {
    let mut all = Vec::new();
    for argument in arguments.iter().skip(1) {
        if argument.is_kwargs() {
            let names = argument.try_iter().into_iter().flatten();
            all.extend(names.filter_map(|name| argument.get_item(&name).ok()));
        } else {
            all.push(argument.clone());
        }
    }
    all
}

/// The largest number among the arguments, all of which are counts or widths.
fn find_largest_count(arguments: &[Value]) -> Result<usize, Error> {
    let mut largest = 0;
    for option in collect_options(arguments) {
        if option.kind() == ValueKind::Number {
            let number = i128::try_from(option).map_or(u128::MAX, i128::unsigned_abs);
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            if number > MAX_COUNT {
                return Err(limit_error(format!("a filter's argument is larger than {MAX_COUNT}")));
            }
            largest = largest.max(number);
        }
    }
    Ok(largest)
}

fn by_count(arguments: &[Value]) -> Result<Estimate, Error> {
    let input = arguments.first().map_or(Ok(0), compute_size)?;
    Ok((input + find_largest_count(arguments)? * 32).into())
}

fn count_lines(value: Option<&Value>) -> usize {
    value.and_then(Value::as_str).map_or(1, |text| text.matches('\n').count() + 1)
}

fn estimate_indent(arguments: &[Value]) -> Result<Estimate, Error> {
    let input = arguments.first().map_or(Ok(0), compute_size)?;
    let width = find_largest_count(arguments)?.max(4);
    Ok(input.saturating_add(count_lines(arguments.first()).saturating_mul(width)).into())
}

fn estimate_tojson(arguments: &[Value]) -> Result<Estimate, Error> {
    let input = arguments.first().map_or(Ok(0), compute_size)?;
    // A node counts at least 16, and is indented once for each level above it.
    Ok(input.saturating_add(input / 16 * find_largest_count(arguments)? * 8).into())
}

#[expect(clippy::unnecessary_wraps, reason = "an estimate like the others")]
fn estimate_replace(arguments: &[Value]) -> Result<Estimate, Error> {
    let [value, from, to] =
        [0, 1, 2].map(|at| arguments.get(at).and_then(Value::as_bytes).map_or(0, <[u8]>::len));
    let times = value.checked_div(from).unwrap_or(value + 1);
    Ok(value.saturating_add(times.saturating_mul(to)).into())
}

fn estimate_join(arguments: &[Value]) -> Result<Estimate, Error> {
    let input = arguments.first().map_or(Ok(0), compute_size)?;
    let items = arguments.first().and_then(Value::len).unwrap_or(input);
    let joiner = collect_options(arguments).iter().filter_map(Value::as_bytes).map(<[u8]>::len).max();
    Ok(input.saturating_add(items.saturating_mul(joiner.unwrap_or(0))).into())
}

/// Every conversion may insert the largest argument, at every width in the text.
fn estimate_format(arguments: &[Value]) -> Result<Estimate, Error> {
    let text = arguments.first().and_then(Value::as_str).unwrap_or_default();
    let (mut widths, mut number) = (0usize, 0usize);
    for byte in text.bytes() {
        number = match byte {
            b'0'..=b'9' => number.saturating_mul(10).saturating_add(usize::from(byte - b'0')),
            _ => 0,
        };
        widths = widths.saturating_add(number);
    }
    let mut largest = 0;
    for option in collect_options(arguments) {
        largest = largest.max(compute_size(&option)?);
    }
    if text.contains('*') {
        widths =
            widths.saturating_add(text.matches('*').count().saturating_mul(find_largest_count(arguments)?));
    }
    let shown = text.matches('%').count().saturating_mul(largest);
    Ok(text.len().saturating_add(widths).saturating_add(shown).into())
}

/// Applies a filter or test to each item.
fn estimate_each(arguments: &[Value]) -> Result<Estimate, Error> {
    let items = arguments.first().and_then(Value::len).unwrap_or(0);
    let mut work = 0;
    for option in collect_options(arguments) {
        work += compute_size(&option)?;
    }
    Ok(Estimate { result: 0, work: items.saturating_mul(work) })
}

/// Multiplies like the engine, if a repeated value does not become too large.
fn multiply_values(state: &mut State, left: &Value, right: &Value) -> Result<Value, Error> {
    static OPERATOR: LazyLock<Environment<'static>> = LazyLock::new(Environment::empty);
    let mut most = 0;
    for (value, count) in [(left, right), (right, left)] {
        let once = match (value.kind(), value.as_bytes()) {
            (ValueKind::Number, _) => 0,
            (_, Some(text)) => text.len(),
            (_, None) => compute_size(value)?,
        };
        most = once.saturating_mul(count.as_usize().unwrap_or(1)).max(most);
    }
    if most > MAX_VALUE {
        return Err(too_large());
    }
    charge_bytes(state, most)?;
    let operands = minijinja::context! { left => left, right => right };
    let product = OPERATOR.compile_expression("left * right")?.eval(operands);
    // Its place would refer to the expression above.
    product.map_err(|e| Error::new(e.kind(), e.detail().unwrap_or_default().to_owned()))
}
