/**
 * memctl as a child process: the MCP server, kept open for each workspace, and one hook per prompt.
 */

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** Milliseconds for an answer; the server itself gives up a little sooner. */
const DEADLINE_MS = 20_000;
/** Milliseconds for recall, after which the prompt goes on without it. */
const RECALL_MS = 1_000;
const PROTOCOL = "2025-06-18";

/** @typedef {{ content?: { type: string, text?: string }[], isError?: boolean }} ToolResult */
/** @typedef {{ resolve: (result: any) => void, reject: (error: Error) => void }} Waiting */

/** One `memctl mcp` in the folder of a workspace, which decides whose memory it searches. */
class Server {
  /** @param {string[]} command @param {string} [folder] */
  constructor(command, folder) {
    this.ended = false;
    this.number = 0;
    /** @type {Map<number, Waiting>} */
    this.waiting = new Map();
    this.said = "";
    const [program, ...options] = command;
    this.child = spawn(program, ["mcp", ...options], { cwd: folder, stdio: "pipe" });
    this.child.on("error", (error) => this.end(`can't run ${program}: ${error.message}`));
    this.child.on("exit", () => this.end(this.said.trim() || "memctl mcp has ended"));
    this.child.stdin.on("error", () => {});
    this.child.stderr.on("data", (data) => (this.said = (this.said + data).slice(-2000)));
    createInterface({ input: this.child.stdout }).on("line", (line) => this.read(line));
    // An agent that is done must not wait for its memory.
    this.child.unref();
    for (const pipe of [this.child.stdin, this.child.stdout, this.child.stderr]) {
      /** @type {any} */ (pipe).unref?.();
    }
    const client = { name: "openclaw-memoryd", version: "0.1.0" };
    this.ready = this.request("initialize", {
      protocolVersion: PROTOCOL,
      capabilities: {},
      clientInfo: client,
    }).then(() => this.send({ method: "notifications/initialized" }));
    this.ready.catch(() => {});
  }

  /**
   * @param {string} name @param {unknown} args @param {string} chatType
   * @returns {Promise<ToolResult>}
   */
  async call(name, args, chatType) {
    await this.ready;
    const _meta = { "memoryd/chatType": chatType };
    return this.request("tools/call", { name, arguments: args, _meta });
  }

  /** @param {string} method @param {unknown} params @returns {Promise<any>} */
  request(method, params) {
    const id = ++this.number;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.end("memctl mcp does not answer"), DEADLINE_MS);
      const done = () => {
        clearTimeout(timer);
        this.waiting.delete(id);
      };
      this.waiting.set(id, {
        resolve: (result) => (done(), resolve(result)),
        reject: (error) => (done(), reject(error)),
      });
      if (this.ended) this.end(this.said || "memctl mcp has ended");
      else this.send({ id, method, params });
    });
  }

  /** @param {object} message */
  send(message) {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  /** @param {string} line */
  read(line) {
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      return this.end("memctl mcp wrote something else than JSON");
    }
    const waiting = this.waiting.get(message.id);
    if (message.error) waiting?.reject(new Error(message.error.message));
    else waiting?.resolve(message.result);
  }

  /** @param {string} reason */
  end(reason) {
    this.ended = true;
    this.child.kill();
    for (const waiting of [...this.waiting.values()]) waiting.reject(new Error(reason));
  }
}

/** The servers of all workspaces. */
export class Memctl {
  /** @param {string[]} command `memctl` and its general options */
  constructor(command) {
    this.command = command;
    /** @type {Map<string, Server>} */
    this.servers = new Map();
  }

  /**
   * Call a tool and return its text, without private memory unless the chat is direct.
   * @param {string} name @param {unknown} args @param {string} chatType @param {string} [folder]
   */
  async call(name, args, chatType, folder) {
    const key = folder ?? "";
    let server = this.servers.get(key);
    if (!server || server.ended) {
      server = new Server(this.command, folder);
      this.servers.set(key, server);
    }
    const result = await server.call(name, args, chatType);
    return (result.content ?? []).map((part) => part.text ?? "").join("\n");
  }

  /**
   * Return the context that fits a message, "" for none. Never fails.
   *
   * The message goes through a pipe, because everybody can read the arguments of a process.
   * @param {string} message @param {string} [folder] @param {string} [session]
   * @returns {Promise<string>}
   */
  recall(message, folder, session) {
    const [program, ...options] = this.command;
    const event = "UserPromptSubmit";
    return new Promise((resolve) => {
      const child = spawn(program, ["hook", "claude", event, ...options], {
        cwd: folder,
        stdio: ["pipe", "pipe", "ignore"],
        timeout: RECALL_MS,
      });
      let output = "";
      child.stdin.on("error", () => {});
      child.stdout.on("data", (data) => (output += data));
      child.on("error", () => resolve(""));
      child.on("close", () => resolve(contextOf(output)));
      const payload = { session_id: session ?? "", cwd: folder ?? process.cwd(), prompt: message };
      child.stdin.end(JSON.stringify({ hook_event_name: event, ...payload }));
    });
  }

  /** End all servers. */
  close() {
    for (const server of this.servers.values()) server.end("the plugin is closing");
    this.servers.clear();
  }
}

/** @param {string} output @returns {string} */
function contextOf(output) {
  try {
    return JSON.parse(output).hookSpecificOutput?.additionalContext ?? "";
  } catch {
    return "";
  }
}
