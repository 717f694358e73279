// Drives the programs of examples/dualwrite as drive.py does.
import assert from 'node:assert'
import { readFileSync } from 'node:fs'
import { Refused, RowFollows, UnknownFamily, marks, put, remove } from '../../examples/dualwrite/node/orders.mjs'
import { TARGET, condition, nextNumber, requests } from '../../examples/dualwrite/node/rows.mjs'

const post = (url, body, headers) => fetch(url, { method: 'POST', body: JSON.stringify(body), headers, signal: AbortSignal.timeout(10_000) })

// DynamoDB of stores.mjs without the SDK, and without a signature.
class DynamoDB {
  constructor(endpoint) { this.endpoint = endpoint }

  async call(name, body) {
    const operation = name[0].toUpperCase() + name.slice(1)
    const answer = await post(this.endpoint, body, { 'X-Amz-Target': 'DynamoDB_20120810.' + operation, 'Content-Type': 'application/x-amz-json-1.0' })
    const content = await answer.json()
    if (!answer.ok) throw new Refused(content.__type.split('#')[1])
    if (name === this.lost) throw new Error('the answer was lost')
    return content
  }
}

// Bigtable of stores.mjs by the REST API.
class Bigtable {
  constructor(base) { this.base = base }

  async checkAndMutateRow(request) {
    const answer = await post(this.base + TARGET + ':checkAndMutateRow', request)
    if (!answer.ok) throw answer.status === 404 ? new UnknownFamily() : new Error(answer.statusText)
    return (await answer.json()).predicateMatched
  }

  async readRows(request) {
    return (await post(this.base + TARGET + ':readRows', request)).json()
  }
}

const away = { readRows: async () => { throw new Error('Bigtable is away') } }

async function live(base, endpoint) {
  const bigtable = new Bigtable(base), dynamodb = new DynamoDB(endpoint)
  const item = { pk: { S: '1' }, sk: { S: 'a' }, customer: { S: 'x' }, note: { S: 'new' } }
  const first = await put(dynamodb, bigtable, item)
  marks[TARGET] = { family: '_cdc_w00000000_1', read: 0 } // the fence rose
  const moved = await put(dynamodb, bigtable, { ...first, customer: { S: 'y' } })
  await assert.rejects(put(dynamodb, bigtable, first), error => error instanceof Refused && error.message === 'ConditionalCheckFailedException')
  await remove(dynamodb, bigtable, moved)
  const { rev, ...rest } = moved
  const again = await put(dynamodb, bigtable, rest)
  assert(BigInt(again.rev.N) > BigInt(rev.N))

  const second = await put(dynamodb, bigtable, { ...item, pk: { S: '2' } })
  dynamodb.lost = 'deleteItem'
  await remove(dynamodb, bigtable, second) // its row is removed all the same
  dynamodb.lost = 'putItem'
  await assert.rejects(put(dynamodb, bigtable, { ...item, pk: { S: '2' } }), RowFollows)
  dynamodb.lost = undefined
  const { Item } = await dynamodb.call('getItem', { TableName: 'Orders', Key: { pk: second.pk, sk: second.sk } })
  await remove(dynamodb, bigtable, Item)

  const ahead = { ...item, pk: { S: '4' }, rev: { N: '70000000000000000' } } // of another numbering
  await dynamodb.call('putItem', { TableName: 'Orders', Item: ahead })
  await remove(dynamodb, bigtable, ahead)
  const raised = await put(dynamodb, bigtable, { ...item, pk: { S: '4' } })
  assert.equal(raised.rev.N, '70000000000000001')

  await assert.rejects(put(dynamodb, away, { ...item, pk: { S: '3' }, note: { S: 'blind' } }), RowFollows)
  return again
}

function decide(v) {
  const { rev: _, ...read } = v.new ?? v.old
  if (v.old?.rev) read.rev = v.old.rev
  const number = v.new ? String(nextNumber(read, v.at / 1000, BigInt(v.remembered ?? 0))) : ''
  return { requests: requests(v.old, v.new, v.at, v.fence), number, condition: condition(read).ConditionExpression }
}

const [mode, ...args] = process.argv.slice(2)
const result = mode === 'vectors' ? JSON.parse(readFileSync(0, 'utf8')).map(decide) : await live(...args)
console.log(JSON.stringify(result))
