package preflight

// RecoveryCommand is what turns a table's point-in-time recovery on.
func RecoveryCommand(table string) string {
	return "aws dynamodb update-continuous-backups --table-name " + table + " --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true"
}
