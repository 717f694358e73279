"""The clients of both stores: boto3 and google-cloud-bigtable."""
import json
import os

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from google.api_core.exceptions import NotFound
from google.cloud.bigtable import Client
from google.cloud.bigtable_v2 import CheckAndMutateRowRequest, ReadRowsRequest, ReadRowsResponse

from orders import Refused, UnknownFamily


class DynamoDB:
    """One attempt per call: if the first attempt was executed, a retry fails on its own condition."""

    def __init__(self):
        self.client = boto3.client("dynamodb", config=Config(retries={"total_max_attempts": 1}))

    def call(self, operation, **request):
        try:
            return getattr(self.client, operation)(**request)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] < 500:
                raise Refused(error.response["Error"]["Code"]) from error
            raise


class Bigtable:
    """Each request has a deadline, and a write is not retried."""

    def __init__(self, project, emulator=False):
        if os.environ.get("BIGTABLE_EMULATOR_HOST") and not emulator:
            raise RuntimeError("BIGTABLE_EMULATOR_HOST is set: every write would go there")
        self.client = Client(project=project).table_data_client

    def check_and_mutate_row(self, request):
        """Whether the condition held, so that the row refused the write."""
        try:
            message = CheckAndMutateRowRequest.from_json(json.dumps(request))
            return self.client.check_and_mutate_row(message, retry=None, timeout=10).predicate_matched
        except NotFound as error:
            raise UnknownFamily() from error

    def read_rows(self, request):
        answers = self.client.read_rows(ReadRowsRequest.from_json(json.dumps(request)), timeout=10)
        return [json.loads(ReadRowsResponse.to_json(answer)) for answer in answers]
