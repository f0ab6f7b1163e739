//! The sandbox: what scripts can reach, which limits stop them, and which values cross the boundary.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use xavantes_model::script::{
    Argument, Code, Error, ErrorKind, Form, Port, RemoteObjects, Sandbox, ScriptLimits, check,
};
use xavantes_model::shared_objects::{Method, Objects};
use xavantes_model::value::{SharedKind, SharedRef, Type, Value};

fn port(name: &str) -> Port {
    Port { name: name.into(), field: None }
}

fn sandbox() -> Sandbox {
    Sandbox::new(ScriptLimits { steps: 100_000, memory: 16 << 20, time: Duration::from_secs(5) }, false).unwrap()
}

fn evaluate(text: &str) -> Result<Value, Error> {
    let code = Code::expressions(&[text], 1, &[]);
    sandbox().run(&code, [], &mut Objects::default()).map(|(mut values, _)| values.remove(0))
}

/// Runs statements that assign `result`; their first line is line 10 of the document.
fn run(text: &str) -> Result<Value, Error> {
    let code = Code::statements(text, 10, &[port("result")], &[port("result")]);
    let nothing = Value::Null;
    let mut objects = Objects::new("p".into());
    sandbox().run(&code, [Argument::Value(&nothing)], &mut objects).map(|(mut values, _)| values.remove(0))
}

