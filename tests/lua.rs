//! The language that scripts see, and hostile scripts: each ends within its limits, and the machines work on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::time::Duration;

use federate_lua::{FailureCategory, LuaPool, ScriptAnswer, ScriptArgument, ScriptCall, ScriptFailure};
use serde_json::{Value, json};

mod hostile;

fn ask(script: &str, object: &Value) -> Result<ScriptAnswer, ScriptFailure> {
    let machines = LuaPool::new();
    let call = ScriptCall {
        script,
        function: "F",
        arguments: &[ScriptArgument::Value(object)],
        results: 1,
        now: None,
    };
    machines.call_function(&call).map(|answers| answers[0].clone())
}

/// The result of an expression over `o`.
fn result(expression: &str, object: &Value) -> Result<ScriptAnswer, ScriptFailure> {
    ask(&format!("function F(o) return {expression} end"), object)
}

fn text(expression: &str) -> String {
    match result(expression, &json!({})) {
        Ok(ScriptAnswer::Text(text)) => text,
        other => panic!("{expression}: {other:?}"),
    }
}

fn holds(expression: &str) {
    assert_eq!(result(expression, &json!({})), Ok(ScriptAnswer::Boolean(true)), "{expression}");
}

fn failure(script: &str) -> ScriptFailure {
    ask(script, &json!({})).expect_err(script)
}

#[test]
fn numbers_are_written_as_the_real_machine_writes_them() {
    assert_eq!(
        text("tostring(100) .. '|' .. 2^53 .. '|' .. 1/3 .. '|' .. -0.0"),
        "100|9007199254740992|0.3333333333333333|0"
    );
    assert_eq!(text("1e20 .. ''"), "1e+20");
    assert_eq!(text("table.concat({1, 2.5, 'x'}, ',')"), "1,2.5,x");
    assert_eq!(
        text("string.format('%d %i %x %c %s %q %5.2f|%-4s|%04d', 3, 4, 255, 65, 1.5, 'a\"', 2.345, 'ab', 7)"),
        "3 4 ff A 1.5 \"a\\\"\"  2.35|ab  |0007"
    );
    assert_eq!(text("string.format('%u', 3)"), "%!u(int64=3)");
    assert_eq!(text("string.upper('é')"), "É");
    for expression in [
        "tonumber('1.0e3') == 1000",
        "tonumber('1e3') == nil",
        "'1e3' + 0 == 1000",
        "tonumber('0x10') == 16",
        "math.huge == 1.7976931348623157e308",
        "('x'):upper() == 'X'",
        "#'日本' == 6",
        "rawget ~= nil and not pcall(rawget, {}, 'a')",
        "io == nil and debug == nil and coroutine == nil and os.getenv == nil",
        "require('string') == string and require('kube').resourceAdd('1Gi', '512Mi') == '1536Mi'",
        "_VERSION == 'Lua 5.1'",
        "select('#', unpack({1, 2, 3})) == 3",
        "table.concat({'b', 'a', 'c'}) == 'bac'",
        "#(function() local t = {3, 1, 2} table.sort(t) return table.concat(t) end)() == 3",
        "(function() local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t[1] end)() == 3",
        "(function() local t = {1, 2} table.insert(t, 1, 0) table.remove(t) return #t end)() == 2",
        "string.find('a.b', '.', 1, true) == 2",
        "(function() local n = 0 for w in string.gmatch('a bb c', '%a+') do n = n + #w end return n end)() == 4",
        "select(2, pcall(error, {code = 1})).code == 1",
        "select(2, pcall(string.rep, 'a', 3)):find('string.rep', 1, true) ~= nil",
    ] {
        holds(expression);
    }
}

#[test]
fn values_come_in_and_go_out() {
    let object = json!({"list": [1, null, 3], "none": null, "map": {}, "big": 9_007_199_254_740_993_i64});
    let table = |expression: &str| match result(expression, &object) {
        Ok(ScriptAnswer::Table(table)) => table.map_err(|failure| failure.message),
        other => panic!("{expression}: {other:?}"),
    };
    assert_eq!(table("o"), Ok(json!({"list": [1, 3], "map": [], "big": 9_007_199_254_740_992_i64})));
    assert_eq!(table("{ 2147483648.0, 3.5, 1e21 }"), Ok(json!([2_147_483_648_i64, 3.5, 1e21])));
    assert_eq!(table("{ ok = true, [1] = 2 }"), Err("a table has both strings and numbers as keys".into()));
    assert!(table("{ nil, 2 }").is_err());
    assert!(table("{ [true] = 1 }").is_err());
    assert!(table("{ f = print }").is_err());
    assert!(table("{ n = 0/0 }").is_err());
    assert!(table("{ a = o.map, b = o.map }").is_err());
}

