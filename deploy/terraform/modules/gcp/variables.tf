variable "name" {
  description = "Name of the service account and of the role."
  type        = string
  default     = "replicator"
}

variable "project" {
  description = "Project of the Bigtable instance."
  type        = string
}

variable "instance" {
  description = "Bigtable instance of the target."
  type        = string
}

variable "cluster" {
  description = "Cluster of the instance that receives the writes."
  type        = string
}

variable "app_profile" {
  description = "App profile of the workers: target.app_profile."
  type        = string
  default     = "replicator"
}

variable "state_table" {
  description = "Table of the ledger: state.table."
  type        = string
  default     = "replicator_state"
}

variable "permissions" {
  description = "The includedPermissions that `replicator plan --print-iam gcp` prints."
  type        = list(string)
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
  description = "Kubernetes service account of the appliers, if there is a topic."
  type        = string
  default     = "replicator-apply"
}

variable "topic" {
  description = "Name of the topic of changes (relay.pubsub_topic is its path); empty for none."
  type        = string
  default     = ""
}

variable "subscription" {
  description = "Name of the appliers' subscription (relay.subscription is its path)."
  type        = string
  default     = "replicator-apply"
}
