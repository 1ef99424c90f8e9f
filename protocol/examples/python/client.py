#!/usr/bin/env python3
"""A whole client of Crystal with Python's standard library: starts or joins the daemon, makes a session, gives it a task,
streams the answer, answers approvals, and goes on where it was when the connection is lost.

    client.py [--yes] [--model NAME] WORKSPACE TASK

`crystald --stdio` connects this process with the home's daemon and starts that when it is absent. CRYSTALD names the
program when it is not on PATH, CRYSTAL_HOME another home. --yes says yes to every approval; else it asks.
"""
import argparse, contextlib, json, os, subprocess, sys, time


class Lost(Exception):
    """The connection went away before the answer came."""


class Connection:
    """One connection: calls with their answers, and notifications in order."""

    def __init__(self, on_notification):
        command = [os.environ.get("CRYSTALD", "crystald"), "--stdio"]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.on_notification = on_notification
        self.last = 0

    def send(self, method, **params):
        """Sends a call whose answer nobody waits for; gives its id."""
        self.last += 1
        params = {name: value for name, value in params.items() if value is not None}
        line = json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        try:
            self.child.stdin.write(line.encode() + b"\n")
            self.child.stdin.flush()
        except OSError as error:
            raise Lost from error
        return self.last

    def call(self, method, **params):
        """Sends a call and takes what comes until its answer is there."""
        wanted = self.send(method, **params)
        while True:
            line = self.child.stdout.readline()
            if not line.endswith(b"\n"):
                raise Lost
            message = json.loads(line)
            if "method" in message:
                self.on_notification(message["method"], message["params"])
            elif message["id"] == wanted:
                if "error" in message:
                    sys.exit(message["error"]["message"])
                return message["result"]

    def close(self):
        self.child.stdout.close()
        with contextlib.suppress(OSError):  # What was not sent any more went nowhere.
            self.child.stdin.close()
        self.child.wait()


class Session:
    """One session, followed over as many connections as it takes."""

    def __init__(self, options):
        self.options = options
        self.id, self.turn, self.link, self.asked = None, None, None, False
        self.seq = None  # The cursor: the last event that was seen.
        self.printed = {}  # How much of each message is on the screen, in characters.

    def connect(self):
        self.link = Connection(self.notified)
        client = {"name": "example-python", "version": "1.0.0"}
        hello = self.link.call("initialize", protocol={"min": 1, "max": 1}, client=client, environment=dict(os.environ))
        say(f"connected as {hello['connection']} through process {self.link.child.pid}")
        if self.id is None:
            workspace = os.path.abspath(self.options.workspace)
            created = self.link.call("session/create", workspace=workspace, model=self.options.model, trust="session")
            self.id = created["session"]["id"]
        attached = self.link.call("session/attach", session=self.id, after=self.seq)
        if "snapshot" in attached:
            self.show(attached["snapshot"], attached["seq"])

    def run(self, text):
        """Runs a task to its end; a lost connection is made anew, up to ten times in a row."""
        failures = 0
        while True:
            try:
                if self.link is None:
                    self.connect()
                failures = 0
                if self.turn is None:
                    self.asked, spans = True, [{"type": "text", "text": text}]
                    self.turn = self.link.call("turn/submit", session=self.id, spans=spans)["turn"]
                return self.link.call("turn/wait", session=self.id, turn=self.turn)
            except Lost:
                failures += 1
                # A task that may have been taken is not sent twice; the end of a turn can be asked for as often as needed.
                if (self.asked and self.turn is None) or failures > 10:
                    raise
                self.link.close()
                self.link = None
                time.sleep(0.05 * 2**failures)

    def notified(self, method, params):
        if method == "session/resync":
            self.show(params["snapshot"], params["seq"])
            return
        self.seq, event = params["seq"], params["event"]
        if event["type"] == "itemDelta" and event["field"] == "text":
            self.print(event["item"], event["delta"])
        elif event["type"] == "itemStarted" and event["item"]["kind"] == "toolCall":
            say(f"> {event['item']['title']}: {event['item']['status']}")
        elif event["type"] == "approvalRequested":
            self.answer(event["approval"])

    def show(self, snapshot, seq):
        """A snapshot stands for everything up to its number: shows what is not on the screen yet."""
        self.seq = seq
        for item in snapshot["items"]:
            if item["kind"] == "assistantMessage":
                self.print(item["id"], item["text"][self.printed.get(item["id"], 0) :])
        for approval in snapshot["approvals"]:
            self.answer(approval)

    def print(self, item, text):
        self.printed[item] = self.printed.get(item, 0) + len(text)
        sys.stdout.write(text)
        sys.stdout.flush()

    def answer(self, approval):
        say(f"? {approval['summary']} ({approval['reason']})")
        yes = self.options.yes or input("yes or no? ").lower().startswith("y")
        # Not waited for: when somebody was quicker, approvalResolved says so to all.
        self.link.send("approval/respond", session=self.id, id=approval["id"], decision="once" if yes else "deny")


def say(text):
    print(text, file=sys.stderr, flush=True)


parser = argparse.ArgumentParser()
parser.add_argument("--yes", action="store_true")
parser.add_argument("--model")
parser.add_argument("workspace")
parser.add_argument("task")
session = Session(parser.parse_args())
end = session.run(session.options.task)
say(f"\n{end['reason']} after {end['toolCalls']} tool calls")
session.link.call("session/close", session=session.id)
session.link.close()
sys.exit(0 if end["reason"] == "completed" else 1)
