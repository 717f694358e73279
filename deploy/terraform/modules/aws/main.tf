# Creates the AWS resources that replicator needs, without keys: an identity provider for a GKE
# cluster, and a role for the workers' service account. `replicator plan --print-iam aws` prints the
# policy for your configuration.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40, < 7.0"
    }
  }
}

locals {
  issuer = trimprefix(var.issuer_url, "https://")
}

resource "aws_iam_openid_connect_provider" "cluster" {
  count          = var.create_provider ? 1 : 0
  url            = var.issuer_url
  client_id_list = ["sts.amazonaws.com"]
}

data "aws_iam_openid_connect_provider" "cluster" {
  count = var.create_provider ? 0 : 1
  url   = var.issuer_url
}

data "aws_iam_policy_document" "trust" {
  statement {
    sid     = "TheWorkersOfOneCluster"
    actions = ["sts:AssumeRoleWithWebIdentity"]

    principals {
      type        = "Federated"
      identifiers = [var.create_provider ? aws_iam_openid_connect_provider.cluster[0].arn : data.aws_iam_openid_connect_provider.cluster[0].arn]
    }
    condition {
      test     = "StringEquals"
      variable = "${local.issuer}:aud"
      values   = ["sts.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "${local.issuer}:sub"
      values   = [for account in compact([var.service_account, var.apply_service_account]) : "system:serviceaccount:${var.namespace}:${account}"]
    }
  }
}

resource "aws_iam_role" "replicator" {
  name                 = var.name
  description          = "Reads tables of DynamoDB and their streams, for replicator"
  assume_role_policy   = data.aws_iam_policy_document.trust.json
  max_session_duration = 3600
}

resource "aws_iam_role_policy" "replicator" {
  name   = var.name
  role   = aws_iam_role.replicator.id
  policy = var.policy
}

# Customer-managed keys that encrypt the tables. DynamoDB decrypts with them on behalf of the
# reader.
data "aws_iam_policy_document" "keys" {
  count = length(var.kms_key_arns) > 0 ? 1 : 0

  statement {
    sid       = "DecryptTables"
    actions   = ["kms:Decrypt", "kms:DescribeKey"]
    resources = var.kms_key_arns
  }
}

resource "aws_iam_role_policy" "keys" {
  count  = length(var.kms_key_arns) > 0 ? 1 : 0
  name   = "${var.name}-keys"
  role   = aws_iam_role.replicator.id
  policy = data.aws_iam_policy_document.keys[0].json
}

# For exports of the tables: permission to read them, and to write them if `backfill start --request-export` is used.
resource "aws_s3_bucket" "exports" {
  count         = var.export_bucket == "" ? 0 : 1
  bucket        = var.export_bucket
  force_destroy = false
}

resource "aws_s3_bucket_public_access_block" "exports" {
  count                   = var.export_bucket == "" ? 0 : 1
  bucket                  = aws_s3_bucket.exports[0].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_lifecycle_configuration" "exports" {
  count  = var.export_bucket == "" ? 0 : 1
  bucket = aws_s3_bucket.exports[0].id

  rule {
    id     = "exports-are-for-one-load"
    status = "Enabled"
    filter {}
    expiration {
      days = 30
    }
  }
}

data "aws_iam_policy_document" "exports" {
  count = var.export_bucket == "" ? 0 : 1

  statement {
    sid       = "ReadAndWriteExports"
    actions   = ["s3:GetObject", "s3:PutObject", "s3:PutObjectAcl", "s3:AbortMultipartUpload"]
    resources = ["${aws_s3_bucket.exports[0].arn}/*"]
  }

  dynamic "statement" {
    for_each = length(var.export_table_arns) > 0 ? [var.export_table_arns] : []
    content {
      sid       = "RequestExports"
      actions   = ["dynamodb:ExportTableToPointInTime"]
      resources = statement.value
    }
  }

  dynamic "statement" {
    for_each = length(var.export_table_arns) > 0 ? [var.export_table_arns] : []
    content {
      sid       = "DescribeExports"
      actions   = ["dynamodb:DescribeExport"]
      resources = [for arn in statement.value : "${arn}/export/*"]
    }
  }
}

resource "aws_iam_role_policy" "exports" {
  count  = var.export_bucket == "" ? 0 : 1
  name   = "${var.name}-exports"
  role   = aws_iam_role.replicator.id
  policy = data.aws_iam_policy_document.exports[0].json
}
