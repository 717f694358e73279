"""Computes an application's writes to Bigtable, as google.bigtable.v2 requests in JSON, without packages.

The mapping: Orders to orders, row key {customer}#{pk}#{sk}, every attribute a column of family d,
version attribute rev.
"""
import base64

SOURCE, ATTRIBUTE = "Orders", "rev"
TARGET = "projects/p/instances/i/tables/orders"
WITHHELD = "-"  # replaces the fence's family while the target accepts writes without a fence


def b64(text):
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def row_key(item):
    customer, pk, sk = (item[name]["S"] for name in ("customer", "pk", "sk"))
    escaped = [part.replace("%", "%25").replace("#", "%23") for part in (customer, pk)]
    return "#".join(escaped + [sk])


def text_of(value):
    kind, content = next(iter(value.items()))
    if kind in ("S", "N"):
        return content
    if kind == "BOOL":
        return "true" if content else "false"
    raise ValueError("no encoding for " + kind)


def origin(item):
    parts = [base64.urlsafe_b64encode(item[k]["S"].encode()).decode().rstrip("=") for k in ("pk", "sk")]
    return f"{SOURCE}/S:{parts[0]}/S:{parts[1]}"


def version(number, removed):
    kind = 1 if removed and int(number) > 0 else 0
    return f"n{int(number):020d}.{kind}.{0:08d}.{0:06d}.{0:040d}.{0:04d}"


def next_number(item, now_ms, highest):
    """The number that a write gives an item. highest is the number that its row is known to hold, or 0."""
    if ATTRIBUTE in item:
        return int(item[ATTRIBUTE]["N"]) + 1
    return max(now_ms, highest + 1)


def condition(item):
    """The condition for DynamoDB: the item still has the number that was read, or none."""
    names = {"#v": ATTRIBUTE}
    if ATTRIBUTE not in item:
        return {"ConditionExpression": "attribute_not_exists(#v)", "ExpressionAttributeNames": names}
    return {"ConditionExpression": "#v = :v", "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": {":v": item[ATTRIBUTE]}}


def set_cell(family, qualifier, value, micros=0):
    cell = {"familyName": family, "columnQualifier": b64(qualifier)}
    if micros:  # JSON of protobuf omits zeros, and writes 64-bit numbers as text
        cell["timestampMicros"] = str(micros)
    if value:
        cell["value"] = b64(value)
    return {"setCell": cell}


def delete_family(family):
    return {"deleteFromFamily": {"familyName": family}}


def delete_column(family, qualifier):
    return {"deleteFromColumn": {"familyName": family, "columnQualifier": b64(qualifier)}}


def guarded(row, held, family, mutations):
    """The request that is executed unless the row holds this version or a higher one."""
    look = [{"columnRangeFilter": {"familyName": f, "startQualifierClosed": b64("v"), "endQualifierOpen": b64("v\0")}}
            for f in ("_cdc", "_cdc_gone")]
    stamp = [] if family == WITHHELD else [set_cell(family, "f", ""), delete_family(family)]
    return {
        "tableName": TARGET, "appProfileId": "default", "rowKey": b64(row),
        "predicateFilter": {"chain": {"filters": [
            {"interleave": {"filters": look}}, {"valueRangeFilter": {"startValueClosed": b64(held)}}]}},
        "falseMutations": stamp + mutations,
    }


def requests(old, new, micros, family):
    """The requests of a change, in their order. None means no item."""
    number = (new or old).get(ATTRIBUTE)
    if number is None:
        return []  # only the stream writes it
    v = version(number["N"], new is None)
    out = []
    if new is not None:
        cells = [set_cell("d", name, text_of(new[name]), micros) for name in sorted(new)]
        out.append(guarded(row_key(new), v, family, [delete_family("d")] + cells + [
            set_cell("_cdc", "k", origin(new)), delete_column("_cdc_gone", "v"), set_cell("_cdc", "v", v)]))
    if old is not None and "customer" in old and (new is None or row_key(old) != row_key(new)):
        out.append(guarded(row_key(old), v, family, [
            delete_family("d"), delete_column("_cdc", "k"), delete_column("_cdc", "v"),
            delete_column("_cdc_gone", "v"), set_cell("_cdc_gone", "v", v, -1)]))
    return out


def column(row, family, qualifier):
    """The request that reads one column of one row."""
    return {"tableName": TARGET, "rows": {"rowKeys": [b64(row)]}, "filter": {"columnRangeFilter": {
        "familyName": family, "startQualifierClosed": b64(qualifier), "endQualifierOpen": b64(qualifier + "\0")}}}


def values_of(answers):
    """The cells that ReadRows answered, the newest first."""
    values = [b""]
    for answer in answers:
        for chunk in answer.get("chunks", []):  # a large value comes in several chunks
            values[-1] += base64.b64decode(chunk.get("value", ""))
            if not chunk.get("valueSize"):
                values.append(b"")
    return [value.decode() for value in values[:-1]]


def witness():
    """The key of the row in which replicator names the fence's family."""
    return (b"\xff_cdc~witness~" + SOURCE.encode()).ljust(2049, b"~")
