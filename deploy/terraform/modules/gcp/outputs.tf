output "service_account_email" {
  description = "For the annotation iam.gke.io/gcp-service-account."
  value       = google_service_account.replicator.email
}

output "apply_service_account_email" {
  description = "The same for the appliers; null if there is no topic."
  value       = var.topic == "" ? null : google_service_account.apply[0].email
}

output "app_profile" {
  description = "For target.app_profile."
  value       = google_bigtable_app_profile.replicator.app_profile_id
}
