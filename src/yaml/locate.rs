//! Where a value stands in a text: for errors that show the line.

use granit_parser::Event;

use super::build::position;
use super::stream::{chunks, parser, text};
use super::{Position, scalar};

/// A collection on the way.
enum Frame {
    List { next: usize },
    Mapping { key: Option<(String, Position)>, complex: bool },
}

/// The place of the value at `pointer` of document `index`; of its key, if it is a mapping's entry.
pub(super) fn locate(bytes: &[u8], index: u32, pointer: &str) -> Option<Position> {
    let wanted: Vec<String> =
        pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
    let mut current = 0;
    for chunk in chunks(text(bytes).ok()?) {
        let mut walk = Walk { stack: Vec::new(), path: Vec::new(), wanted: &wanted };
        let mut parser = parser(chunk.text);
        let mut any = false;
        while let Some(Ok((event, span))) = parser.next_event() {
            match event {
                Event::DocumentEnd => {
                    any = true;
                    current += 1;
                }
                _ if current == index => {
                    if let Some(at) = walk.event(&event, position(chunk.offset, &span)) {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
        current += u32::from(!any);
    }
    None
}

struct Walk<'w> {
    stack: Vec<Frame>,
    path: Vec<String>,
    wanted: &'w [String],
}

impl Walk<'_> {
    fn event(&mut self, event: &Event<'_>, at: Position) -> Option<Position> {
        match event {
            Event::Scalar(text, style, _, _) => {
                let plain = matches!(style, granit_parser::ScalarStyle::Plain);
                self.node(at, plain, Some(text))?
            }
            Event::Alias(_) => self.node(at, false, None)?,
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                let found = self.begin(at);
                let list = matches!(event, Event::SequenceStart(..));
                self.stack.push(if list {
                    Frame::List { next: 0 }
                } else {
                    Frame::Mapping { key: None, complex: false }
                });
                found?
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.stack.pop();
                self.leave();
                return None;
            }
            _ => return None,
        }
        .into()
    }

    /// A scalar or alias: a key, or a value. The outer `None` means "not it".
    fn node(&mut self, at: Position, plain: bool, text: Option<&str>) -> Option<Position> {
        if let Some(Frame::Mapping { key: key @ None, complex: false }) = self.stack.last_mut() {
            let text = text.unwrap_or_default();
            let resolved = if plain { scalar::resolve(text) } else { scalar::Scalar::Text };
            *key = Some((scalar::key(&resolved, text).unwrap_or_else(|_| text.to_owned()), at));
            return None;
        }
        let found = self.begin(at);
        self.leave();
        found
    }

    /// Enters a value: its path is complete now.
    fn begin(&mut self, at: Position) -> Option<Position> {
        let mut place = at;
        match self.stack.last_mut() {
            Some(Frame::List { next }) => {
                self.path.push(next.to_string());
                *next += 1;
            }
            Some(Frame::Mapping { key: Some((name, key_at)), .. }) => {
                self.path.push(name.clone());
                place = *key_at;
            }
            Some(Frame::Mapping { key: None, complex }) => {
                *complex = true;
                self.path.push(String::new());
            }
            None => {}
        }
        (self.path == self.wanted).then_some(place)
    }

    fn leave(&mut self) {
        self.path.pop();
        if let Some(Frame::Mapping { key, complex }) = self.stack.last_mut() {
            if *complex && key.is_none() {
                *complex = false;
                *key = Some((String::new(), Position { line: 0, column: 0 }));
            } else {
                *key = None;
            }
        }
    }
}
