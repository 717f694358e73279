package preflight

// RecoveryCommand returns the command that turns on a table's point-in-time recovery.
func RecoveryCommand(table string) string {
	return "aws dynamodb update-continuous-backups --table-name " + table + " --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true"
}
