package pipeline

// reconcilerOf is the reconciler of a rig.
func reconcilerOf(r *rig) *reconciler {
	return partOf(r, func(s *shared) *reconciler { return newReconciler(s, newAdmission(s)) })
}
