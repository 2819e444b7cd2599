//! A TCP proxy in front of an API server, which can be cut, and can hang.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// What the proxy does with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// It passes everything on.
    Open,
    /// It takes connections and what is sent, and passes nothing on.
    Silent,
    /// It closes connections at once.
    Cut,
    /// The test is over.
    Ended,
}

struct Shared {
    line: Mutex<Line>,
    changed: Condvar,
    connections: Mutex<Vec<TcpStream>>,
}

/// A proxy that lives as long as this does.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// In front of this address.
    pub(crate) fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            line: Mutex::new(Line::Open),
            changed: Condvar::new(),
            connections: Mutex::default(),
        });
        let served = shared.clone();
        thread::spawn(move || served.accept_connections(&listener, target));
        Self { address, shared }
    }

    /// Passes everything on, also what it has held back.
    pub(crate) fn open(&self) {
        self.shared.set_line(Line::Open);
    }

    /// Lets everybody wait, those who are connected, too.
    pub(crate) fn hang(&self) {
        self.shared.set_line(Line::Silent);
    }

    /// Closes all connections, and each new one at once.
    pub(crate) fn cut(&self) {
        self.shared.set_line(Line::Cut);
        self.shared.close_connections();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.set_line(Line::Ended);
        self.shared.close_connections();
        // The listener waits for one more connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn set_line(&self, line: Line) {
        *self.line.lock().unwrap() = line;
        self.changed.notify_all();
    }

    /// The state of the line, as soon as it is not silent.
    fn await_line(&self) -> Line {
        *self.changed.wait_while(self.line.lock().unwrap(), |line| *line == Line::Silent).unwrap()
    }

    fn close_connections(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            // The other end may have closed it.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    fn accept_connections(self: Arc<Self>, listener: &TcpListener, target: SocketAddr) {
        for connection in listener.incoming() {
            let Ok(connection) = connection else { continue };
            let line = *self.line.lock().unwrap();
            match line {
                Line::Ended => return,
                Line::Cut => drop(connection),
                Line::Open | Line::Silent => {
                    let shared = self.clone();
                    thread::spawn(move || shared.connect(connection, target));
                }
            }
        }
    }

    /// An error only ends the connection.
    fn connect(self: &Arc<Self>, connection: TcpStream, target: SocketAddr) -> io::Result<()> {
        self.connections.lock().unwrap().push(connection.try_clone()?);
        if self.await_line() != Line::Open {
            return connection.shutdown(Shutdown::Both);
        }
        let server = TcpStream::connect(target)?;
        self.connections.lock().unwrap().push(server.try_clone()?);
        let (shared, answers, answered) = (self.clone(), server.try_clone()?, connection.try_clone()?);
        thread::spawn(move || shared.pass_on(answers, answered));
        self.pass_on(connection, server)
    }

    fn pass_on(&self, mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
        let mut buffer = vec![0; 65536];
        loop {
            let length = from.read(&mut buffer)?;
            if length == 0 || self.await_line() != Line::Open {
                from.shutdown(Shutdown::Both)?;
                return to.shutdown(Shutdown::Both);
            }
            to.write_all(&buffer[..length])?;
        }
    }
}
