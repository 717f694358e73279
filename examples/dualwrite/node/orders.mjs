// Writes orders to DynamoDB and then to Bigtable. stores.mjs has the clients of both.
import { isDeepStrictEqual } from 'node:util'
import {
  ATTRIBUTE, SOURCE, TARGET, WITHHELD, column, condition, nextNumber, requests, rowKey, valuesOf, witness,
} from './rows.mjs'

export const marks = {} // the fence's family, as last read from replicator's row, and the time of the read

// DynamoDB refused a request: it was not executed.
export class Refused extends Error {}
// Bigtable knows no such family: the fence has risen.
export class UnknownFamily extends Error {}
// DynamoDB has the change, and replicator writes the row. Do not repeat the call.
export class RowFollows extends Error {}

const keyOf = item => ({ pk: item.pk, sk: item.sk })
const get = async (dynamodb, item) =>
  (await dynamodb.call('getItem', { TableName: SOURCE, Key: keyOf(item), ConsistentRead: true })).Item
const same = (item, found) => isDeepStrictEqual(item ?? undefined, found) // null and undefined: no item

// Write an item with the number that was read, or none if it is new. Returns the written item.
//
// After Refused read the item again. After any error except Refused and RowFollows, read it before you repeat the call.
export async function put(dynamodb, bigtable, item) {
  let held, unread
  if (!item[ATTRIBUTE]) { // DynamoDB is still written; the stream orders the item
    held = await highest(bigtable, item).catch(error => { unread = error })
  }
  const written = { ...item, [ATTRIBUTE]: { N: String(nextNumber(item, Date.now(), held)) } }
  let answer
  try {
    answer = await dynamodb.call('putItem',
      { TableName: SOURCE, Item: written, ReturnValues: 'ALL_OLD', ...condition(item) })
  } catch (lost) { // no answer, or an error of the service: it may have been executed
    if (lost instanceof Refused || !same(written, await get(dynamodb, written))) throw lost
    throw new RowFollows('which row the item left is not known', { cause: lost })
  }
  if (unread) throw new RowFollows('the row cannot be read', { cause: unread })
  await write(dynamodb, bigtable, answer.Attributes ?? null, written)
  return written
}

// Remove an item, given as it was read, with all attributes. It has the errors of put.
export async function remove(dynamodb, bigtable, item) {
  let old
  try {
    const answer = await dynamodb.call('deleteItem',
      { TableName: SOURCE, Key: keyOf(item), ReturnValues: 'ALL_OLD', ...condition(item) })
    old = answer.Attributes
  } catch (lost) {
    if (lost instanceof Refused || await get(dynamodb, item)) throw lost
    old = item // the item no longer exists, so its row must be removed too
  }
  if (old) await write(dynamodb, bigtable, old, null)
}

async function write(dynamodb, bigtable, old, item) {
  const micros = Date.now() * 1000
  try {
    try {
      await send(bigtable, requests(old, item, micros, await fence(bigtable)))
    } catch (error) {
      if (!(error instanceof UnknownFamily)) throw error
      const family = await fence(bigtable, true) // first the fence, then the right to write under it
      if (same(item, await get(dynamodb, item ?? old))) await send(bigtable, requests(old, item, micros, family))
    }
  } catch (error) {
    throw new RowFollows('Bigtable is not written', { cause: error })
  }
}

async function send(bigtable, list) {
  for (const request of list) await bigtable.checkAndMutateRow(request)
}

// The fence's family. If there is no fence yet, it is read again after a minute.
async function fence(bigtable, anew = false) {
  let { family, read } = marks[TARGET] ?? {}
  if (anew || !family || family === WITHHELD && performance.now() - read > 60_000) {
    const [found] = valuesOf(await bigtable.readRows(column(witness(), '_cdc', 'r')))
    family = found && JSON.parse(found).fence
    if (!family) throw new Error('no worker has prepared the target yet')
    marks[TARGET] = { family, read: performance.now() }
  }
  return family
}

// The highest number that the item's row holds; 0 if none.
async function highest(bigtable, item) {
  const held = []
  for (const family of ['_cdc_gone', '_cdc']) {
    held.push(...valuesOf(await bigtable.readRows(column(rowKey(item), family, 'v'))))
  }
  return held.filter(v => v.startsWith('n')).map(v => BigInt(v.slice(1, 21))).reduce((a, b) => a > b ? a : b, 0n)
}
