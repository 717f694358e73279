package checkpoint

// CheckCopied returns an error while a fast load of the table is not over (Copying). The argument
// `step` is the comparison or repair that must wait.
func (s TableState) CheckCopied(step string) error {
	if !s.Copying() {
		return nil
	}
	return s.refuse(step, "a fast load is not over, so rows may still differ", "wait for the end of its sweep: replicator backfill status --wait --table "+s.Source)
}