#[test]
fn failures_have_a_category_and_a_line() {
    let failed = failure("\nfunction F(o)\n  return o.spec.replicas\nend");
    assert_eq!((failed.category, failed.line), (FailureCategory::Runtime, Some(3)));
    let failed = failure("function F(o)\n  local x =\nend");
    assert_eq!((failed.category, failed.line), (FailureCategory::Syntax, Some(3)));
    assert_eq!(failure("local function F(o) return o end").category, FailureCategory::FunctionMissing);
    assert_eq!(failure("F = 3").category, FailureCategory::NotAFunction);
    assert_eq!(failure("function F(o) assert(false, 'no') end").line, Some(1));
    assert_eq!(failure("function F(o) return os.time() end").category, FailureCategory::Runtime);
}

#[test]
fn runs_do_not_see_each_other() {
    let machines = LuaPool::new();
    let run = |script: &str| {
        machines.call_function(&ScriptCall {
            script,
            function: "F",
            arguments: &[],
            results: 1,
            now: Some(60),
        })
    };
    assert!(
        run("leaked = 1; string.upper = nil; function F() return os.time() end")
            .is_ok_and(|a| a[0] == ScriptAnswer::Number(60.0))
    );
    assert_eq!(
        run("function F() return leaked == nil and ('x'):upper() == 'X' end").unwrap()[0],
        ScriptAnswer::Boolean(true)
    );
    assert!(run("G = 1").is_err());
}

#[test]
fn calls_are_limited_as_the_real_machine_limits_them() {
    let deep = |n: usize| {
        let script = format!(
            "local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end function F() return f({n}) end"
        );
        ask(&script, &json!({})).map(|_| ()).map_err(|failure| failure.message)
    };
    assert_eq!(deep(250), Ok(()));
    assert_eq!(deep(300), Err("stack overflow".to_owned()));
    holds("(function() local function f() return 1 + f() end return pcall(f) end)() == false");
    assert_eq!(
        failure("function F(o) return F(o) end").category,
        FailureCategory::Timeout,
        "tail calls are no calls"
    );
}

/// The processor time of this thread so far.
#[cfg(target_os = "linux")]
fn processor_time() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(statistics.split_whitespace().next().unwrap().parse().unwrap())
}

/// On other systems, the elapsed time.
#[cfg(not(target_os = "linux"))]
fn processor_time() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

#[test]
fn hostile_scripts_end_within_a_second() {
    let machines = LuaPool::new();
    for script in hostile::SCRIPTS {
        let begun = processor_time();
        let call = ScriptCall { script, function: "F", arguments: &[], results: 1, now: None };
        let harmless = |answer: &ScriptAnswer| matches!(answer, ScriptAnswer::Nil | ScriptAnswer::Text(_));
        let ended = match machines.call_function(&call) {
            Ok(answers) => matches!(answers[0], ScriptAnswer::Table(_)) || answers.iter().all(harmless),
            Err(_) => true,
        };
        assert!(ended, "{script}");
        let took = processor_time().saturating_sub(begun);
        assert!(took < Duration::from_secs(1), "{took:?}: {script}");
        let call = ScriptCall { script: "function F() return true end", ..call };
        assert_eq!(machines.call_function(&call).unwrap()[0], ScriptAnswer::Boolean(true), "after {script}");
    }
}

/// More threads than machines: all are served, also after machines were dropped.
#[test]
fn threads_share_machines() {
    let machines = LuaPool::new();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for script in ["function F() return 1 end", "function F() while true do end end"] {
                    let call = ScriptCall { script, function: "F", arguments: &[], results: 1, now: None };
                    let answer = machines.call_function(&call);
                    assert!(
                        matches!(answer, Ok(ref all) if all[0] == ScriptAnswer::Number(1.0))
                            || answer.is_err()
                    );
                }
            });
        }
    });
}
