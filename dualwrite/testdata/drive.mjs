// Drives the recipe of the documentation as drive.py does.
import assert from 'node:assert'
import { readFileSync } from 'node:fs'
const { marks, put, remove, requests, rest } = await import(process.cwd() + '/recipe.mjs')

// As a client of the SDK, without a signature.
const dynamodbAt = endpoint => new Proxy({}, {
  get: (_, name) => async body => {
    const operation = name[0].toUpperCase() + name.slice(1)
    const headers = { 'X-Amz-Target': 'DynamoDB_20120810.' + operation, 'Content-Type': 'application/x-amz-json-1.0' }
    const answer = await fetch(endpoint, { method: 'POST', body: JSON.stringify(body), headers })
    const content = await answer.json()
    if (!answer.ok) throw Object.assign(new Error(content.message), { name: content.__type.split('#')[1] })
    return content
  },
})

async function live(base, endpoint) {
  const bigtable = rest('test', base), dynamodb = dynamodbAt(endpoint)
  const first = await put(dynamodb, bigtable, { pk: { S: '1' }, sk: { S: 'a' }, customer: { S: 'x' }, note: { S: 'new' } })
  marks['projects/p/instances/i/tables/orders'] = '_cdc_w00000000_1' // the fence rose
  const moved = await put(dynamodb, bigtable, { ...first, customer: { S: 'y' } })
  await assert.rejects(put(dynamodb, bigtable, first), { name: 'ConditionalCheckFailedException' })
  await remove(dynamodb, bigtable, moved)
  const { rev, ...item } = moved
  const again = await put(dynamodb, bigtable, item)
  assert(BigInt(again.rev.N) > BigInt(rev.N))
  return again
}

const [mode, ...args] = process.argv.slice(2)
const result = mode === 'vectors'
  ? JSON.parse(readFileSync(0, 'utf8')).map(v => requests(v.old, v.new, v.at, v.fence))
  : await live(...args)
console.log(JSON.stringify(result))
