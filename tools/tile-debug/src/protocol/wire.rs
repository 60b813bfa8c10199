//! Reads and writes messages of the Debug Adapter Protocol: JSON after a `Content-Length` header.

use serde_json::{Value, json};
use std::io::{BufRead, Read, Write};
use std::sync::mpsc::{Receiver, channel};

/// A request that the editor sent.
#[derive(serde::Deserialize)]
pub(super) struct Request {
    pub(super) seq: i64,
    pub(super) command: String,
    #[serde(default)]
    pub(super) arguments: Value,
}

/// Sends responses and events to standard output.
pub(super) struct Wire {
    /// Sequence number of the last sent message.
    last_sent: i64,
    /// Sequence number of the last request that has a response.
    last_answered: i64,
}

/// Maximum size of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

impl Wire {
    /// Starts a thread that reads requests, so that an editor can pause a running kernel. Returns the channel of the requests.
    pub(super) fn open() -> (Wire, Receiver<Request>) {
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            let mut input = std::io::stdin().lock();
            while let Some(request) = read_request(&mut input) {
                if sender.send(request).is_err() {
                    return;
                }
            }
        });
        (Wire { last_sent: 0, last_answered: -1 }, requests)
    }

    /// Sends the response to a request that succeeded.
    pub(super) fn respond(&mut self, request: &Request, body: Value) {
        self.last_answered = request.seq;
        self.send(
            json!({"type": "response", "request_seq": request.seq, "success": true, "command": request.command, "body": body}),
        );
    }

    /// Sends the response to a request that failed. The editor shows the message to the user.
    pub(super) fn respond_error(&mut self, request: &Request, message: &str) {
        self.last_answered = request.seq;
        let message = message.trim();
        let error = json!({"id": 1, "format": message.replace('{', "(").replace('}', ")"), "showUser": true});
        self.send(json!({"type": "response", "request_seq": request.seq, "success": false, "command": request.command,
            "message": message, "body": {"error": error}}));
    }

    /// Sends an event.
    pub(super) fn event(&mut self, name: &str, body: Value) {
        self.send(json!({"type": "event", "event": name, "body": body}));
    }

    /// Returns whether the last response that was sent answers this request.
    pub(super) fn has_response(&self, request: &Request) -> bool {
        self.last_answered == request.seq
    }

    /// Sends a message with the next sequence number.
    fn send(&mut self, mut message: Value) {
        self.last_sent += 1;
        message["seq"] = json!(self.last_sent);
        let text = message.to_string();
        let mut out = std::io::stdout().lock();
        // The reader thread detects a closed connection, so a failed write needs no handling.
        let _ = write!(out, "Content-Length: {}\r\n\r\n{text}", text.len()).and_then(|()| out.flush());
    }
}

/// Reads the next request. Returns `None` at the end of the input or after a malformed message.
fn read_request(input: &mut impl BufRead) -> Option<Request> {
    loop {
        let mut length = None;
        loop {
            let mut line = String::new();
            if input.take(1024).read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                header => {
                    let value = header.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
                    length = value.map(|(_, value)| value.trim().parse::<usize>()).or(length.map(Ok)).transpose().ok()?;
                }
            }
        }
        let mut bytes = vec![0; length.filter(|length| *length <= MAX_MESSAGE_BYTES)?];
        input.read_exact(&mut bytes).ok()?;
        let message: Value = serde_json::from_slice(&bytes).ok()?;
        // The debugger sends no requests, so it skips messages of other types.
        if message["type"] == "request" {
            return serde_json::from_value(message).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_one_after_the_other() {
        let first = r#"{"seq":1,"type":"request","command":"threads"}"#;
        let second = r#"{"seq":2,"type":"request","command":"next","arguments":{"threadId":1}}"#;
        let text = format!("Content-Length: {}\r\n\r\n{first}content-length:{}\r\nX: y\r\n\r\n{second}", first.len(), second.len());
        let mut input = text.as_bytes();
        assert_eq!(read_request(&mut input).unwrap().command, "threads");
        assert_eq!(read_request(&mut input).unwrap().arguments["threadId"], 1);
        assert!(read_request(&mut input).is_none());
    }

    #[test]
    fn malformed_messages_end_the_session() {
        for text in [
            "",
            "\r\n",
            "Content-Length: x\r\n\r\n{}",
            "Content-Length: 99999999999\r\n\r\n",
            "Content-Length: 5\r\n\r\n{}",
            "Content-Length: 2\r\n\r\n[]",
        ] {
            assert!(read_request(&mut text.as_bytes()).is_none(), "{text}");
        }
    }
}