#[test]
fn code_reaches_nothing_outside_the_sandbox() {
    for name in [
        "io",
        "os",
        "debug",
        "package",
        "require",
        "loadstring",
        "load",
        "dofile",
        "loadfile",
        "getfenv",
        "setfenv",
        "collectgarbage",
        "gcinfo",
        "newproxy",
        "_G",
        "math.random",
        "math.randomseed",
        "string.dump",
        "vector",
        "integer",
    ] {
        let found = evaluate(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(found, Value::Null, "{name}");
    }
}

#[test]
fn a_script_leaves_no_trace_for_the_next_one() {
    let mut sandbox = sandbox();
    let mut objects = Objects::default();
    for attack in [
        "string.upper = nil",
        "math.pi = 3",
        "getmetatable('').__index = nil",
        "rawset(string, 'upper', nil)",
        "table.insert(string, 1)",
        "setmetatable(string, {})",
        "table.clear(math)",
        "leak = 1",
        "RemoteSet.new = nil",
    ] {
        let code = Code::statements(attack, 1, &[], &[]);
        assert!(sandbox.run(&code, [], &mut objects).is_err(), "{attack} went through");
    }
    let code = Code::expressions(&["('x'):upper() .. math.pi", "leak"], 1, &[]);
    let (values, _) = sandbox.run(&code, [], &mut objects).unwrap();
    assert_eq!(values, [Value::from("X3.141592653589793"), Value::Null]);
}

#[test]
fn limits_stop_hostile_scripts_and_errors_name_the_line() {
    for (text, kind, line) in [
        ("while true do end", ErrorKind::Steps, 10),
        ("local x = 1\nwhile true do\nx = x + 1\nend", ErrorKind::Steps, 11),
        ("while true do pcall(function() while true do end end) end", ErrorKind::Steps, 10),
        ("local f f = function() return f() end f()", ErrorKind::Code, 10),
        ("\n\nlocal co = coroutine.wrap(function() while true do end end)\nco()", ErrorKind::Steps, 12),
        ("for i = 1, 1e9 do xpcall(error, function() while true do end end) end", ErrorKind::Steps, 10),
        ("string.rep('x', 1e9)", ErrorKind::Memory, 10),
        ("\nlocal s = ('x'):rep(1e10)", ErrorKind::Memory, 11),
        ("local s = 'x' while true do s = s .. s end", ErrorKind::Memory, 10),
        ("local t = {} for i = 1, 1e9 do t[i] = table.create(1000, i) end", ErrorKind::Memory, 10),
        ("table.create(1e9)", ErrorKind::Memory, 10),
        ("buffer.create(1e9)", ErrorKind::Memory, 10),
        ("table.move({}, 1, 2^31 - 3, 2)", ErrorKind::Memory, 10),
        ("local s = string.rep('a', 30000) s:find('.-.-.-.-.-.-.-b')", ErrorKind::Steps, 10),
    ] {
        let began = Instant::now();
        let error = run(text).expect_err(text);
        assert_eq!(error.kind, kind, "{text}: {error:?}");
        // Luau reports no line for an allocation that fails inside one operation; the first line stands in.
        assert!(error.line == line || (kind == ErrorKind::Memory && error.line == 10), "{text}: {error:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "{text} took {:?}", began.elapsed());
    }
}

#[test]
fn only_exhausted_memory_counts_as_a_memory_error() {
    assert_eq!(run("error('not enough memory for this model')").unwrap_err().kind, ErrorKind::Code);
    let rethrown = run("local ok, problem = pcall(string.rep, 'x', 1e10) error(problem)").unwrap_err();
    assert_eq!(rethrown.kind, ErrorKind::Memory);
    let within_coroutine = run("coroutine.wrap(function() local s = 'x' while true do s = s .. s end end)()");
    assert_eq!(within_coroutine.unwrap_err().kind, ErrorKind::Memory);
    let survived = run("result = pcall(string.rep, 'x', 1e10) and 1 or 2").unwrap();
    assert_eq!(survived, Value::Int(2), "code may catch the error and go on");
}

#[test]
fn a_plain_search_is_linear() {
    let text = "local s = string.rep('a', 4000000) local w = string.rep('a', 2000000) .. 'b'
        result = #string.split(s, w) + (s:find(w, 1, true) or 0) + (s:find(w) or 0)";
    let began = Instant::now();
    assert_eq!(run(text).unwrap(), Value::Int(1));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn find_and_split_behave_as_in_lua() {
    for (text, expected) in [
        ("{string.find('hello', 'l')}", "[3,3]"),
        ("{string.find('hello', 'l', 4)}", "[4,4]"),
        ("{string.find('hello', 'l', -1)}", "[]"),
        ("{string.find('a.b', '.', 1, true)}", "[2,2]"),
        ("{string.find('a.b', '%.')}", "[2,2]"),
        ("{string.find('hello', '')}", "[1,0]"),
        ("{string.find('hello', '', 10)}", "[]"),
        ("{string.find('hello', '(l)(l)')}", r#"[3,4,"l","l"]"#),
        ("string.split('a,b,,c')", r#"["a","b","","c"]"#),
        ("string.split('a--b', '--')", r#"["a","b"]"#),
        ("string.split('abc', '')", r#"["a","b","c"]"#),
        ("string.split('', ',')", r#"[""]"#),
    ] {
        assert_eq!(evaluate(text).unwrap().to_json().to_string(), expected, "{text}");
    }
}

#[test]
fn addresses_are_not_visible() {
    for text in [
        "tostring({})",
        "tostring(print)",
        "string.format('%s', {})",
        "`{ {} }`",
        "string.format('%*', print)",
        "tostring(buffer.create(1))",
        "tostring(coroutine.create(print))",
    ] {
        let shown = evaluate(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(!shown.to_string().contains("0x"), "{text} shows {shown}");
    }
    assert_eq!(evaluate("string.format('%* %d %*', {}, 3, nil)").unwrap(), Value::from("table 3 nil"));
}

#[test]
fn errors_carry_their_message_and_line() {
    let error = run("local x = 1\nerror('boom')").unwrap_err();
    assert_eq!((error.message.as_str(), error.line), ("boom", 11));
    let error = run("\n\nlocal x = nil .. 'a'").unwrap_err();
    assert_eq!(error.line, 12);
    assert!(error.message.contains("concatenate"), "{error:?}");
    let error = run("result = RemoteSet.new():add(nil)").unwrap_err();
    assert!(error.message.contains("RemoteSet:add"), "{error:?}");
    assert_eq!(error.line, 10);
    assert!(run("result = function() end").unwrap_err().message.contains("function"));
    assert!(run("result = {1, 2, x = 3}").unwrap_err().message.contains("list or a map"));
    assert!(run("result = {[3] = 1}").unwrap_err().message.contains("gap"));
    assert!(run("local t = {} t[1] = t result = t").unwrap_err().message.contains("nest deeper"));
    assert!(run("error({})").is_err());
    assert!(run("error()").is_err());
}

#[test]
fn integers_beyond_doubles_have_a_type_of_their_own() {
    for (text, expected) in [
        ("int64('9223372036854775807')", i64::MAX),
        ("int64('-9223372036854775808')", i64::MIN),
        ("int64(2) * int64('4611686018427387903') + 1", i64::MAX),
        ("int64(-7) // 2", -4),
        ("int64(-7) % 3", 2),
        ("-int64(5) - 1", -6),
    ] {
        assert_eq!(evaluate(text).unwrap(), Value::Int(expected), "{text}");
    }
    assert_eq!(evaluate("int64(3) < int64('9007199254740993')").unwrap(), Value::Bool(true));
    assert_eq!(evaluate("'n=' .. int64('9007199254740993')").unwrap(), Value::from("n=9007199254740993"));
    assert!(evaluate("int64('9223372036854775807') + 1").unwrap_err().message.contains("overflow"));
    assert!(evaluate("int64(1) // 0").unwrap_err().message.contains("division"));
    assert!(evaluate("int64(0.5)").unwrap_err().message.contains("exact"));
    assert!(evaluate("int64(2^60)").is_err());
    // A double beyond 2^53 is a float, and an int parameter refuses it.
    let large = evaluate("2^60").unwrap();
    assert_eq!(large, Value::Float(1152921504606846976.0));
    assert!(Type::Int.accept(large).is_err());
}

#[test]
fn list_and_map_parameters_are_read_only_tables() {
    let mut sandbox = sandbox();
    let list = Value::from((0..100).map(Value::Int).collect::<Vec<_>>());
    let code = Code::statements(
        "total = 0 for _, n in list do total += n end
         local copy = table.clone(list) table.insert(copy, 1) size = #copy .. ' ' .. #list .. table.concat(list):sub(1, 3)",
        1,
        &[port("list"), port("total"), port("size")],
        &[port("total"), port("size")],
    );
    for _ in 0..3 {
        let arguments = [Argument::Value(&list), Argument::Value(&Value::Null), Argument::Value(&Value::Null)];
        let (values, _) = sandbox.run(&code, arguments, &mut Objects::default()).unwrap();
        assert_eq!(values, [Value::Int(4950), Value::from("101 100012")]);
    }
    let write = Code::statements("list[1] = 5", 1, &[port("list")], &[]);
    assert!(
        sandbox
            .run(&write, [Argument::Value(&list)], &mut Objects::default())
            .unwrap_err()
            .message
            .contains("readonly")
    );
}

#[test]
fn growing_lists_show_their_new_items() {
    let mut sandbox = sandbox();
    let code = Code::expressions(&["#results", "results[#results]"], 1, &[port("results")]);
    let items: Vec<Value> = (0..50).map(Value::Int).collect();
    for length in [1usize, 2, 20, 50, 3] {
        let argument = Argument::Growing { of: (1, 2, 3), items: &items[..length] };
        let (values, _) = sandbox.run(&code, [argument], &mut Objects::default()).unwrap();
        assert_eq!(values, [Value::Int(length as i64), Value::Int(length as i64 - 1)]);
    }
}

#[test]
fn effects_on_shared_objects_are_returned_and_not_applied() {
    let mut sandbox = sandbox();
    let mut objects = Objects::new("p".into());
    let set = Value::Shared(objects.create(SharedKind::Set));
    let before = objects.clone();
    let code = Code::statements(
        "set:add(3) set:add(4) set:remove(3) local c = RemoteCounter.new() c:add(5) n = set:size() + c:get()",
        1,
        &[port("set"), port("n")],
        &[port("n")],
    );
    let arguments = [Argument::Value(&set), Argument::Value(&Value::Null)];
    let (values, effects) = sandbox.run(&code, arguments, &mut objects).unwrap();
    assert_eq!(values, [Value::Int(6)]);
    assert_eq!((effects.created.len(), effects.calls.len()), (1, 4));
    assert_eq!(objects, before, "the state changed behind the journal's back");
    for created in &effects.created {
        assert_eq!(objects.create(created.kind), *created);
    }
    effects.calls.iter().for_each(|call| drop(objects.call(call).unwrap()));
    assert_eq!(
        objects.content(match &set {
            Value::Shared(set) => set,
            _ => unreachable!(),
        }),
        Some(vec![Value::Int(4)].into())
    );
    // A script that fails leaves no effects either.
    let before = objects.clone();
    let code = Code::statements("set:add(9) error('no')", 1, &[port("set")], &[]);
    assert!(sandbox.run(&code, [Argument::Value(&set)], &mut objects).is_err());
    assert_eq!(objects, before);
}

struct Remote(Vec<String>);

impl RemoteObjects for Remote {
    fn call(&mut self, _: &SharedRef, method: Method, arguments: Vec<Value>) -> Result<Value, String> {
        self.0.push(format!("{method:?}"));
        if arguments.is_empty() { Ok(Value::Int(self.0.len() as i64)) } else { Err("the set is closed".into()) }
    }

    fn print(&mut self, line: &str) {
        self.0.push(line.into());
    }

    fn stopped(&mut self) -> bool {
        self.0.len() > 1
    }
}

#[test]
fn activities_call_shared_objects_through_their_worker() {
    let set = Value::Shared(SharedRef { kind: SharedKind::Set, home: "far".into(), id: 7 });
    let ports = [port("set"), port("n"), port("attempt")];
    let activity = |text: &str| {
        let code = Code::statements(text, 1, &ports, &[port("n")]);
        sandbox().run_activity(
            &code,
            &[set.clone(), Value::Null, Value::Int(1)],
            Duration::MAX,
            Box::new(Remote(Vec::new())),
        )
    };
    assert_eq!(activity("n = set:size() + attempt").unwrap(), [Value::Int(2)]);
    assert!(activity("set:add(1)").unwrap_err().message.contains("RemoteSet:add: the set is closed"));
    assert!(
        activity("RemoteSet.new()")
            .unwrap_err()
            .message
            .contains("only the code of a controller can create a RemoteSet")
    );
    assert_eq!(activity("print('a', {}) set:size() while true do end").unwrap_err().kind, ErrorKind::Stopped);
}

#[test]
fn free_names_are_found_with_their_place() {
    let names = |text: &str, form| -> Vec<String> {
        let mut names: Vec<String> = check(text, form)
            .unwrap_or_else(|error| panic!("{text}: {error:?}"))
            .into_iter()
            .map(|used| {
                assert_eq!(&text[used.at.clone()], used.name);
                let field = used.field.map_or(String::new(), |(field, at)| {
                    assert_eq!(&text[at], field);
                    format!(".{field}")
                });
                format!(
                    "{}{}{}{field}",
                    if used.read { "r" } else { "" },
                    if used.write { "w " } else { " " },
                    used.name
                )
            })
            .collect();
        names.sort();
        names.dedup();
        names
    };
    for (text, form, expected) in [
        ("a + b.c * d[e]", Form::Expression, vec!["r a", "r b.c", "r d", "r e"]),
        ("primes:size() >= n", Form::Expression, vec!["r n", "r primes"]),
        ("local x = y x = 1", Form::Statements, vec!["r y"]),
        ("x = y", Form::Statements, vec!["r y", "w x"]),
        ("x += 1", Form::Statements, vec!["rw x"]),
        ("a.b, a.c = 1, d", Form::Statements, vec!["r d", "w a.b", "w a.c"]),
        ("a.b.c = 1", Form::Statements, vec!["r a.b"]),
        ("a[1] = 2", Form::Statements, vec!["r a"]),
        ("for i, v in t do local z = i + v + z0 end", Form::Statements, vec!["r t", "r z0"]),
        ("for i = a, b, c do d(i) end", Form::Statements, vec!["r a", "r b", "r c", "r d"]),
        ("repeat local done = f() until done", Form::Statements, vec!["r f"]),
        ("function g(a) return a + b end", Form::Statements, vec!["r b", "w g"]),
        ("local function h(a) return h(a) end", Form::Statements, vec![]),
        ("function t.m(a) end", Form::Statements, vec!["w t.m"]),
        ("return {a = b, [c] = d, e}", Form::Statements, vec!["r b", "r c", "r d", "r e"]),
        ("if a then elseif b then local c = 1 else c = 2 end", Form::Statements, vec!["r a", "r b", "w c"]),
        ("if a then b else `{c}`", Form::Expression, vec!["r a", "r b", "r c"]),
        ("f'text' g{h}", Form::Statements, vec!["r f", "r g", "r h"]),
        ("local x: number = y :: any", Form::Statements, vec!["r y"]),
        ("while a do b() end do local a = 1 end", Form::Statements, vec!["r a", "r b"]),
    ] {
        assert_eq!(names(text, form), expected, "{text}");
    }
}

#[test]
fn syntax_errors_have_a_place() {
    for (text, form, line) in [
        ("x = ", Form::Statements, 1),
        ("x = 1\ny = = 2\n", Form::Statements, 2),
        ("a b", Form::Expression, 1),
        ("", Form::Expression, 1),
        ("x = 1", Form::Expression, 1),
        ("1, 2", Form::Expression, 1),
        ("a) or (b", Form::Expression, 1),
        ("1 end do", Form::Expression, 1),
        ("end", Form::Statements, 1),
        ("break", Form::Statements, 1),
        ("local x <const> = 'a", Form::Statements, 1),
    ] {
        let error = check(text, form).expect_err(text);
        assert!(error.at.end <= text.len() && error.at.start <= error.at.end, "{text}: {error:?}");
        assert_eq!(text[..error.at.start].matches('\n').count() + 1, line, "{text}: {error:?}");
    }
}

#[test]
fn deep_nesting_is_refused_without_overflow() {
    let deep = 100_000;
    for text in [
        format!("x = {}1{}", "(".repeat(deep), ")".repeat(deep)),
        format!("x = {}1", "-".repeat(deep).replace("--", "- -")),
        format!("x = {}1", "not ".repeat(deep)),
        format!("x = {}1", "1 .. ".repeat(deep)),
        format!("x = {}1", "1 ^ ".repeat(deep)),
        format!("x = {}{}", "{".repeat(deep), "}".repeat(deep)),
        format!("x = a{}", "[1]".repeat(deep)),
        format!("x = a{}", "()".repeat(deep)),
        format!("x = {}1{}", "function() return ".repeat(deep), " end".repeat(deep)),
        format!("{}{}", "do ".repeat(deep), "end ".repeat(deep)),
        format!("{}{}", "if a then ".repeat(deep), "end ".repeat(deep)),
        format!("if a then {} end", "elseif a then ".repeat(deep)),
        format!("{}{}", "while a do ".repeat(deep), "end ".repeat(deep)),
        format!("local x : {}number{}", "{".repeat(deep), "}".repeat(deep)),
        format!("local x : {}number", "(number) -> ".repeat(deep)),
        format!("x = {}a", "if a then b else ".repeat(deep)),
        format!("x = {}", "`{".repeat(deep)),
    ] {
        assert!(check(&text, Form::Statements).is_err(), "{}…", &text[..40]);
    }
    // Code that Luau accepts must not overflow the stack of full_moon, even if the stack is small.
    let small = std::thread::Builder::new().stack_size(1 << 20).spawn(|| {
        for depth in [50, 150, 190, 300, 900] {
            for text in [
                format!("x = {}1{}", "(".repeat(depth), ")".repeat(depth)),
                format!("x = {}{}", "{".repeat(depth), "}".repeat(depth)),
                format!("{}{}", "do ".repeat(depth), "end ".repeat(depth)),
                format!("x = {}1{}", "function() return ".repeat(depth), " end".repeat(depth)),
                format!("x = {}1", "1 + ".repeat(depth)),
                format!("x = {}1", "1 .. ".repeat(depth)),
                format!("x = a{}", ".b".repeat(depth)),
                format!("if a then {} end", "elseif a then ".repeat(depth)),
            ] {
                let _ = check(&text, Form::Statements);
            }
        }
    });
    small.unwrap().join().unwrap();
}

fn values() -> impl Strategy<Value = Value> {
    let simple = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-100..100i64).prop_map(Value::Int),
        // Only floats with a fraction, because whole ones come back as integers.
        any::<f64>().prop_filter("whole", |f| f.fract() != 0.0 || !f.is_finite()).prop_map(Value::Float),
        ".{0,8}".prop_map(|text| Value::from(text.as_str())),
        proptest::collection::vec(any::<u8>(), 0..8).prop_map(|bytes| Value::Bytes(bytes.into())),
        "[a-z]{1,8}".prop_map(|uri| Type::File.parse(&uri).unwrap()),
    ];
    simple.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            proptest::collection::btree_map(".{0,4}".prop_map(|key| Arc::from(key.as_str())), inner, 0..8)
                .prop_map(|map: BTreeMap<Arc<str>, Value>| Value::Map(Arc::new(map))),
        ]
    })
}

proptest! {
    #[test]
    fn values_cross_the_boundary_without_loss(value in values()) {
        let code = Code::expressions(&["value"], 1, &[port("value")]);
        let (back, _) = sandbox().run(&code, [Argument::Value(&value)], &mut Objects::default()).unwrap();
        prop_assert_eq!(&back[0], &value);
        let back = sandbox().run_activity(&code, std::slice::from_ref(&value), Duration::MAX, Box::new(Remote(Vec::new()))).unwrap();
        prop_assert_eq!(&back[0], &value);
    }

    #[test]
    fn any_text_is_checked_without_panic(text in "[a-z(){}\\[\\]=+.,'\"\\n ;:0-9`-]{0,60}") {
        let _ = check(&text, Form::Statements);
        let _ = check(&text, Form::Expression);
    }
}

#[test]
fn an_activity_has_the_time_that_its_run_gives_it() {
    let code = Code::statements("while true do end", 7, &[], &[]);
    let limits = ScriptLimits { steps: u64::MAX, memory: 16 << 20, time: Duration::MAX };
    let mut sandbox = Sandbox::new(limits, true).unwrap();
    let mut run = |time| sandbox.run_activity(&code, &[], time, Box::new(Remote(Vec::new())));
    let error = run(Duration::from_millis(20)).unwrap_err();
    assert_eq!((error.kind, error.line), (ErrorKind::Time, 7), "{error}");
    assert!(error.message.contains("ran longer than its limit"), "{error}");
}
