"""debug.py TILE-DEBUG SCHEMA KERNEL LAUNCH SOURCE [OTHER]: debugs a matmul as an editor would, with a client library of the Debug
Adapter Protocol. The script validates every reply against the protocol's own schema."""
import json
import re
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
        """Reads one message, validates it against the schema, and passes it to the library."""
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
        """The next event of a name. The library itself sends that of the answer to `initialize`."""
        while True:
            message = self.pump()
            if sent_by_library and message["type"] == "response" and message["command"] == "initialize":
                self.capabilities = message["body"]
                return message
            if message["type"] == "event" and message["event"] == name:
                return message.get("body", {})

    def ask(self, number, fails=False):
        """The answer to a request."""
        self.flush()
        while True:
            message = self.pump()
            if message["type"] == "response" and message["request_seq"] == number:
                assert message["success"] != fails, message
                return message["message"] if fails else message.get("body", {})

    def request(self, command, fails=False, **arguments):
        """A request for which the library has no method."""
        return self.ask(self.client._send_request(command, arguments), fails)

    def go(self, number):
        """Starts the kernel, and waits until it stops."""
        self.ask(number)
        return self.event("stopped")

    def back(self, command, **arguments):
        return self.go(self.client._send_request(command, {"threadId": self.thread(), **arguments}))

    def thread(self):
        return self.ask(self.client.threads())["threads"][0]["id"]

    def frames(self):
        return self.ask(self.client.stack_trace(self.thread()))["stackFrames"]

    def line(self):
        return self.frames()[0]["line"]

    def variables(self, scope):
        scopes = self.ask(self.client.scopes(self.frames()[0]["id"]))["scopes"]
        reference = next(one for one in scopes if one["name"] == scope)["variablesReference"]
        return {one["name"]: one for one in self.ask(self.client.variables(reference))["variables"]}

    def evaluate(self, text, **more):
        return self.ask(self.client.evaluate(text, **more))["result"]

    def leave(self):
        self.client.disconnect()
        self.flush()
        assert self.process.wait(timeout=60) == 0


def lines(word):
    """The number of the source line of the kernel that contains a word."""
    text = open(source).read().split("\n")
    start = next(number for number, line in enumerate(text) if line.startswith("def matmul("))
    return next(number + 1 for number in range(start, len(text)) if word in text[number])


