#!/usr/bin/env python3
"""Keeps the newest image of each item from the messages that `replicator relay` publishes.

Reads the data of messages, one a line, and prints the items that are there at the end. With
google-cloud-pubsub, call apply(message.data) in the callback and then message.ack().
"""
import json
import sys

newest = {}  # by item: its last change


def apply(data):
    event = json.loads(data)
    if event["type"] != "com.github.dynamodb-bigtable.replicator.change":
        return
    item, change = event["subject"], event["data"]
    # Messages come twice, and after a crash older ones come again: the version decides.
    if item in newest and newest[item]["version"] >= change["version"]:
        return
    newest[item] = change


if __name__ == "__main__":
    for line in sys.stdin:
        apply(line)
    for change in sorted(newest.values(), key=lambda c: json.dumps(c["keys"])):
        if "new" in change:
            print(change["table"], json.dumps(change["new"], sort_keys=True))
        elif "omitted" in change:  # not a removal: the images did not fit, or are older than the start
            print("read the item if it matters:", change["table"], json.dumps(change["keys"], sort_keys=True), file=sys.stderr)
