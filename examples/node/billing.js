// The service: it turns orders into invoices. An order that it cannot charge waits 30 seconds and is tried again; after
// three tries it is set aside.

import amqp from "amqplib";

export const TRIES = 3;
const RETRY_MS = 30_000;
const RECONNECT_MS = 10;

export class Billing {
  /** `charge` takes an order, and throws if it cannot be charged now. */
  constructor(url, charge = async () => {}) {
    this.url = url;
    this.charge = charge;
    // The orders that were charged: one that comes again is not charged twice.
    this.charged = new Set();
    this.isStopped = false;
  }

  async start() {
    this.connection = await amqp.connect(this.url);
    this.connection.on("error", () => {});
    this.connection.on("close", () => this.reconnect());
    this.channel = await this.connection.createConfirmChannel();
    this.channel.on("error", () => {});
    const channel = this.channel;
    await channel.assertExchange("shop", "topic");
    await channel.assertQueue("orders.dead");
    await channel.assertQueue("orders", { deadLetterExchange: "", deadLetterRoutingKey: "orders.dead" });
    await channel.assertQueue("orders.retry", {
      deadLetterExchange: "",
      deadLetterRoutingKey: "orders",
      messageTtl: RETRY_MS,
    });
    await channel.consume("orders", (delivery) => delivery && this.handle(channel, delivery).catch(() => {}), {
      consumerTag: "billing",
    });
  }

  reconnect() {
    if (this.isStopped) return;
    setTimeout(() => this.start().catch(() => this.reconnect()), RECONNECT_MS);
  }

  async stop() {
    this.isStopped = true;
    await this.connection.close().catch(() => {});
  }

  async handle(channel, delivery) {
    const order = JSON.parse(delivery.content.toString());
    if (!(order.total > 0)) {
      channel.nack(delivery, false, false);
      return;
    }
    try {
      if (!this.charged.has(order.id)) await this.charge(order);
    } catch {
      await this.retry(channel, delivery);
      return;
    }
    try {
      if (!this.charged.has(order.id)) await this.send(channel, "shop", "invoice.created", order);
    } catch {
      channel.nack(delivery, false, true);
      return;
    }
    this.charged.add(order.id);
    channel.ack(delivery);
  }

  async retry(channel, delivery) {
    const tries = (delivery.properties.headers?.tries ?? 0) + 1;
    const order = JSON.parse(delivery.content.toString());
    await this.send(channel, "", tries < TRIES ? "orders.retry" : "orders.dead", order, { headers: { tries } });
    channel.ack(delivery);
  }

  /** Publish, and wait for the broker's confirm. */
  send(channel, exchange, routingKey, value, options = {}) {
    return new Promise((resolve, reject) => {
      const body = Buffer.from(JSON.stringify(value));
      channel.publish(exchange, routingKey, body, options, (error) => (error ? reject(error) : resolve()));
    });
  }
}
