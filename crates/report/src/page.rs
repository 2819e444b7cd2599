//! A result as one HTML file: a page that needs no network, no server and no other file.
//!
//! ```text
//! PageContent ─► JSON ─► deflate ─► base64 ─► a block of text in the page ─► page/data.js ─► what is shown
//!       └──────► frame::write_body: HTML that is there before any script runs
//! ```
//!
//! The verdict is written here, so that it is the first thing that appears, and all that a reader without scripts gets. The
//! rest is drawn by the modules in `crates/report/page`, from the data. The page allows only its own script and style, by
//! their hashes; text of a repo becomes text nodes, never markup.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use sha2::{Digest, Sha256};

mod check;
mod document;
mod drift;
mod effects;
mod frame;
mod scripts;
mod unit_losses;
mod verdict;

pub use check::{CheckPage, CheckVerdict, FindingCause};
pub use document::{
    ClusterPresence, ClusterVerdicts, PageCluster, PageDocument, PageExplanation, PageLosses, PageMode,
    PageMove, PageObject, PageOverride, PagePlaced, PageScenario, PageSide, PageUnitLoss,
};
pub use drift::{DriftFlag, DriftManager, DriftPage, DriftPageCluster, DriftPageObject, DriftVerdict};
pub use frame::{PageContent, PageFrame, PageTile, escape_html, format_link, write_card};
pub use scripts::PageView;

/// The style sheet.
const STYLE: &str = include_str!("../page/page.css");

/// Where a page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageHost {
    /// In a file of its own, which sends no requests.
    File,
    /// From a server on the same address, which the script asks for more.
    Server {
        /// The number of the state of the repo that the page shows.
        state: u64,
        /// Whether it serves a page of drift, too.
        has_drift: bool,
    },
    /// From a server on the same address, which the script asks for the page again and again.
    Polled {
        /// How many seconds to wait before it asks again.
        seconds: u32,
    },
}

impl PageHost {
    /// How much the data is compressed: a server is near.
    fn compression(self) -> Compression {
        match self {
            Self::File => Compression::default(),
            Self::Server { .. } | Self::Polled { .. } => Compression::fast(),
        }
    }
}

/// A page as HTML.
///
/// # Errors
///
/// If the content cannot be serialized, which does not happen for documents of federate.
pub fn format_page(content: &impl PageContent, host: PageHost) -> io::Result<String> {
    let frame = content.frame();
    let live = match host {
        PageHost::File => String::new(),
        PageHost::Server { state, .. } => format!(" data-live=\"{state}\""),
        PageHost::Polled { seconds } => format!(" data-poll=\"{seconds}\""),
    };
    let mut body = String::with_capacity(1 << 16);
    frame::write_body(&mut body, &frame, content, host);
    body.push_str("<script type=\"text/plain\" id=\"data\">");
    body.push_str(&encode_content(content, host.compression())?);
    body.push_str("</script>\n");
    Ok(write_document(frame.view, &frame::format_title(&frame), &live, &body))
}

/// A page of a server that has nothing of a repo: its script asks for that, with a token that only the browser has.
pub fn format_empty_page(view: PageView) -> String {
    let body = "<header class=\"bar\"><strong>federate serve</strong><span id=\"tools\"></span></header>\n<main id=\"main\">\n\
                <section id=\"verdict\" aria-labelledby=\"sentence\"><h1 id=\"sentence\">Asking the server …</h1>\n\
                <noscript><p class=\"note\">This page needs scripts.</p></noscript></section>\n</main>\n";
    write_document(view, "federate serve", " data-empty", body)
}

/// Writes a document with the script and the style of a view. `attributes` are those of its root.
fn write_document(view: PageView, title: &str, attributes: &str, body: &str) -> String {
    let script = view.join_modules();
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:;{} base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
        hash_source(&script),
        hash_source(STYLE),
        if attributes.is_empty() { "" } else { " connect-src 'self';" }
    );
    let mut out = String::with_capacity(script.len() + STYLE.len() + body.len() + (1 << 12));
    out.push_str(&format!(
        "<!doctype html>\n<html lang=\"en\"{attributes}>\n<head>\n<meta charset=\"utf-8\">\n"
    ));
    out.push_str(&format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n"));
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n");
    out.push_str(&format!("<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"));
    out.push_str(body);
    out.push_str("<script>");
    out.push_str(&script);
    out.push_str("</script>\n</body>\n</html>\n");
    out
}

/// A page that says why there is none, for a page that asked for another.
pub fn write_refusal(why: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>federate serve</title>\n<p id=\"refusal\">{}</p>\n</html>\n",
        escape_html(why)
    )
}

/// JSON, compressed without a header, as base64.
fn encode_content(content: &impl PageContent, compression: Compression) -> io::Result<String> {
    let mut encoder = io::BufWriter::new(DeflateEncoder::new(Vec::new(), compression));
    serde_json::to_writer(&mut encoder, content)?;
    encoder.flush()?;
    let encoder = encoder.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(STANDARD.encode(encoder.finish()?))
}

/// The source of a content security policy that allows exactly this text.
fn hash_source(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests;
