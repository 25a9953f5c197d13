// KafkaJS behind the face of tests/compat/peers: `node peer.js HOST:PORT OPERATION`, its arguments as one line of
// JSON on stdin, its result as JSON on stdout.  Bytes travel as base64.  The operation `member` runs until stdin
// ends and writes one JSON line for each assignment and message.

const readline = require('node:readline')
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')

const [, , broker, operation] = process.argv
const kafka = new Kafka({
  clientId: 'compat',
  brokers: [broker],
  logLevel: logLevel.ERROR,
  // The log goes to stderr; stdout carries results only.
  logCreator: () => ({ log }) => process.stderr.write(JSON.stringify(log) + '\n'),
})

const encode = bytes => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('base64'))
const decode = text => (text === null ? null : Buffer.from(text, 'base64'))
const mapValues = (object, change) =>
  Object.fromEntries(Object.entries(object || {}).map(([name, value]) => [name, change(value)]))

const toJson = (partition, message) => ({
  value: encode(message.value),
  key: encode(message.key),
  headers: mapValues(message.headers, encode),
  timestamp: message.timestamp,
  offset: message.offset,
  partition,
})

async function withAdmin(use) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await use(admin)
  } finally {
    await admin.disconnect()
  }
}

const operations = {
  createTopic: ({ topic, partitions, configs }) =>
    withAdmin(admin =>
      admin.createTopics({
        waitForLeaders: true,
        topics: [
          {
            topic,
            numPartitions: partitions,
            configEntries: Object.entries(configs).map(([name, value]) => ({ name, value })),
          },
        ],
      })
    ),

  deleteTopic: ({ topic }) => withAdmin(admin => admin.deleteTopics({ topics: [topic] })).then(() => true),

  topics: () => withAdmin(admin => admin.listTopics()),

  topicConfigs: ({ topic }) =>
    withAdmin(async admin => {
      const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
      const { resources } = await admin.describeConfigs({ resources: [resource], includeSynonyms: false })
      return Object.fromEntries(resources[0].configEntries.map(each => [each.configName, each.configValue]))
    }),

  alterTopicConfig: ({ topic, name, value }) =>
    withAdmin(admin =>
      admin.alterConfigs({
        validateOnly: false,
        resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] }],
      })
    ).then(() => true),

  async produce({ topic, messages, compression, idempotent }) {
    const producer = kafka.producer({ idempotent })
    await producer.connect()
    await producer.send({
      topic,
      acks: -1,
      compression: compression === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None,
      messages: messages.map(message => ({
        ...message,
        value: decode(message.value),
        key: decode(message.key),
        headers: mapValues(message.headers, decode),
      })),
    })
    await producer.disconnect()
    return true
  },

  async consume({ topic, partition, count, since }) {
    let start = '0'
    if (since !== undefined) {
      const offsets = await withAdmin(admin => admin.fetchTopicOffsetsByTimestamp(topic, since))
      start = offsets.find(each => each.partition === partition).offset
    }
    const consumer = kafka.consumer({ groupId: `reader-${process.pid}-${Date.now()}`, sessionTimeout: 6000 })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    const read = []
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      consumer
        .run({
          autoCommit: false,
          eachMessage: async ({ partition: from, message }) => {
            if (from === partition && BigInt(message.offset) >= BigInt(start) && read.length < count) {
              read.push(toJson(from, message))
              if (read.length === count) resolve()
            }
          },
        })
        .catch(reject)
      consumer.seek({ topic, partition, offset: start })
    })
    await consumer.disconnect()
    return read
  },

  async member({ group, topic }, ended) {
    const say = event => process.stdout.write(JSON.stringify(event) + '\n')
    const consumer = kafka.consumer({ groupId: group, sessionTimeout: 6000, heartbeatInterval: 500 })
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => say({ partitions: payload.memberAssignment[topic] || [] }))
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ eachMessage: async ({ partition, message }) => say({ message: toJson(partition, message) }) })
    await ended
    await consumer.stop() // commits what eachMessage has finished
    await consumer.disconnect()
  },
}

const input = readline.createInterface({ input: process.stdin })
const ended = new Promise(resolve => input.on('close', resolve))
input.once('line', async line => {
  try {
    const result = await operations[operation](JSON.parse(line), ended)
    if (result !== undefined) process.stdout.write(JSON.stringify(result))
    process.exitCode = 0
  } catch (error) {
    process.stderr.write(`${error.stack}\n`)
    process.exitCode = 1
  }
  input.close()
  process.stdin.destroy()
})
