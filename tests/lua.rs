//! What the language is, and scripts that mean no good: each ends soon, and the machines go on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::time::{Duration, Instant};

use federate_lua::{Answer, Argument, Call, Category, Failure, Machines};
use serde_json::{Value, json};

fn ask(script: &str, object: &Value) -> Result<Answer, Failure> {
    let machines = Machines::new();
    let call = Call { script, function: "F", arguments: &[Argument::Value(object)], results: 1, now: None };
    machines.call(&call).map(|answers| answers[0].clone())
}

/// The result of an expression over `o`.
fn result(expression: &str, object: &Value) -> Result<Answer, Failure> {
    ask(&format!("function F(o) return {expression} end"), object)
}

fn text(expression: &str) -> String {
    match result(expression, &json!({})) {
        Ok(Answer::Text(text)) => text,
        other => panic!("{expression}: {other:?}"),
    }
}

fn holds(expression: &str) {
    assert_eq!(result(expression, &json!({})), Ok(Answer::Boolean(true)), "{expression}");
}

fn failure(script: &str) -> Failure {
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
        Ok(Answer::Table(table)) => table.map_err(|failure| failure.message),
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
    assert_eq!((failed.category, failed.line), (Category::Runtime, Some(3)));
    let failed = failure("function F(o)\n  local x =\nend");
    assert_eq!((failed.category, failed.line), (Category::Syntax, Some(3)));
    assert_eq!(failure("local function F(o) return o end").category, Category::FunctionMissing);
    assert_eq!(failure("F = 3").category, Category::NotAFunction);
    assert_eq!(failure("function F(o) assert(false, 'no') end").line, Some(1));
    assert_eq!(failure("function F(o) return os.time() end").category, Category::Runtime);
}

#[test]
fn runs_do_not_see_each_other() {
    let machines = Machines::new();
    let run = |script: &str| {
        machines.call(&Call { script, function: "F", arguments: &[], results: 1, now: Some(60) })
    };
    assert!(
        run("leaked = 1; string.upper = nil; function F() return os.time() end")
            .is_ok_and(|a| a[0] == Answer::Number(60.0))
    );
    assert_eq!(
        run("function F() return leaked == nil and ('x'):upper() == 'X' end").unwrap()[0],
        Answer::Boolean(true)
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
        Category::Timeout,
        "tail calls are no calls"
    );
}

/// Scripts that would take all time or memory, or break out.
const HOSTILE: [&str; 36] = [
    "while true do end",
    "repeat until false",
    "function F() while true do pcall(function() while true do end end) end end",
    "function F() xpcall(function() while true do end end, function() while true do end end) end",
    "function F() return F() end",
    "function F() return 1 + F() end",
    "function F() pcall(F) end",
    "function F() local s = 'x' while true do s = s .. s end end",
    "function F() local s = 'x' while true do pcall(function() s = s .. s end) end end",
    "function F() local t = {} while true do t[#t + 1] = {} end end",
    "function F() local t = {} while true do pcall(function() t[#t + 1] = {t} end) end end",
    "function F() local t = {} for i = 1, 1e9 do t[i] = i end end",
    "function F() local s = ('x'):rep(1e9) end",
    "function F() string.rep('x', -1) end",
    "function F() local s = '' for i = 1, 100 do s = s .. 'aaaaaaaaaa' end while true do s:find('a*a*a*a*a*a*a*a*b') end end",
    "function F() local s = '' for i = 1, 1e5 do s = s .. 'a' end return s:match('(.-)(.-)(.-)(.-)(.-)(.-)b') end",
    "function F() return ('x'):match(('(a?'):reverse()) end",
    "function F() local t = {} for i = 1, 2e6 do t[i] = -i end while true do table.sort(t) end end",
    "function F() local t = {} for i = 1, 1e5 do t[i] = 'aaaaaaaaaaaaaaaaaaaa' end while true do table.concat(t) end end",
    "function F() local s = '' for i = 1, 5e4 do s = s .. 'aaaaaaaaaaaaaaaaaaaa' end while true do local b = (s .. 'a') < (s .. 'b') end end",
    "function F() local t = {} for i = 1, 3000 do t[i] = i end while true do local u = {unpack(t)} end end",
    "function F() return string.format('%1000000000d', 1) end",
    "function F() while true do string.format('%s', 'x') end end",
    "function F() setmetatable({}, {__index = function() end}) end",
    "function F() getmetatable('').__index = nil end",
    "function F() return coroutine.wrap(function() end)() end",
    "function F() return loadstring('return 1')() end",
    "function F() return load(function() return '\\27Lua' end) end",
    "function F() return require('io') end",
    "function F() error({}) end",
    "function F() error(nil) end",
    "function F() error(function() end) end",
    "error(print)",
    "function F() local t = {} local u = t for i = 1, 1e5 do u.x = {} u = u.x end return t end",
    "function F() local t = {} for i = 1, 1e6 do t[i] = i end return t end",
    "function F() local s = '' for i = 1, 1000 do s = s .. 'aaaaaaaaaa' end local t = {} for i = 1, 1e4 do t[i] = s end return t end",
];

#[test]
fn what_means_no_good_ends_soon() {
    let machines = Machines::new();
    for script in HOSTILE {
        let begun = Instant::now();
        let call = Call { script, function: "F", arguments: &[], results: 1, now: None };
        let harmless = |answer: &Answer| matches!(answer, Answer::Nil | Answer::Text(_));
        let ended = match machines.call(&call) {
            Ok(answers) => matches!(answers[0], Answer::Table(Err(_))) || answers.iter().all(harmless),
            Err(_) => true,
        };
        assert!(ended, "{script}");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}: {script}");
        let call = Call { script: "function F() return true end", ..call };
        assert_eq!(machines.call(&call).unwrap()[0], Answer::Boolean(true), "after {script}");
    }
}
