"""Drives the programs of examples/dualwrite: `vectors` decides about the vectors on stdin, `live BASE ENDPOINT` writes both stores."""
import json
import sys
import urllib.error
import urllib.request

import orders
import rows


def post(url, body, headers):
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=10) as answer:
        return json.load(answer)


class DynamoDB:
    """stores.DynamoDB without boto3, and without a signature."""

    def __init__(self, endpoint):
        self.endpoint, self.lost = endpoint, None

    def call(self, name, **body):
        operation = "".join(word.capitalize() for word in name.split("_"))
        headers = {"X-Amz-Target": "DynamoDB_20120810." + operation, "Content-Type": "application/x-amz-json-1.0"}
        try:
            answer = post(self.endpoint, body, headers)
        except urllib.error.HTTPError as error:
            raise orders.Refused(json.load(error)["__type"].split("#")[1])
        if name == self.lost:
            raise TimeoutError("the answer was lost")
        return answer


class Bigtable:
    """stores.Bigtable by the REST API."""

    def __init__(self, base):
        self.base = base

    def check_and_mutate_row(self, request):
        try:
            return post(self.base + rows.TARGET + ":checkAndMutateRow", request, {}).get("predicateMatched", False)
        except urllib.error.HTTPError as error:
            raise orders.UnknownFamily() if error.code == 404 else error

    def read_rows(self, request):
        return post(self.base + rows.TARGET + ":readRows", request, {})


class Away:
    def __getattr__(self, name):
        raise TimeoutError("Bigtable is away")


def fails(kind, call, *args):
    try:
        call(*args)
    except kind as error:
        return error
    sys.exit("%s%s succeeded" % (call.__name__, args[2:]))


def live(base, endpoint):
    bigtable, dynamodb = Bigtable(base), DynamoDB(endpoint)
    item = {"pk": {"S": "1"}, "sk": {"S": "a"}, "customer": {"S": "x"}, "note": {"S": "new"}}
    first = orders.put(dynamodb, bigtable, item)
    orders.marks[rows.TARGET] = "_cdc_w00000000_1", 0  # the fence rose
    moved = orders.put(dynamodb, bigtable, {**first, "customer": {"S": "y"}})
    assert str(fails(orders.Refused, orders.put, dynamodb, bigtable, first)) == "ConditionalCheckFailedException"
    orders.delete(dynamodb, bigtable, moved)
    again = orders.put(dynamodb, bigtable, {name: moved[name] for name in moved if name != "rev"})
    assert int(again["rev"]["N"]) > int(moved["rev"]["N"])

    second = orders.put(dynamodb, bigtable, {**item, "pk": {"S": "2"}})
    dynamodb.lost = "delete_item"
    orders.delete(dynamodb, bigtable, second)  # its row is removed all the same
    dynamodb.lost = "put_item"
    fails(orders.RowFollows, orders.put, dynamodb, bigtable, {**item, "pk": {"S": "2"}})
    dynamodb.lost = None
    orders.delete(dynamodb, bigtable, orders.get(dynamodb, second))

    ahead = {**item, "pk": {"S": "4"}, "rev": {"N": "70000000000000000"}}  # of another numbering
    dynamodb.call("put_item", TableName="Orders", Item=ahead)
    orders.delete(dynamodb, bigtable, ahead)
    raised = orders.put(dynamodb, bigtable, {**item, "pk": {"S": "4"}})
    assert raised["rev"]["N"] == "70000000000000001" and orders.get(dynamodb, raised) == raised

    fails(orders.RowFollows, orders.put, dynamodb, Away(), {**item, "pk": {"S": "3"}, "note": {"S": "blind"}})
    return again


def decide(v):
    read = {name: value for name, value in (v["new"] or v["old"]).items() if name != "rev"}
    if v["old"] and "rev" in v["old"]:
        read["rev"] = v["old"]["rev"]
    number = str(rows.next_number(read, v["at"] // 1000, int(v.get("remembered", "0")))) if v["new"] else ""
    return {"requests": rows.requests(v["old"], v["new"], v["at"], v["fence"]), "number": number,
            "condition": rows.condition(read)["ConditionExpression"]}


result = [decide(v) for v in json.load(sys.stdin)] if sys.argv[1] == "vectors" else live(*sys.argv[2:])
json.dump(result, sys.stdout)