def matmul():
    """Breakpoints, steps in both directions, variables with their elements, the tile block."""
    editor = Editor()
    assert editor.capabilities["supportsStepBack"] and editor.capabilities["supportsConditionalBreakpoints"]
    editor.ask(editor.client.launch(program=kernel, launch=launch, source=[source], stopOnEntry=True, stopAtEnd=True))
    editor.event("initialized")
    product = lines("ct.mma")
    asked = [{"line": product, "condition": "block.y == 1 && k == 1"}, {"line": 100000}]
    answers = editor.ask(editor.client.set_breakpoints({"path": source}, asked))["breakpoints"]
    assert [one["verified"] for one in answers] == [True, False] and answers[0]["line"] == product
    editor.ask(editor.client.set_exception_breakpoints(["memory", "race", "init", "nan"]))
    editor.ask(editor.client.configuration_done())
    assert editor.event("stopped")["reason"] == "entry"
    assert editor.line() == lines("def matmul(")

    assert editor.go(editor.client.next(editor.thread()))["reason"] == "step"
    before = editor.line()
    editor.go(editor.client.next(editor.thread()))
    assert editor.line() > before
    editor.back("stepBack")
    assert editor.line() == before

    stopped = editor.go(editor.client.continue_execution(editor.thread()))
    assert stopped["reason"] == "breakpoint" and stopped["hitBreakpointIds"] == [answers[0]["id"]]
    assert editor.line() == product and editor.evaluate("block.y") == "1"
    variables = editor.variables("Variables")
    assert {"x", "y", "total", "k"} <= set(variables) and variables["k"]["value"] == "1"
    x = variables["x"]
    assert x["type"] == "f16[32, 16]" and x["indexedVariables"] == 32
    rows = editor.ask(editor.client.variables(x["variablesReference"], filter="indexed", start=3, count=2))["variables"]
    assert [row["name"] for row in rows] == ["[3]", "[4]"]
    elements = editor.ask(editor.client.variables(rows[0]["variablesReference"]))["variables"]
    assert elements[0]["name"] == "statistics" and elements[0]["value"].startswith("min ")
    assert elements[1]["value"] == editor.evaluate("x[3, 0]").split()[-1]
    memory = editor.variables("Memory")
    assert memory["arg0"]["type"] == "f16[3072]"
    assert editor.frames()[0]["source"]["path"] == source and editor.frames()[0]["name"] == "matmul"
    # Values that are computed already do not change.
    total = editor.evaluate("sum(total)")
    assert editor.evaluate("sum(total)", context="watch") == total
    editor.go(editor.client.next(editor.thread()))
    assert editor.evaluate("sum(total)") != total
    editor.back("reverseContinue")
    assert editor.line() == product and editor.evaluate("sum(total)") == total
    editor.back("stepBack", granularity="instruction")
    op = editor.evaluate("k")
    editor.go(editor.client._send_request("next", {"threadId": editor.thread(), "granularity": "instruction"}))
    assert editor.line() == product and editor.evaluate("k") == op

    # Watches stop at a change of a value; a function breakpoint stops at its first line.
    known = editor.request("dataBreakpointInfo", name="k", variablesReference=0)
    assert known["dataId"] == "k" and known["accessTypes"] == ["write"], known
    assert editor.request("dataBreakpointInfo", name="nowhere", variablesReference=0)["dataId"] is None
    watched = editor.request("setDataBreakpoints", breakpoints=[{"dataId": "k"}])["breakpoints"]
    editor.ask(editor.client.set_breakpoints({"path": source}, []))
    changed = editor.back("reverseContinue")
    assert changed["reason"] == "data breakpoint" and changed["hitBreakpointIds"] == [watched[0]["id"]], changed
    assert changed["text"].startswith("k: "), changed
    assert editor.request("setDataBreakpoints", breakpoints=[])["breakpoints"] == []
    asked = [{"name": "matmul"}, {"name": "nowhere"}]
    answers = editor.request("setFunctionBreakpoints", breakpoints=asked)["breakpoints"]
    assert [one["verified"] for one in answers] == [True, False], answers
    at_function = editor.back("reverseContinue")
    assert at_function["reason"] == "breakpoint" and at_function["hitBreakpointIds"] == [answers[0]["id"]], at_function
    assert editor.request("setFunctionBreakpoints", breakpoints=[])["breakpoints"] == []

    assert "nothing is called 'nowhere'" in editor.ask(editor.client.evaluate("nowhere"), fails=True)
    assert "is not supported" in editor.request("setVariable", fails=True, variablesReference=1, name="x", value="1")
    found = editor.request("breakpointLocations", source={"path": source}, line=product - 2, endLine=product)
    assert {"line": product} in found["breakpoints"]
    # Another tile block, from its beginning.
    number = editor.client.evaluate("block 1:0", context="repl")
    assert editor.go(number)["reason"] == "entry"
    assert editor.ask(editor.client.threads())["threads"][0]["name"] == "tile block [1, 0, 0]"
    assert editor.evaluate("block.x") == "1"
    editor.ask(editor.client.set_breakpoints({"path": source}, [{"line": product, "logMessage": "k is {k}"}]))
    end = editor.go(editor.client.continue_execution(editor.thread()))
    said = "".join(one["body"]["output"] for one in editor.seen if one.get("event") == "output")
    assert "k is i32 0\n" in said and "ends" in end["description"], (said, end)
    editor.back("stepBack")
    assert editor.line() == lines("ct.store(c, index=(i, j), tile=total)")
    assert editor.go(editor.client._send_request("restart", {}))["reason"] == "entry"
    editor.ask(editor.client._send_request("terminate", {}))
    editor.event("terminated")
    assert editor.process.wait(timeout=60) == 0


def runs_to_its_end():
    """A kernel without breakpoints runs to its end, and the editor receives an event."""
    editor = Editor()
    assert "no program is being debugged yet" in editor.ask(editor.client.threads(), fails=True)
    assert "/nowhere/k.tile" in editor.ask(editor.client.launch(program="/nowhere/k.tile"), fails=True)
    editor.ask(editor.client.attach(program=kernel, args=["--launch", launch]))
    editor.event("initialized")
    editor.ask(editor.client.configuration_done())
    assert editor.event("exited")["exitCode"] == 0
    editor.event("terminated")
    editor.leave()


def stops_where_a_stage_differs(broken):
    editor = Editor()
    editor.ask(editor.client.launch(program=broken, launch=launch, source=[source], against=kernel))
    editor.event("initialized")
    editor.ask(editor.client.configuration_done())
    stopped = editor.event("stopped")
    assert stopped["reason"] == "exception" and " in kernel.tileirbc" in stopped["text"], stopped
    assert editor.line() == lines("total = ct.full"), editor.line()
    info = editor.request("exceptionInfo", threadId=editor.thread())
    assert info["exceptionId"] == "difference" and "differ" in info["description"]
    editor.leave()


matmul()
runs_to_its_end()
for broken in other:
    stops_where_a_stage_differs(broken)
print("debugged")
