"""debug.py TILE-DEBUG SCHEMA KERNEL LAUNCH SOURCE [OTHER]: debugs a matmul as an editor would, with a client library of the Debug
Adapter Protocol. The script validates every reply against the protocol's own schema."""
import json
import os
import pty
import re
import select
import subprocess
import sys

import jsonschema
from dap.client import DAPClient

tool, schema_file, kernel, launch, source, *other = sys.argv[1:]
SCHEMA = json.load(open(schema_file))
VALIDATORS: dict = {}


def definition(message):
    """The schema's name of a message."""
    if message["type"] == "event":
        return message["event"][0].upper() + message["event"][1:] + "Event"
    if not message["success"]:
        return "ErrorResponse"
    return message["command"][0].upper() + message["command"][1:] + "Response"


def validate(message):
    name = definition(message)
    assert name in SCHEMA["definitions"], f"the protocol has no {name}"
    if name not in VALIDATORS:
        VALIDATORS[name] = jsonschema.Draft4Validator({"$ref": f"#/definitions/{name}", "definitions": SCHEMA["definitions"]})
    VALIDATORS[name].validate(message)


class Editor:
    """Sends the requests of the client library, and reads until the expected message arrives."""

    def __init__(self):
        self.process = subprocess.Popen([tool, "--dap"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.client = DAPClient(clientID="test", clientName="test", adapterID="tile", supportsVariablePaging=True)
        self.seen, self.raw, self.parsed = [], b"", 0
        self.flush()
        self.event("initialized", sent_by_library=True)

    def flush(self):
        self.process.stdin.write(bytes(self.client.send()))
        self.process.stdin.flush()

    def pump(self):
        """Reads one message, validates it against the schema, and passes it to the library. Returns the message."""
        header = b""
        while not header.endswith(b"\r\n\r\n"):
            byte = self.process.stdout.read(1)
            assert byte, "the debugger is gone"
            header += byte
        body = self.process.stdout.read(int(re.search(rb"Content-Length: (\d+)", header)[1]))
        message = json.loads(body)
        validate(message)
        known = list(self.client.recv(header + body))
        assert len(known) == 1, f"the library does not understand {message}"
        self.seen.append(message)
        return message

    def event(self, name, sent_by_library=False):
        """Returns the next event with this name. With `sent_by_library`, the response to the library's own `initialize` counts too."""
        while True:
            message = self.pump()
            if sent_by_library and message["type"] == "response" and message["command"] == "initialize":
                self.capabilities = message["body"]
                return message
            if message["type"] == "event" and message["event"] == name:
                return message.get("body", {})

    def response_to(self, number, fails=False):
        """Returns the response to a request; with `fails`, the message of the failure."""
        self.flush()
        while True:
            message = self.pump()
            if message["type"] == "response" and message["request_seq"] == number:
                assert message["success"] != fails, message
                return message["message"] if fails else message.get("body", {})

    def request(self, command, fails=False, **arguments):
        """Sends a request for which the library has no method, and returns the response."""
        return self.response_to(self.client._send_request(command, arguments), fails)

    def run_until_stop(self, number):
        """Starts the kernel, and waits until it stops."""
        self.response_to(number)
        return self.event("stopped")

    def run_backwards(self, command, **arguments):
        return self.run_until_stop(self.client._send_request(command, {"threadId": self.thread(), **arguments}))

    def thread(self):
        return self.response_to(self.client.threads())["threads"][0]["id"]

    def frames(self):
        return self.response_to(self.client.stack_trace(self.thread()))["stackFrames"]

    def line(self):
        return self.frames()[0]["line"]

    def variables(self, scope):
        scopes = self.response_to(self.client.scopes(self.frames()[0]["id"]))["scopes"]
        reference = next(one for one in scopes if one["name"] == scope)["variablesReference"]
        return {one["name"]: one for one in self.response_to(self.client.variables(reference))["variables"]}

    def evaluate(self, text, **more):
        return self.response_to(self.client.evaluate(text, **more))["result"]

    def disconnect(self):
        self.client.disconnect()
        self.flush()
        assert self.process.wait(timeout=60) == 0


def line_of(word):
    """The number of the first source line of the kernel that contains a word."""
    text = open(source).read().split("\n")
    start = next(number for number, line in enumerate(text) if line.startswith("def matmul("))
    return next(number + 1 for number in range(start, len(text)) if word in text[number])


def check_matmul():
    """Checks breakpoints, steps in both directions, variables with their elements, watches, and the selection of a tile block."""
    editor = Editor()
    assert editor.capabilities["supportsStepBack"] and editor.capabilities["supportsConditionalBreakpoints"]
    editor.response_to(editor.client.launch(program=kernel, launch=launch, source=[source], stopOnEntry=True, stopAtEnd=True))
    editor.event("initialized")
    mma_line = line_of("ct.mma")
    requested = [{"line": mma_line, "condition": "block.y == 1 && k == 1"}, {"line": 100000}]
    answers = editor.response_to(editor.client.set_breakpoints({"path": source}, requested))["breakpoints"]
    assert [one["verified"] for one in answers] == [True, False] and answers[0]["line"] == mma_line
    editor.response_to(editor.client.set_exception_breakpoints(["memory", "race", "init", "nan"]))
    editor.response_to(editor.client.configuration_done())
    assert editor.event("stopped")["reason"] == "entry"
    assert editor.line() == line_of("def matmul(")

    assert editor.run_until_stop(editor.client.next(editor.thread()))["reason"] == "step"
    before = editor.line()
    editor.run_until_stop(editor.client.next(editor.thread()))
    assert editor.line() > before
    editor.run_backwards("stepBack")
    assert editor.line() == before

    stopped = editor.run_until_stop(editor.client.continue_execution(editor.thread()))
    assert stopped["reason"] == "breakpoint" and stopped["hitBreakpointIds"] == [answers[0]["id"]]
    assert editor.line() == mma_line and editor.evaluate("block.y") == "1"
    variables = editor.variables("Variables")
    assert {"x", "y", "accumulator", "k"} <= set(variables) and variables["k"]["value"] == "1"
    x = variables["x"]
    assert x["type"] == "f16[32, 16]" and x["indexedVariables"] == 32
    rows = editor.response_to(editor.client.variables(x["variablesReference"], filter="indexed", start=3, count=2))["variables"]
    assert [row["name"] for row in rows] == ["[3]", "[4]"]
    elements = editor.response_to(editor.client.variables(rows[0]["variablesReference"]))["variables"]
    assert elements[0]["name"] == "statistics" and elements[0]["value"].startswith("min ")
    assert elements[1]["value"] == editor.evaluate("x[3, 0]").split()[-1]
    memory = editor.variables("Memory")
    assert memory["arg0"]["type"] == "f16[3072]"
    assert editor.frames()[0]["source"]["path"] == source and editor.frames()[0]["name"] == "matmul"
    # A value that the program has already computed stays the same when it is evaluated again.
    total = editor.evaluate("sum(accumulator)")
    assert editor.evaluate("sum(accumulator)", context="watch") == total
    editor.run_until_stop(editor.client.next(editor.thread()))
    assert editor.evaluate("sum(accumulator)") != total
    editor.run_backwards("reverseContinue")
    assert editor.line() == mma_line and editor.evaluate("sum(accumulator)") == total
    editor.run_backwards("stepBack", granularity="instruction")
    op = editor.evaluate("k")
    editor.run_until_stop(editor.client._send_request("next", {"threadId": editor.thread(), "granularity": "instruction"}))
    assert editor.line() == mma_line and editor.evaluate("k") == op

    # A watch stops when its value changes. A function breakpoint stops at the first line of the function.
    known = editor.request("dataBreakpointInfo", name="k", variablesReference=0)
    assert known["dataId"] == "k" and known["accessTypes"] == ["write"], known
    assert editor.request("dataBreakpointInfo", name="nowhere", variablesReference=0)["dataId"] is None
    watched = editor.request("setDataBreakpoints", breakpoints=[{"dataId": "k"}])["breakpoints"]
    editor.response_to(editor.client.set_breakpoints({"path": source}, []))
    changed = editor.run_backwards("reverseContinue")
    assert changed["reason"] == "data breakpoint" and changed["hitBreakpointIds"] == [watched[0]["id"]], changed
    assert changed["text"].startswith("k: "), changed
    assert editor.request("setDataBreakpoints", breakpoints=[])["breakpoints"] == []
    requested = [{"name": "matmul"}, {"name": "nowhere"}]
    answers = editor.request("setFunctionBreakpoints", breakpoints=requested)["breakpoints"]
    assert [one["verified"] for one in answers] == [True, False], answers
    at_function = editor.run_backwards("reverseContinue")
    assert at_function["reason"] == "breakpoint" and at_function["hitBreakpointIds"] == [answers[0]["id"]], at_function
    assert editor.request("setFunctionBreakpoints", breakpoints=[])["breakpoints"] == []

    assert "nothing is called 'nowhere'" in editor.response_to(editor.client.evaluate("nowhere"), fails=True)
    assert "is not supported" in editor.request("setVariable", fails=True, variablesReference=1, name="x", value="1")
    found = editor.request("breakpointLocations", source={"path": source}, line=mma_line - 2, endLine=mma_line)
    assert {"line": mma_line} in found["breakpoints"]
    # Select another tile block. Its execution starts at the beginning.
    number = editor.client.evaluate("block 1:0", context="repl")
    assert editor.run_until_stop(number)["reason"] == "entry"
    assert editor.response_to(editor.client.threads())["threads"][0]["name"] == "tile block [1, 0, 0]"
    assert editor.evaluate("block.x") == "1"
    editor.response_to(editor.client.set_breakpoints({"path": source}, [{"line": mma_line, "logMessage": "k is {k}"}]))
    end = editor.run_until_stop(editor.client.continue_execution(editor.thread()))
    printed = "".join(one["body"]["output"] for one in editor.seen if one.get("event") == "output")
    assert "k is i32 0\n" in printed and "ends" in end["description"], (printed, end)
    editor.run_backwards("stepBack")
    assert editor.line() == line_of("ct.store(c, index=(i, j), tile=accumulator)")
    assert editor.run_until_stop(editor.client._send_request("restart", {}))["reason"] == "entry"
    editor.response_to(editor.client._send_request("terminate", {}))
    editor.event("terminated")
    assert editor.process.wait(timeout=60) == 0


def runs_to_its_end():
    """A kernel without breakpoints runs to its end, and the editor receives an event."""
    editor = Editor()
    assert "no program is being debugged yet" in editor.response_to(editor.client.threads(), fails=True)
    assert "/nowhere/k.tile" in editor.response_to(editor.client.launch(program="/nowhere/k.tile"), fails=True)
    editor.response_to(editor.client.attach(program=kernel, args=["--launch", launch]))
    editor.event("initialized")
    editor.response_to(editor.client.configuration_done())
    assert editor.event("exited")["exitCode"] == 0
    editor.event("terminated")
    editor.disconnect()


def stops_where_a_stage_differs(broken):
    editor = Editor()
    editor.response_to(editor.client.launch(program=broken, launch=launch, source=[source], against=kernel))
    editor.event("initialized")
    editor.response_to(editor.client.configuration_done())
    stopped = editor.event("stopped")
    assert stopped["reason"] == "exception" and " in kernel.tileirbc" in stopped["text"], stopped
    assert editor.line() == line_of("accumulator = ct.full"), editor.line()
    info = editor.request("exceptionInfo", threadId=editor.thread())
    assert info["exceptionId"] == "difference" and "differ" in info["description"]
    editor.disconnect()


def edits_lines_at_a_terminal():
    """At a terminal, a user edits the line, and the arrow keys recall earlier commands."""
    controller, terminal = pty.openpty()
    command = [tool, kernel, "--launch", launch, "--source", source]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment, close_fds=True)
    os.close(terminal)

    def read_to_prompt():
        """Returns the text up to the prompt after the next stop."""
        seen = b""
        while not re.search(rb", block \[.*\(tile\) ", seen, re.DOTALL):
            assert select.select([controller], [], [], 60)[0], f"no prompt after {seen}"
            seen += os.read(controller, 4096)
        return seen.decode()

    def current_line(text):
        return int(re.findall(r"kernels\.py:(\d+), block", text)[-1])

    def enter(keys):
        """Sends keys and the enter key."""
        os.write(controller, keys + b"\r")
        return read_to_prompt()

    first = current_line(read_to_prompt())
    # `nexx`, one character back, and `t`.
    second = current_line(enter(b"nexx\x7ft"))
    assert second > first, (first, second)
    # The left arrow moves the cursor: `bck` becomes `back`.
    assert current_line(enter(b"bck\x1b[D\x1b[Da")) == first
    # The up arrow recalls `back`, and then `next`.
    shown = enter(b"\x1b[A\x1b[A")
    assert current_line(shown) == second and "^[[A" not in shown, shown
    os.write(controller, b"quit\r")
    assert process.wait(timeout=60) == 0
    os.close(controller)


check_matmul()
runs_to_its_end()
edits_lines_at_a_terminal()
for broken in other:
    stops_where_a_stage_differs(broken)
print("debugged")
