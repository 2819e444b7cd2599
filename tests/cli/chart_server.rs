//! A repository of charts over HTTP on loopback.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// The answers of a server by path: a status, further header lines, and the body.
pub(crate) type Answers = Arc<Mutex<BTreeMap<String, (u16, String, Vec<u8>)>>>;

/// A repository of charts over HTTP, which serves until the test ends.
pub(crate) struct ChartServer {
    pub(crate) address: String,
    pub(crate) answers: Answers,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    pub(crate) demands: Arc<Mutex<Option<String>>>,
}

impl ChartServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/charts", listener.local_addr().unwrap());
        let answers = Answers::default();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let demands: Arc<Mutex<Option<String>>> = Arc::default();
        let (served, noted, demanded) = (answers.clone(), requests.clone(), demands.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (served, noted, demanded) = (served.clone(), noted.clone(), demanded.clone());
                thread::spawn(move || answer(stream.unwrap(), &served, &noted, &demanded));
            }
        });
        Self { address, answers, requests, demands }
    }

    pub(crate) fn answer(&self, path: &str, status: u16, head: &str, body: impl Into<Vec<u8>>) {
        let path = format!("/charts/{path}");
        self.answers.lock().unwrap().insert(path, (status, head.to_owned(), body.into()));
    }

    /// Serves an index with these versions of charts, each with its packaged chart.
    pub(crate) fn publish_packages(&self, charts: &[(&str, &str, Vec<u8>)]) {
        let mut entries: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for (name, version, package) in charts {
            let file = format!("{name}-{version}.tgz");
            self.answer(&file, 200, "", package.clone());
            let entry = json!({"apiVersion": "v2", "name": name, "version": version, "urls": [file]});
            entries.entry(name).or_default().push(entry);
        }
        self.answer("index.yaml", 200, "", json!({"apiVersion": "v1", "entries": entries}).to_string());
    }

    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn answer(
    mut stream: TcpStream,
    answers: &Answers,
    requests: &Mutex<Vec<String>>,
    demands: &Mutex<Option<String>>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() {
        return;
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut is_known = false;
    let demanded = demands.lock().unwrap().clone();
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap_or(0) <= 2 {
            break;
        }
        is_known |= demanded.as_ref().is_some_and(|demanded| header.trim_end().ends_with(demanded));
    }
    requests.lock().unwrap().push(path.clone());
    let found = answers.lock().unwrap().get(&path).cloned();
    let (status, head, body) = match found {
        _ if demanded.is_some() && !is_known => (401, String::new(), Vec::new()),
        Some(found) => found,
        None => (404, String::new(), Vec::new()),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\n{head}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    // A client that has seen enough is gone by now.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}
