// A client of leveret's control API, as small as a suite needs it. /leveret/v1/openapi.json describes all of it.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const AUTHORIZATION = `Basic ${btoa("guest:guest")}`;

/** A broker that serves HTTP: the one in LEVERET_HTTP, or else one of its own. */
export class Broker {
  static async start() {
    if (process.env.LEVERET_HTTP) return new Broker(process.env.LEVERET_HTTP);
    const served = spawn("leveret", ["serve", "--port", "0", "--management-port", "0"]);
    const lines = createInterface({ input: served.stdout })[Symbol.asyncIterator]();
    await lines.next();
    return new Broker((await lines.next()).value, served);
  }

  constructor(url, served) {
    this.root = `${url}/leveret/v1`;
    this.served = served;
  }

  stop() {
    this.served?.kill();
  }

  /** Send a request, and return the JSON of the answer. A refusal throws with leveret's own text. */
  async ask(method, path, body) {
    const response = await fetch(this.root + path, {
      method,
      headers: { authorization: AUTHORIZATION, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    const answer = text ? JSON.parse(text) : undefined;
    if (!response.ok) throw new Error(`${answer.reason}\n${answer.report ?? ""}`);
    return answer;
  }

  /** Make a virtual host for one test. */
  async vhost() {
    const { name, url } = await this.ask("POST", "/vhosts", {});
    return new Vhost(this, name, url);
  }

  hold() {
    return this.ask("POST", "/clock/hold");
  }

  advance(span) {
    return this.ask("POST", "/clock/advance", span);
  }

  release() {
    return this.ask("POST", "/clock/release");
  }
}

/** A virtual host: what a test sees and does touches no other test. */
export class Vhost {
  constructor(broker, name, url) {
    Object.assign(this, { broker, name, url });
  }

  get(path) {
    return this.broker.ask("GET", `/vhosts/${encodeURIComponent(this.name)}${path}`);
  }

  post(path, body = {}) {
    return this.broker.ask("POST", `/vhosts/${encodeURIComponent(this.name)}${path}`, body);
  }

  publish(routing_key, json) {
    return this.post("/publish", { routing_key, json });
  }

  /** Assert that something happened, and return the messages: `assert("acked", { queue: "orders" })`. */
  async assert(what, about = {}) {
    return (await this.post(`/assert/${what}`, about))?.messages;
  }

  fault(fault, when = {}) {
    return this.broker.ask("POST", "/faults", { fault, vhost: this.name, ...when });
  }

  async drop() {
    await this.broker.ask("DELETE", `/faults?vhost=${encodeURIComponent(this.name)}`);
    await this.broker.ask("DELETE", `/vhosts/${encodeURIComponent(this.name)}`);
  }
}
