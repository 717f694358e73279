// Writes orders to DynamoDB and then to Bigtable. stores.mjs has the clients of both.
import { isDeepStrictEqual } from 'node:util'
import {
  ATTRIBUTE, SOURCE, TARGET, WITHHELD, column, condition, nextNumber, requests, rowKey, valuesOf, version,
  witness,
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
  const written = { ...item, [ATTRIBUTE]: { N: String(nextNumber(item, Date.now())) } }
  let answer
  try {
    answer = await dynamodb.call('putItem',
      { TableName: SOURCE, Item: written, ReturnValues: 'ALL_OLD', ...condition(item) })
  } catch (lost) { // no answer, or an error of the service: it may have been executed
    if (lost instanceof Refused || !same(written, await get(dynamodb, written))) throw lost
    throw new RowFollows('which row the item left is not known', { cause: lost })
  }
  const refused = await write(dynamodb, bigtable, answer.Attributes ?? null, written)
  return refused && !item[ATTRIBUTE] ? raised(dynamodb, bigtable, written) : written
}

// Write a new item again, because its row refused it. The row may hold the higher number of a removed item.
async function raised(dynamodb, bigtable, item) {
  let higher
  try {
    const held = await highest(bigtable, item), own = version(item[ATTRIBUTE].N, false)
    // The row holds the same number with a position: the stream was faster.
    if (held < own || held !== own && held.slice(0, 24) === own.slice(0, 24)) return item
    higher = { ...item, [ATTRIBUTE]: { N: String(BigInt(held.slice(1, 21)) + 1n) } }
    await dynamodb.call('putItem', { TableName: SOURCE, Item: higher, ...condition(item) })
  } catch (error) { // the stream orders the item
    throw new RowFollows('the item has a lower number than its row', { cause: error })
  }
  await write(dynamodb, bigtable, item, higher)
  return higher
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

// Writes the rows of a change. Returns whether the row of the new item refused it.
async function write(dynamodb, bigtable, old, item) {
  const micros = Date.now() * 1000
  try {
    try {
      return await send(bigtable, requests(old, item, micros, await fence(bigtable)))
    } catch (error) {
      if (!(error instanceof UnknownFamily)) throw error
      const family = await fence(bigtable, true) // first the fence, then the right to write under it
      if (same(item, await get(dynamodb, item ?? old))) return await send(bigtable, requests(old, item, micros, family))
    }
  } catch (error) {
    throw new RowFollows('Bigtable is not written', { cause: error })
  }
}

async function send(bigtable, list) {
  const refused = []
  for (const request of list) refused.push(await bigtable.checkAndMutateRow(request))
  return refused[0] // the row of the new item comes first
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

// The highest version that the item's row holds; empty if none.
async function highest(bigtable, item) {
  const held = []
  for (const family of ['_cdc_gone', '_cdc']) {
    held.push(...valuesOf(await bigtable.readRows(column(rowKey(item), family, 'v'))))
  }
  return held.filter(v => v.startsWith('n')).reduce((a, b) => a > b ? a : b, '')
}
