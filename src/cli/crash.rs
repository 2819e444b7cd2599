//! The end of a process that panics, which is a bug of federate.
//!
//! The message of a panic can quote what the code worked on, a Secret for instance. Only its place is printed, unless
//! `RUST_BACKTRACE` asks for more. The process ends at once: writes are atomic, so a panic loses no more than a kill.

use std::io::{self, Write};
use std::panic::{self, Location};
use std::{env, process};

use super::Exit;

/// Makes every panic, of any thread, end the process with the exit code of an error.
pub fn exit_on_panic() {
    let full = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let verbose = env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
        if verbose {
            full(info);
        }
        // If standard error is closed, there is no other way to report it.
        let _ = io::stderr().lock().write_all(format_message(info.location(), verbose).as_bytes());
        process::exit(Exit::Error as i32);
    }));
}

/// What is printed about a panic at `place`, after its own message if `verbose`.
fn format_message(place: Option<&Location<'_>>, verbose: bool) -> String {
    let place = place.map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
    let mut text = format!(
        "error: internal error{place}: this is a bug of federate {}\n  Report it with the command that you ran: {}/issues\n",
        env!("CARGO_PKG_VERSION"),
        env!("CARGO_PKG_REPOSITORY"),
    );
    if !verbose {
        text.push_str(
            "  RUST_BACKTRACE=1 prints the message and a backtrace; they can contain values of your files\n",
        );
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]
mod tests {
    use std::process::{Command, Output};
    use std::{env, thread};

    use super::exit_on_panic;

    /// Set in the process that panics.
    const VARIABLE: &str = "FEDERATE_TEST_PANIC";

    /// Runs [`panics_on_a_thread`] in a process of its own.
    fn run(backtrace: Option<&str>) -> Output {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "cli::crash::tests::panics_on_a_thread", "--nocapture"]).env(VARIABLE, "1");
        command.env_remove("RUST_BACKTRACE");
        command.envs(backtrace.map(|value| ("RUST_BACKTRACE", value)));
        command.output().unwrap()
    }

    #[test]
    fn panics_on_a_thread() {
        if env::var_os(VARIABLE).is_some() {
            exit_on_panic();
            let _ = thread::spawn(|| panic!("hunter2")).join();
            std::process::exit(7);
        }
    }

    #[test]
    fn ends_with_the_place_and_without_values() {
        for backtrace in [None, Some("0")] {
            let output = run(backtrace);
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{text}");
            assert!(text.contains("error: internal error at src/cli/crash.rs:"), "{text}");
            assert!(text.contains("RUST_BACKTRACE=1 prints"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn shows_the_message_if_asked_to() {
        let output = run(Some("1"));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("hunter2"), "{text}");
        assert!(text.contains("error: internal error at src/cli/crash.rs:"), "{text}");
        assert!(!text.contains("RUST_BACKTRACE=1 prints"), "{text}");
    }
}
