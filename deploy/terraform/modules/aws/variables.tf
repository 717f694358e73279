variable "name" {
  description = "Name of the role."
  type        = string
  default     = "replicator"
}

variable "policy" {
  description = "The policy that `replicator plan --print-iam aws` prints, as JSON."
  type        = string
}

variable "issuer_url" {
  description = "Issuer of the cluster's tokens: https://container.googleapis.com/v1/projects/PROJECT/locations/LOCATION/clusters/CLUSTER."
  type        = string
}

variable "create_provider" {
  description = "Whether to create the identity provider of the issuer; false if the account has it."
  type        = bool
  default     = true
}

variable "namespace" {
  description = "Kubernetes namespace of the workers."
  type        = string
  default     = "replicator"
}

variable "service_account" {
  description = "Kubernetes service account of the workers."
  type        = string
  default     = "replicator"
}

variable "apply_service_account" {
  description = "Kubernetes service account of the appliers, which describe the tables; empty if there are none."
  type        = string
  default     = ""
}

variable "kms_key_arns" {
  description = "Customer-managed keys of the tables; empty if DynamoDB owns or manages them."
  type        = list(string)
  default     = []
}

variable "export_bucket" {
  description = "Name of a bucket for exports; empty for none."
  type        = string
  default     = ""
}

variable "export_table_arns" {
  description = "Tables that `backfill start --request-export` may export; empty if exports are only read."
  type        = list(string)
  default     = []
}
