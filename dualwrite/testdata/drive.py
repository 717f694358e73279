"""Drives the recipe of the documentation: `vectors` prints the requests of the vectors on stdin, `live BASE ENDPOINT` writes both stores."""
import json
import sys
import urllib.error
import urllib.request

import recipe


class Refused(Exception):
    pass


class DynamoDB:
    """As a client of boto3, without a signature."""

    def __init__(self, endpoint):
        self.endpoint = endpoint

    def __getattr__(self, name):
        operation = "".join(word.capitalize() for word in name.split("_"))

        def call(**body):
            headers = {"X-Amz-Target": "DynamoDB_20120810." + operation, "Content-Type": "application/x-amz-json-1.0"}
            try:
                with urllib.request.urlopen(urllib.request.Request(self.endpoint, json.dumps(body).encode(), headers)) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                raise Refused(json.load(error)["__type"].split("#")[1])
        return call


def live(base, endpoint):
    bigtable, dynamodb = recipe.rest("test", base), DynamoDB(endpoint)
    first = recipe.put(dynamodb, bigtable, {"pk": {"S": "1"}, "sk": {"S": "a"}, "customer": {"S": "x"}, "note": {"S": "new"}})
    recipe.marks[recipe.TARGET] = "_cdc_w00000000_1"  # the fence rose
    moved = recipe.put(dynamodb, bigtable, {**first, "customer": {"S": "y"}})
    try:
        recipe.put(dynamodb, bigtable, first)
        sys.exit("a write with a number that is over succeeded")
    except Refused as refused:
        assert str(refused) == "ConditionalCheckFailedException", refused
    recipe.delete(dynamodb, bigtable, moved)
    again = {name: moved[name] for name in moved if name != "rev"}
    again = recipe.put(dynamodb, bigtable, again)
    assert int(again["rev"]["N"]) > int(moved["rev"]["N"])
    return again


if sys.argv[1] == "vectors":
    result = [recipe.requests(v["old"], v["new"], v["at"], v["fence"]) for v in json.load(sys.stdin)]
else:
    result = live(*sys.argv[2:])
json.dump(result, sys.stdout)
