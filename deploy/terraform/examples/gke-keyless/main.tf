# Workers on GKE that read DynamoDB and write Bigtable without keys. Apply this, then deploy/kubernetes/overlays/gke with
# the two outputs. replicator prints both policies from your configuration:
#   replicator plan --print-iam aws > aws-policy.json
#   replicator plan --print-iam gcp > gcp-role.yaml

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40, < 7.0"
    }
    google = {
      source  = "hashicorp/google"
      version = ">= 5.20, < 8.0"
    }
  }
}

variable "project" {
  description = "Google Cloud project of the cluster and of Bigtable."
  type        = string
}

variable "cluster_location" {
  description = "Region or zone of the GKE cluster."
  type        = string
}

variable "cluster_name" {
  description = "Name of the GKE cluster."
  type        = string
}

variable "instance" {
  description = "Bigtable instance."
  type        = string
}

variable "bigtable_cluster" {
  description = "Cluster of the instance that receives the writes."
  type        = string
}

variable "region" {
  description = "AWS region of the tables."
  type        = string
}

provider "aws" {
  region = var.region
}

provider "google" {
  project = var.project
}

module "aws" {
  source     = "../../modules/aws"
  policy     = file("${path.module}/aws-policy.json")
  issuer_url = "https://container.googleapis.com/v1/projects/${var.project}/locations/${var.cluster_location}/clusters/${var.cluster_name}"
}

module "gcp" {
  source      = "../../modules/gcp"
  project     = var.project
  instance    = var.instance
  cluster     = var.bigtable_cluster
  permissions = yamldecode(file("${path.module}/gcp-role.yaml")).includedPermissions
}

output "aws_role_arn" {
  value = module.aws.role_arn
}

output "google_service_account" {
  value = module.gcp.service_account_email
}
