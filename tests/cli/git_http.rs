//! git's own HTTP server (`git http-backend`) on loopback, with one thread per request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A server for the repositories below a folder; it serves until the test ends.
pub(crate) struct Server {
    port: u16,
    refuses: Arc<AtomicBool>,
    requests: Arc<AtomicUsize>,
    demands: Arc<Mutex<Option<String>>>,
}

impl Server {
    pub(crate) fn start(root: &Path) -> Self {
        Self::over(root, |stream| stream)
    }

    /// The same over another protocol.
    pub(crate) fn over<S: Read + Write>(
        root: &Path,
        open: impl Fn(TcpStream) -> S + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let refuses = Arc::new(AtomicBool::new(false));
        let requests = Arc::new(AtomicUsize::new(0));
        let (root, refusing, counted) = (root.to_owned(), Arc::clone(&refuses), Arc::clone(&requests));
        let demands = Arc::new(Mutex::new(None));
        let demanded = Arc::clone(&demands);
        thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                let (root, refusing) = (root.clone(), refusing.load(Ordering::SeqCst));
                let (demanded, open) = (demanded.lock().unwrap().clone(), open.clone());
                thread::spawn(move || answer(open(stream.unwrap()), root, refusing, demanded.as_deref()));
            }
        });
        Self { port, refuses, requests, demands }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The number of requests since the last call.
    pub(crate) fn requests(&self) -> usize {
        self.requests.swap(0, Ordering::SeqCst)
    }

    /// From now on, requires this `Authorization` header.
    pub(crate) fn demand(&self, authorization: &str) {
        *self.demands.lock().unwrap() = Some(authorization.to_owned());
    }

    /// From now on, refuses pushes.
    pub(crate) fn refuse_pushes(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }
}

fn answer(stream: impl Read + Write, root: PathBuf, refuses: bool, demanded: Option<&str>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    // A client that does not trust the server is gone by now.
    let Ok(_) = reader.read_line(&mut line) else { return };
    let mut words = line.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut command = Command::new("git");
    command.arg("http-backend").env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1");
    command.env("REQUEST_METHOD", method).env("PATH_INFO", path).env("QUERY_STRING", query);
    let mut length = 0;
    let mut chunked = false;
    let mut known = demanded.is_none();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => known = known || demanded == Some(value),
            "transfer-encoding" => chunked = value == "chunked",
            "content-type" => drop(command.env("CONTENT_TYPE", value)),
            "content-encoding" => drop(command.env("HTTP_CONTENT_ENCODING", value)),
            "git-protocol" => drop(command.env("GIT_PROTOCOL", value)),
            _ => {}
        }
    }
    let body = if chunked { chunks(&mut reader) } else { exactly(&mut reader, length) };
    let stream = reader.get_mut();
    if !known {
        let head = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=git\r\nContent-Length: 0\r\n";
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
        return;
    }
    if refuses && target.contains("git-receive-pack") {
        stream
            .write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        return;
    }
    command.env("CONTENT_LENGTH", body.len().to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&body).unwrap();
    let output = child.wait_with_output().unwrap().stdout;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&output[..end]);
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let head = format!("HTTP/1.1 {status}\r\n{head}\r\nConnection: close\r\n\r\n");
    // The client may have closed the connection.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&output[end + 4..]));
}

fn exactly(reader: &mut impl Read, length: usize) -> Vec<u8> {
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    body
}

fn chunks(reader: &mut impl BufRead) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let length = usize::from_str_radix(line.trim(), 16).unwrap();
        body.extend(exactly(reader, length));
        reader.read_line(&mut line).unwrap();
        if length == 0 {
            return body;
        }
    }
}
