output "role_arn" {
  description = "For AWS_ROLE_ARN of the workers."
  value       = aws_iam_role.replicator.arn
}

output "export_bucket" {
  description = "The bucket for exports; null if there is none."
  value       = one(aws_s3_bucket.exports[*].bucket)
}
