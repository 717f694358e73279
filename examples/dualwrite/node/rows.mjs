// Computes an application's writes to Bigtable, as google.bigtable.v2 requests in JSON, without
// packages.
//
// The mapping: Orders to orders, row key {customer}#{pk}#{sk}, every attribute a column of family d,
// version attribute rev.
export const SOURCE = 'Orders', ATTRIBUTE = 'rev'
export const TARGET = 'projects/p/instances/i/tables/orders'
export const WITHHELD = '-' // replaces the fence's family while the target accepts writes without a fence

const b64 = text => Buffer.from(text).toString('base64')

export function rowKey(item) {
  const escaped = [item.customer.S, item.pk.S].map(part => part.replaceAll('%', '%25').replaceAll('#', '%23'))
  return [...escaped, item.sk.S].join('#')
}

function textOf(value) {
  const [kind, content] = Object.entries(value)[0]
  if (kind === 'S' || kind === 'N') return content
  if (kind === 'BOOL') return content ? 'true' : 'false'
  throw new Error('no encoding for ' + kind)
}

function origin(item) {
  const [pk, sk] = [item.pk.S, item.sk.S].map(part => Buffer.from(part).toString('base64url'))
  return `${SOURCE}/S:${pk}/S:${sk}`
}

export function version(number, removed) { // numbers have up to 20 digits: they are BigInts
  const kind = removed && BigInt(number) > 0n ? 1 : 0
  const zeros = [8, 6, 40, 4].map(width => '0'.repeat(width)).join('.')
  return `n${String(number).padStart(20, '0')}.${kind}.${zeros}`
}

// The number that a write gives an item. highest is the number that its row is known to hold, or 0n.
export function nextNumber(item, nowMs, highest = 0n) {
  if (item[ATTRIBUTE]) return BigInt(item[ATTRIBUTE].N) + 1n
  return BigInt(nowMs) > highest ? BigInt(nowMs) : highest + 1n
}

// The condition for DynamoDB: the item still has the number that was read, or none.
export function condition(item) {
  const names = { '#v': ATTRIBUTE }
  if (!item[ATTRIBUTE]) return { ConditionExpression: 'attribute_not_exists(#v)', ExpressionAttributeNames: names }
  const values = { ':v': item[ATTRIBUTE] }
  return { ConditionExpression: '#v = :v', ExpressionAttributeNames: names, ExpressionAttributeValues: values }
}

function setCell(familyName, qualifier, value, micros = 0) {
  const cell = { familyName, columnQualifier: b64(qualifier) }
  if (micros) cell.timestampMicros = String(micros) // JSON of protobuf omits zeros
  if (value) cell.value = b64(value)
  return { setCell: cell }
}

const deleteFamily = familyName => ({ deleteFromFamily: { familyName } })
const deleteColumn = (familyName, name) => ({ deleteFromColumn: { familyName, columnQualifier: b64(name) } })

// The request that is executed unless the row holds this version or a higher one.
function guarded(row, held, family, mutations) {
  const look = ['_cdc', '_cdc_gone'].map(familyName =>
    ({ columnRangeFilter: { familyName, startQualifierClosed: b64('v'), endQualifierOpen: b64('v\0') } }))
  const stamp = family === WITHHELD ? [] : [setCell(family, 'f', ''), deleteFamily(family)]
  return {
    tableName: TARGET, appProfileId: 'default', rowKey: b64(row),
    predicateFilter: { chain: { filters: [
      { interleave: { filters: look } }, { valueRangeFilter: { startValueClosed: b64(held) } }] } },
    falseMutations: [...stamp, ...mutations],
  }
}

// The requests of a change, in their order. Null means no item.
export function requests(old, item, micros, family) {
  const number = (item ?? old)[ATTRIBUTE]
  if (!number) return [] // only the stream writes it
  const v = version(number.N, !item)
  const out = []
  if (item) {
    const cells = Object.keys(item).sort().map(name => setCell('d', name, textOf(item[name]), micros))
    out.push(guarded(rowKey(item), v, family, [deleteFamily('d'), ...cells,
      setCell('_cdc', 'k', origin(item)), deleteColumn('_cdc_gone', 'v'), setCell('_cdc', 'v', v)]))
  }
  if (old?.customer && (!item || rowKey(old) !== rowKey(item))) {
    out.push(guarded(rowKey(old), v, family, [
      deleteFamily('d'), deleteColumn('_cdc', 'k'), deleteColumn('_cdc', 'v'),
      deleteColumn('_cdc_gone', 'v'), setCell('_cdc_gone', 'v', v, -1)]))
  }
  return out
}

// The request that reads one column of one row.
export function column(row, familyName, qualifier) {
  return { tableName: TARGET, rows: { rowKeys: [b64(row)] }, filter: { columnRangeFilter:
    { familyName, startQualifierClosed: b64(qualifier), endQualifierOpen: b64(qualifier + '\0') } } }
}

// The cells that ReadRows answered, the newest first.
export function valuesOf(answers) {
  const values = [[]]
  for (const chunk of answers.flatMap(answer => answer.chunks ?? [])) { // a large value comes in several chunks
    values.at(-1).push(Buffer.from(chunk.value ?? '', 'base64'))
    if (!chunk.valueSize) values.push([])
  }
  return values.slice(0, -1).map(parts => Buffer.concat(parts).toString())
}

// The key of the row in which replicator names the fence's family.
export function witness() {
  const name = Buffer.concat([Buffer.from([0xff]), Buffer.from('_cdc~witness~' + SOURCE)])
  return Buffer.concat([name, Buffer.from('~'.repeat(2049 - name.length))])
}
