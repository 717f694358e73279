# Creates the Google Cloud resources that replicator needs: a service account without keys, its
# role, the app profile and the state table. With a topic, also its subscription, the dead letter
# and a service account for the appliers.

terraform {
  required_version = ">= 1.5"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 5.20, < 8.0"
    }
  }
}

resource "google_service_account" "replicator" {
  project      = var.project
  account_id   = var.name
  display_name = "replicator: DynamoDB to Bigtable"
}

resource "google_service_account_iam_member" "workload_identity" {
  service_account_id = google_service_account.replicator.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "serviceAccount:${var.project}.svc.id.goog[${var.namespace}/${var.service_account}]"
}

# `replicator plan --print-iam gcp` prints the permissions.
resource "google_project_iam_custom_role" "replicator" {
  project     = var.project
  role_id     = replace(var.name, "-", "_")
  title       = var.name
  description = "Copies DynamoDB tables to Bigtable: reads and writes rows, its own state and its own column families."
  permissions = var.permissions
}

resource "google_bigtable_instance_iam_member" "replicator" {
  project  = var.project
  instance = var.instance
  role     = google_project_iam_custom_role.replicator.id
  member   = google_service_account.replicator.member
}

# Appliers (`run --from pubsub`) have their own identity. A publisher is trusted like a writer of
# the target, so only the relay may publish to the topic.
resource "google_service_account" "apply" {
  count        = var.topic == "" ? 0 : 1
  project      = var.project
  account_id   = "${var.name}-apply"
  display_name = "replicator: appliers"
}

resource "google_service_account_iam_member" "apply_workload_identity" {
  count              = var.topic == "" ? 0 : 1
  service_account_id = google_service_account.apply[0].name
  role               = "roles/iam.workloadIdentityUser"
  member             = "serviceAccount:${var.project}.svc.id.goog[${var.namespace}/${var.apply_service_account}]"
}

resource "google_bigtable_instance_iam_member" "apply" {
  count    = var.topic == "" ? 0 : 1
  project  = var.project
  instance = var.instance
  role     = google_project_iam_custom_role.replicator.id
  member   = google_service_account.apply[0].member
}

# Conditional writes need single-cluster routing and single-row transactions.
resource "google_bigtable_app_profile" "replicator" {
  project         = var.project
  instance        = var.instance
  app_profile_id  = var.app_profile
  description     = "Of replicator: conditional writes need one cluster"
  ignore_warnings = true

  single_cluster_routing {
    cluster_id                 = var.cluster
    allow_transactional_writes = true
  }
}

locals {
  families = toset(["ledger", "parked"]) # of the state table
}

resource "google_bigtable_table" "state" {
  project             = var.project
  instance_name       = var.instance
  name                = var.state_table
  deletion_protection = "PROTECTED"

  dynamic "column_family" {
    for_each = local.families
    content {
      family = column_family.value
    }
  }
}

resource "google_bigtable_gc_policy" "state" {
  for_each        = local.families
  project         = var.project
  instance_name   = var.instance
  table           = google_bigtable_table.state.name
  column_family   = each.value
  deletion_policy = "ABANDON"

  max_version {
    number = 1
  }
}

resource "google_pubsub_topic" "changes" {
  count                      = var.topic == "" ? 0 : 1
  project                    = var.project
  name                       = var.topic
  message_retention_duration = "604800s"
}

resource "google_pubsub_topic" "dead_letter" {
  count                      = var.topic == "" ? 0 : 1
  project                    = var.project
  name                       = "${var.topic}-dead-letter"
  message_retention_duration = "604800s"
}

# Keeps the messages in the dead letter until you have examined them.
resource "google_pubsub_subscription" "dead_letter" {
  count                      = var.topic == "" ? 0 : 1
  project                    = var.project
  name                       = "${var.topic}-dead-letter"
  topic                      = google_pubsub_topic.dead_letter[0].id
  message_retention_duration = "604800s"

  expiration_policy {
    ttl = ""
  }
}

# Ordering is off: the guard in Bigtable does not need it, and it costs throughput.
resource "google_pubsub_subscription" "apply" {
  count                      = var.topic == "" ? 0 : 1
  project                    = var.project
  name                       = var.subscription
  topic                      = google_pubsub_topic.changes[0].id
  ack_deadline_seconds       = 60
  message_retention_duration = "604800s"
  enable_message_ordering    = false

  expiration_policy {
    ttl = ""
  }
  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.dead_letter[0].id
    max_delivery_attempts = 100
  }
  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }
}

# The relay is the only publisher: a binding removes every other grant of the role on the topic.
resource "google_pubsub_topic_iam_binding" "publish" {
  count   = var.topic == "" ? 0 : 1
  project = var.project
  topic   = google_pubsub_topic.changes[0].name
  role    = "roles/pubsub.publisher"
  members = [google_service_account.replicator.member]
}

resource "google_pubsub_topic_iam_binding" "look" {
  count   = var.topic == "" ? 0 : 1
  project = var.project
  topic   = google_pubsub_topic.changes[0].name
  role    = "roles/pubsub.viewer"
  members = [google_service_account.replicator.member, google_service_account.apply[0].member]
}

# The relay reads the settings of the subscription, to refuse those that lose messages.
resource "google_pubsub_subscription_iam_member" "look" {
  count        = var.topic == "" ? 0 : 1
  project      = var.project
  subscription = google_pubsub_subscription.apply[0].name
  role         = "roles/pubsub.viewer"
  member       = google_service_account.replicator.member
}

resource "google_pubsub_subscription_iam_member" "apply" {
  for_each     = var.topic == "" ? toset([]) : toset(["roles/pubsub.subscriber", "roles/pubsub.viewer"])
  project      = var.project
  subscription = google_pubsub_subscription.apply[0].name
  role         = each.value
  member       = google_service_account.apply[0].member
}

# Appliers watch the dead letter. They publish messages there that the ledger does not have.
resource "google_pubsub_subscription_iam_member" "watch" {
  for_each     = var.topic == "" ? toset([]) : toset(["roles/pubsub.subscriber", "roles/pubsub.viewer"])
  project      = var.project
  subscription = google_pubsub_subscription.dead_letter[0].name
  role         = each.value
  member       = google_service_account.apply[0].member
}

resource "google_pubsub_topic_iam_member" "refuse" {
  count   = var.topic == "" ? 0 : 1
  project = var.project
  topic   = google_pubsub_topic.dead_letter[0].name
  role    = "roles/pubsub.publisher"
  member  = google_service_account.apply[0].member
}

# Pub/Sub moves messages to the dead letter under its own service account.
data "google_project" "this" {
  project_id = var.project
}

resource "google_pubsub_topic_iam_member" "forward" {
  count   = var.topic == "" ? 0 : 1
  project = var.project
  topic   = google_pubsub_topic.dead_letter[0].name
  role    = "roles/pubsub.publisher"
  member  = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"
}

resource "google_pubsub_subscription_iam_member" "forward" {
  count        = var.topic == "" ? 0 : 1
  project      = var.project
  subscription = google_pubsub_subscription.apply[0].name
  role         = "roles/pubsub.subscriber"
  member       = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"
}
