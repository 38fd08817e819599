import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { Billing } from "./billing.js";
import { Broker } from "./leveret.js";

let broker;
let vhost;
let services;

before(async () => {
  broker = await Broker.start();
});

after(() => broker.stop());

beforeEach(async () => {
  vhost = await broker.vhost();
  services = [];
});

afterEach(async () => {
  await Promise.all(services.map((service) => service.stop()));
  await broker.release();
  await vhost.drop();
});

async function billing(charge) {
  const service = new Billing(vhost.url, charge);
  services.push(service);
  await service.start();
  return service;
}

async function declined() {
  throw new Error("the card was declined");
}

test("an order becomes an invoice and is acknowledged", async () => {
  await billing();

  await vhost.publish("orders", { id: 7, total: 12 });

  await vhost.assert("acked", { queue: "orders", json: { id: 7, total: 12 }, timeout: 5 });
  const [invoice] = await vhost.assert("published", { exchange: "shop", routing_key: "invoice.*" });
  assert.equal(JSON.parse(invoice.body).id, 7);
});

test("an order without a total is dead-lettered", async () => {
  await billing();

  await vhost.publish("orders", { id: 7 });

  const [letter] = await vhost.assert("dead-lettered", {
    queue: "orders",
    to: "orders.dead",
    reason: "rejected",
    timeout: 5,
  });
  assert.equal(letter.deaths[0].queue, "orders");
  await vhost.assert("not-published", { exchange: "shop" });
});

test("a declined order is tried again after 30 seconds, which take no time", async () => {
  await broker.hold();
  let tries = 0;
  await billing(async () => {
    tries += 1;
    if (tries === 1) await declined();
  });
  await vhost.publish("orders", { id: 7, total: 12 });
  await vhost.assert("acked", { queue: "orders", timeout: 5 });

  await broker.advance({ seconds: 30 });

  await vhost.assert("dead-lettered", { queue: "orders.retry", to: "orders", reason: "expired" });
  await vhost.assert("published", { exchange: "shop", timeout: 5 });
  assert.equal(tries, 2);
});

test("a declined order is not tried before its time", async () => {
  await broker.hold();
  let tries = 0;
  await billing(async () => {
    tries += 1;
    await declined();
  });
  await vhost.publish("orders", { id: 7, total: 12 });
  await vhost.assert("acked", { queue: "orders", timeout: 5 });

  await broker.advance({ ms: 29_999 });

  assert.equal(tries, 1);
  assert.equal((await vhost.get("/queues/orders.retry")).ready_count, 1);
});

test("an order that is declined three times is set aside", async () => {
  await broker.hold();
  await billing(declined);
  await vhost.publish("orders", { id: 7, total: 12 });
  await vhost.assert("acked", { queue: "orders", timeout: 5 });

  await broker.advance({ minutes: 5 });

  await vhost.assert("acked", { queue: "orders", times: 3, timeout: 5 });
  const { ready } = await vhost.get("/queues/orders.dead");
  assert.deepEqual(
    ready.map((message) => message.headers.tries),
    [3],
  );
});

test("a connection that drops on the ack charges the order only once", async () => {
  let charges = 0;
  await billing(async () => {
    charges += 1;
  });
  const fault = await vhost.fault("reset_peer", { on: "basic.ack" });

  await vhost.publish("orders", { id: 7, total: 12 });

  await vhost.assert("requeued", { queue: "orders", reason: "channel_closed", timeout: 5 });
  await vhost.assert("acked", { queue: "orders", redelivered: true, timeout: 5 });
  await vhost.assert("published", { exchange: "shop", times: 1 });
  assert.equal(charges, 1);
  assert.equal((await broker.ask("GET", `/faults/${fault.id}`)).fired, 1);
});

test("an invoice that the broker nacks is sent again", async () => {
  await billing();
  await vhost.fault("nack_publishes", { exchange: "shop", times: 1 });

  await vhost.publish("orders", { id: 7, total: 12 });

  await vhost.assert("nacked", { exchange: "shop", timeout: 5 });
  await vhost.assert("requeued", { queue: "orders", reason: "nacked", timeout: 5 });
  await vhost.assert("confirmed", { exchange: "shop", timeout: 5 });
});

test("the service comes back when an operator closes its connections", async () => {
  await billing();

  await vhost.post("/connections/close");
  await vhost.publish("orders", { id: 7, total: 12 });

  await vhost.assert("acked", { queue: "orders", timeout: 5 });
});

test("the service holds nothing once it is idle", async () => {
  await billing();
  for (let id = 1; id <= 20; id += 1) await vhost.publish("orders", { id, total: 12 });

  await vhost.post("/wait-idle", { timeout: 5 });

  await vhost.assert("empty", { queue: "orders" });
  await vhost.assert("acked", { queue: "orders", times: 20 });
});

test("a failed assertion says which message came nearest", async () => {
  await billing();
  await vhost.publish("orders", { id: 7, total: 12 });
  await vhost.assert("acked", { queue: "orders", timeout: 5 });

  await assert.rejects(vhost.assert("published", { exchange: "shop", json: { id: 8, total: 12 } }), {
    message: /nearest: #\d+ \('shop', 'invoice.created'.*\n.*differs: JSON\['id'\] is 7 instead of 8/,
  });
});
