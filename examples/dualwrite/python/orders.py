"""Writes orders to DynamoDB and then to Bigtable. stores.py has the clients of both."""
import json
import time

from rows import (ATTRIBUTE, SOURCE, TARGET, WITHHELD, column, condition, next_number, requests, row_key, values_of,
                  version, witness)

marks = {}  # the fence's family, as last read from replicator's row, and the time of the read


class Refused(Exception):
    """DynamoDB refused a request: it was not executed."""


class UnknownFamily(Exception):
    """Bigtable knows no such family: the fence has risen."""


class RowFollows(Exception):
    """DynamoDB has the change, and replicator writes the row. Do not repeat the call."""


def put(dynamodb, bigtable, item):
    """Write an item with the number that was read, or none if it is new. Returns the written item.

    After Refused read the item again. After any error except Refused and RowFollows, read it before you repeat the call.
    """
    new = {**item, ATTRIBUTE: {"N": str(next_number(item, time.time_ns() // 1_000_000, 0))}}
    try:
        answer = dynamodb.call("put_item", TableName=SOURCE, Item=new, ReturnValues="ALL_OLD", **condition(item))
    except Refused:
        raise
    except Exception as lost:  # no answer, or an error of the service: it may have been executed
        if get(dynamodb, new) != new:
            raise
        raise RowFollows(new) from lost  # the row that the item left is unknown
    if write(dynamodb, bigtable, answer.get("Attributes"), new) and ATTRIBUTE not in item:
        return raised(dynamodb, bigtable, new)
    return new


def raised(dynamodb, bigtable, new):
    """Write a new item again, because its row refused it. The row may hold the higher number of a removed item."""
    try:
        held, own = highest(bigtable, new), version(new[ATTRIBUTE]["N"], False)
        if held < own or held != own and held[:24] == own[:24]:
            return new  # the row holds the same number with a position: the stream was faster
        higher = {**new, ATTRIBUTE: {"N": str(int(held[1:21]) + 1)}}
        dynamodb.call("put_item", TableName=SOURCE, Item=higher, **condition(new))
    except Exception as error:  # the stream orders the item
        raise RowFollows(new) from error
    write(dynamodb, bigtable, new, higher)
    return higher


def delete(dynamodb, bigtable, item):
    """Remove an item, given as it was read, with all attributes. It has the errors of put."""
    try:
        answer = dynamodb.call(
            "delete_item", TableName=SOURCE, Key=key_of(item), ReturnValues="ALL_OLD", **condition(item))
        old = answer.get("Attributes")
    except Refused:
        raise
    except Exception:
        if get(dynamodb, item) is not None:
            raise
        old = item  # the item no longer exists, so its row must be removed too
    if old:
        write(dynamodb, bigtable, old, None)


def write(dynamodb, bigtable, old, new):
    """Write the rows of a change. Returns whether the row of the new item refused it."""
    micros = time.time_ns() // 1_000_000 * 1000  # whole milliseconds
    try:
        try:
            return send(bigtable, requests(old, new, micros, fence(bigtable)))
        except UnknownFamily:
            family = fence(bigtable, anew=True)  # first the fence,
            if get(dynamodb, new or old) == new:  # then the right to write under it
                return send(bigtable, requests(old, new, micros, family))
    except Exception as error:
        raise RowFollows(new) from error


def send(bigtable, list_of_requests):
    refused = [bigtable.check_and_mutate_row(request) for request in list_of_requests]
    return any(refused[:1])  # the row of the new item comes first


def fence(bigtable, anew=False):
    """The fence's family. If there is no fence yet, it is read again after a minute."""
    family, read = marks.get(TARGET, (None, 0))
    if anew or not family or family == WITHHELD and time.monotonic() - read > 60:
        found = values_of(bigtable.read_rows(column(witness(), "_cdc", "r")))
        family = json.loads(found[0]).get("fence") if found else None
        if not family:
            raise RuntimeError("no worker has prepared the target yet")
        marks[TARGET] = family, time.monotonic()
    return family


def highest(bigtable, item):
    """The highest version that the item's row holds; empty if none."""
    held = [v for f in ("_cdc_gone", "_cdc") for v in values_of(bigtable.read_rows(column(row_key(item), f, "v")))]
    return max((v for v in held if v.startswith("n")), default="")


def key_of(item):
    return {name: item[name] for name in ("pk", "sk")}


def get(dynamodb, item):
    return dynamodb.call("get_item", TableName=SOURCE, Key=key_of(item), ConsistentRead=True).get("Item")
