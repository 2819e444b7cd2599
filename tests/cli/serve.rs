//! `federate serve`: who may ask, what is answered, and that the answers are those of the commands.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB};

/// A server that is stopped at the end of the test.
struct Serving {
    child: Child,
    address: String,
    token: String,
}

/// An answer: the status, the headers, and the body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    #[track_caller]
    fn status(self, expected: u16) -> Self {
        assert_eq!(self.status, expected, "{}\n{}", self.head, self.body);
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Serving {
    fn start(sandbox: &Sandbox, arguments: &str) -> Self {
        let log = std::fs::File::create(sandbox.path(".log")).unwrap();
        let mut command = sandbox.command(&format!("serve {arguments}"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (address, token) = line
            .trim_end()
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once("/#token="))
            .unwrap_or_else(|| panic!("no address in {line:?}: {}", sandbox.read(".log")));
        Self { address: address.to_owned(), token: token.to_owned(), child }
    }

    /// Sends a request as it is, with `Host` and `Content-Length` only if they are in it.
    fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        // A server that refuses a body may close before it has read it.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Answer {
        let Self { address, token, .. } = self;
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"))
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        self.post_with(path, body, "Content-Type: application/json\r\n")
    }

    fn post_with(&self, path: &str, body: &str, headers: &str) -> Answer {
        let Self { address, token, .. } = self;
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// Waits until the state of the repo has a number greater than this.
    #[track_caller]
    fn await_change(&self, known: u64) -> Value {
        let started = Instant::now();
        loop {
            let state = self.get(&format!("/api/state?after={known}")).status(200).json();
            if state["number"].as_u64().is_some_and(|number| number > known) {
                return state;
            }
            assert!(started.elapsed() < Duration::from_mins(1), "{state}");
        }
    }

    /// Ends it with a signal, and returns its exit code.
    fn end(mut self, signal: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn only_those_who_have_the_token_are_answered() {
    let sandbox = Sandbox::web();
    let serving = Serving::start(&sandbox, "");
    let Serving { address, token, .. } = &serving;
    let wrong = format!("{}{}", &token[..token.len() - 1], if token.ends_with('0') { '1' } else { '0' });
    let port = address.rsplit(':').next().unwrap();
    for path in ["/", "/check", "/api/plan", "/api/state", "/nothing"] {
        for carried in [
            String::new(),
            format!("Authorization: Bearer {wrong}\r\n"),
            format!("Cookie: federate-{port}={token}; token={token}\r\n"),
        ] {
            if !carried.starts_with("Authorization") && !path.contains("/api") && path != "/nothing" {
                continue;
            }
            let request = format!("GET {path}?token={token} HTTP/1.1\r\nHost: {address}\r\n{carried}\r\n");
            let answer = serving.send(&request).status(401);
            assert!(!answer.body.contains("web") && answer.body.contains("the token is missing or wrong"));
        }
    }
}

/// Cookies know no port: a server on another port of this machine gets those of this one.
#[test]
fn the_page_sets_no_cookie_and_has_nothing_of_the_repo_without_the_token() {
    let sandbox = Sandbox::web();
    let serving = Serving::start(&sandbox, "");
    let Serving { address, token, .. } = &serving;
    for path in ["/", "/check", "/drift"] {
        let first = serving.send(&format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")).status(200);
        for header in
            ["cache-control: no-store", "referrer-policy: no-referrer", "frame-ancestors 'none'", "nosniff"]
        {
            assert!(first.head.contains(header), "{header}: {}", first.head);
        }
        assert!(!first.head.contains("set-cookie"), "{}", first.head);
        assert!(first.body.contains("connect-src 'self'") && first.body.contains(" data-empty>"));
        let (_, body) = first.body.split_once("<body>").unwrap();
        let body = body.split("<script>").next().unwrap();
        let folder = sandbox.path("").display().to_string();
        for known in ["m1", "eu", folder.as_str(), token.as_str(), "id=\"data\""] {
            assert!(!body.contains(known), "{known}: {body}");
        }
    }
    let filled = serving.get("/").status(200);
    assert!(filled.body.contains("id=\"data\"") && !filled.body.contains(token.as_str()));
    assert!(!filled.head.contains("set-cookie"), "{}", filled.head);
}

#[test]
fn other_names_and_other_pages_are_refused() {
    let sandbox = Sandbox::web();
    let serving = Serving::start(&sandbox, "");
    let Serving { address, token, .. } = &serving;
    let ask = |host: &str, more: &str| {
        serving.send(&format!("GET /api/plan HTTP/1.1\r\n{host}Authorization: Bearer {token}\r\n{more}\r\n"))
    };
    ask(&format!("Host: {address}\r\n"), "").status(200);
    ask(&format!("Host: {address}\r\n"), &format!("Origin: http://{address}\r\n")).status(200);
    ask("Host: evil.example.com\r\n", "").status(421);
    ask("", "").status(421);
    for origin in ["null", "https://evil.example.com", "http://127.0.0.1:1", &format!("https://{address}")] {
        ask(&format!("Host: {address}\r\n"), &format!("Origin: {origin}\r\n")).status(403);
    }
}

#[test]
fn what_is_no_question_is_refused() {
    let sandbox = Sandbox::web();
    let serving = Serving::start(&sandbox, "");
    serving.get("/api/nothing").status(404);
    serving.get("/../etc/passwd").status(404);
    serving.get("/api/whatif").status(405);
    serving.post("/api/plan", "{}").status(405);
    let scenario = json!({"events": {"lose": ["m1"]}}).to_string();
    serving.post_with("/api/whatif", &scenario, "Content-Type: text/plain\r\n").status(415);
    let large = json!({"events": {"lose": ["x".repeat(1 << 17)]}}).to_string();
    serving.post("/api/whatif", &large).status(413);
    for (body, why) in [
        ("{", "EOF"),
        (r#"{"events": {"loose": ["m1"]}}"#, "events.loose"),
        (r#"{"events": {"add": ["/etc/passwd"]}}"#, "events.add"),
        (r#"{"events": {"lose": "m1"}}"#, "events.lose"),
    ] {
        let answer = serving.post("/api/whatif", body).status(400);
        assert!(answer.body.contains(why), "{body}: {}", answer.body);
    }
    for (body, why) in [
        (json!({"events": {}}), "a scenario has between 1 and 200 events"),
        (json!({"events": {"lose": vec!["m1"; 201]}}), "a scenario has between 1 and 200 events"),
        (json!({"events": {"lose": ["m9"]}}), "m9"),
        (json!({"events": {"taint": ["m1"]}}), "m1"),
    ] {
        let answer = serving.post("/api/whatif", &body.to_string()).status(422);
        assert!(answer.body.contains(why), "{body}: {}", answer.body);
    }
    let unknown = serving.get("/api/explain?object=deployment%2Fweb2&namespace=shop").status(422);
    assert!(unknown.body.contains("did you mean"), "{}", unknown.body);
    let unknown = serving.get("/api/diff?from=nothing").status(422);
    assert!(unknown.body.contains("git") || unknown.body.contains("nothing"), "{}", unknown.body);
}

#[test]
fn answers_are_the_documents_of_the_commands() {
    let sandbox = Sandbox::web();
    sandbox.git("init -q -b main");
    sandbox.git("add -A");
    sandbox.git("commit -q -m base");
    sandbox.write("web.yaml", WEB.replace("replicas: 4", "replicas: 9"));
    let serving = Serving::start(&sandbox, "");
    for (path, line, code) in [
        ("/api/plan", "plan -o json", 0),
        ("/api/clusters", "clusters -o json", 0),
        ("/api/check", "check -o json", 0),
        ("/api/explain?object=deployment/shop/web", "explain deployment/web -n shop -o json", 0),
        (
            "/api/explain?object=deployment.apps/web&namespace=shop",
            "explain deployment/web -n shop -o json",
            0,
        ),
        ("/api/explain?object=pp/web&namespace=shop", "explain pp/web -n shop -o json", 0),
        ("/api/explain?object=cluster%2Fm1", "explain cluster/m1 -o json", 0),
        ("/api/diff?from=main", "diff --from main -o json", 1),
        ("/api/diff", "diff -o json", 1),
    ] {
        let expected = sandbox.run(&format!("{line} -q")).code(code).json();
        assert_eq!(serving.get(path).status(200).json(), expected, "{path}");
    }
    for (body, line) in [
        (json!({"events": {"lose": ["m1"]}}), "--lose m1"),
        (json!({"events": {"lose": ["m1"]}, "failover": true}), "--lose m1 --gates Failover=true"),
        (
            json!({"events": {"taint": ["m2=down:NoExecute"], "scale": ["deployment/shop/web=+1"]}}),
            "--taint m2=down:NoExecute --scale deployment/shop/web=+1",
        ),
        (
            json!({"events": {"capacity": ["region=eu=50%"], "remove": ["m2"]}}),
            "--capacity region=eu=50% --remove m2",
        ),
    ] {
        let expected = sandbox.run(&format!("whatif {line} -o json -q"));
        let answer = serving.post("/api/whatif", &body.to_string());
        if expected.code == 2 {
            answer.status(422);
        } else {
            assert_eq!(answer.status(200).json(), expected.json(), "{line}");
        }
    }
}

#[test]
fn a_changed_file_is_seen() {
    let sandbox = Sandbox::web();
    let serving = Serving::start(&sandbox, "");
    let replicas = |serving: &Serving| {
        let plan = serving.get("/api/plan").status(200).json();
        plan["placements"][0]["clusters"][0]["replicas"].as_i64()
    };
    assert_eq!(replicas(&serving), Some(2));
    let first = serving.get("/api/state").status(200).json();
    sandbox.write("web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
    let second = serving.await_change(first["number"].as_u64().unwrap());
    assert_eq!((replicas(&serving), &second["error"]), (Some(4), &Value::Null));
    // Errors are findings, and nothing is worked out from what has errors.
    sandbox.write("web.yaml", "a: [");
    let third = serving.await_change(second["number"].as_u64().unwrap());
    let scenario = json!({"events": {"lose": ["m1"]}}).to_string();
    let refused = serving.post("/api/whatif", &scenario).status(422);
    assert!(refused.body.contains("web.yaml:1"), "{}", refused.body);
    assert!(serving.get("/api/check").status(200).body.contains("web.yaml"));
    sandbox.write("web.yaml", WEB);
    serving.await_change(third["number"].as_u64().unwrap());
    serving.post("/api/whatif", &scenario).status(200);
}

#[test]
fn a_page_shows_what_the_repo_says_as_text() {
    let hostile = "</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[31m";
    let sandbox = Sandbox::web();
    let quoted = serde_json::to_string(hostile).unwrap();
    let clusters =
        sandbox.read("clusters.yaml").replace("{region: eu}", &format!("{{region: eu, provider: {quoted}}}"));
    sandbox.write("clusters.yaml", clusters);
    let serving = Serving::start(&sandbox, "");
    let page = serving.get("/").status(200).body;
    assert!(page.contains("data-live=\"0\"") && page.contains("id=\"data\""));
    let refusal = serving.post_with(
        "/api/whatif",
        &json!({"events": {"lose": [hostile]}}).to_string(),
        "Content-Type: application/json\r\nAccept: text/html\r\n",
    );
    let refusal = refusal.status(422).body;
    for text in [&page, &refusal] {
        assert!(!text.contains("<img") && !text.contains('\u{202e}') && !text.contains('\u{1b}'), "{text}");
    }
    assert!(refusal.contains("&lt;img"), "{refusal}");
}

#[test]
fn a_signal_ends_it_well() {
    let sandbox = Sandbox::web();
    assert_eq!(Serving::start(&sandbox, "").end("-TERM"), Some(0));
    assert_eq!(Serving::start(&sandbox, "").end("-INT"), Some(0));
    let taken = Serving::start(&sandbox, "");
    let port = taken.address.rsplit(':').next().unwrap();
    let said = sandbox.run(&format!("serve --port {port}")).code(2).err;
    assert!(said.contains("cannot listen on 127.0.0.1"), "{said}");
    let said = sandbox.run("serve absent").code(2).err;
    assert!(said.contains("absent"), "{said}");
}
