// A worker with amqplib, as a user has it.
const amqp = require(process.env.AMQPLIB);

(async () => {
  const connection = await amqp.connect(process.env.AMQP_URL);
  const channel = await connection.createChannel();
  await channel.consume("payments", (message) => {
    console.log("handled " + message.content);
    channel.ack(message);
  });
})();
