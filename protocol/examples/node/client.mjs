#!/usr/bin/env node
// A whole client of Crystal in plain Node: starts or joins the daemon, makes a session, gives it a task, streams the
// answer, answers approvals, and goes on where it was when the connection is lost.
//
//   node client.mjs [--yes] [--model NAME] WORKSPACE TASK
//
// `crystald --stdio` connects this process with the home's daemon and starts that when it is absent. CRYSTALD names the
// program when it is not on PATH, CRYSTAL_HOME another home. --yes says yes to every approval; else it asks.
import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

/** One connection: calls with their answers, and notifications in order. */
class Connection {
  #next = 1;
  #waiting = new Map();

  constructor(onNotification) {
    this.child = spawn(process.env.CRYSTALD ?? "crystald", ["--stdio"], { stdio: ["pipe", "pipe", "inherit"] });
    this.closed = new Promise((resolve) => {
      const end = (error = new Lost("the connection was lost")) => {
        for (const { reject } of this.#waiting.values()) reject(error);
        this.#waiting.clear();
        resolve();
      };
      this.child.on("error", end);
      this.child.stdin.on("error", () => {}); // A lost connection is noticed where answers are waited for.
      createInterface({ input: this.child.stdout, crlfDelay: Infinity })
        .on("line", (line) => this.#take(JSON.parse(line), onNotification))
        .on("close", () => end());
    });
  }

  #take(message, onNotification) {
    if (message.method) return onNotification(message.method, message.params);
    const call = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.error) call?.reject(Object.assign(new Error(message.error.message), message.error));
    else call?.resolve(message.result);
  }

  call(method, params = {}) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.child.stdin.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
    });
  }
}

/** The connection went away before the answer came. */
class Lost extends Error {}

/** One session, followed over as many connections as it takes. */
class Session {
  seq; // The cursor: the last event that was seen.
  #printed = new Map(); // How much of each message is on the screen, in characters.

  constructor(options) {
    this.options = options;
  }

  async connect() {
    const link = new Connection((method, params) => this.#notified(method, params));
    this.link = link;
    const hello = await link.call("initialize", {
      protocol: { min: 1, max: 1 },
      client: { name: "example-node", version: "1.0.0" },
      environment: process.env,
    });
    console.error(`connected as ${hello.connection} through process ${link.child.pid}`);
    if (!this.id) {
      const { workspace, model } = this.options;
      const created = await link.call("session/create", { workspace, model, trust: "session" });
      this.id = created.session.id;
    }
    const attached = await link.call("session/attach", { session: this.id, after: this.seq });
    if (attached.snapshot) this.#show(attached.snapshot, attached.seq);
  }

  /** Runs a task to its end; a lost connection is made anew, up to ten times in a row. */
  async run(text) {
    for (let failures = 0; ; ) {
      try {
        if (!this.link) await this.connect();
        failures = 0;
        if (!this.turn) {
          this.asked = true;
          ({ turn: this.turn } = await this.link.call("turn/submit", { session: this.id, spans: [{ type: "text", text }] }));
        }
        return await this.link.call("turn/wait", { session: this.id, turn: this.turn });
      } catch (error) {
        // A task that may have been taken is not sent twice; the end of a turn can be asked for as often as needed.
        if (!(error instanceof Lost) || (this.asked && !this.turn) || ++failures > 10) throw error;
        this.link = undefined;
        await new Promise((resolve) => setTimeout(resolve, 50 * 2 ** failures));
      }
    }
  }

  #notified(method, { session, seq, event, snapshot }) {
    if (session !== this.id) return;
    if (method === "session/resync") return this.#show(snapshot, seq);
    this.seq = seq;
    if (event.type === "itemDelta" && event.field === "text") this.#print(event.item, event.delta);
    if (event.type === "itemStarted" && event.item.kind === "toolCall") console.error(`> ${event.item.title}: ${event.item.status}`);
    if (event.type === "approvalRequested") this.#answer(event.approval);
  }

  /** A snapshot stands for everything up to its number: shows what is not on the screen yet. */
  #show(snapshot, seq) {
    this.seq = seq;
    for (const item of snapshot.items.filter((item) => item.kind === "assistantMessage"))
      this.#print(item.id, item.text.slice(this.#printed.get(item.id) ?? 0));
    for (const approval of snapshot.approvals) this.#answer(approval);
  }

  #print(item, text) {
    this.#printed.set(item, (this.#printed.get(item) ?? 0) + text.length);
    process.stdout.write(text);
  }

  async #answer({ id, summary, reason }) {
    console.error(`? ${summary} (${reason})`);
    const decision = this.options.yes || (await ask("yes or no? ")) ? "once" : "deny";
    try {
      await this.link.call("approval/respond", { session: this.id, id, decision });
    } catch (error) {
      // Somebody was quicker, or the link is gone: then the next snapshot, or the event, shows the approval again.
      if (!(error instanceof Lost) && error.data?.kind !== "alreadyResolved") console.error(error.message);
    }
  }
}

function ask(question) {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  return new Promise((resolve) => terminal.question(question, (answer) => (terminal.close(), resolve(/^y/i.test(answer)))));
}

const { values, positionals } = parseArgs({ options: { yes: { type: "boolean" }, model: { type: "string" } }, allowPositionals: true });
const session = new Session({ ...values, workspace: resolve(positionals[0]) });
const end = await session.run(positionals[1]);
console.error(`\n${end.reason} after ${end.toolCalls} tool calls`);
await session.link.call("session/close", { session: session.id });
session.link.child.stdin.end();
process.exitCode = end.reason === "completed" ? 0 : 1;
