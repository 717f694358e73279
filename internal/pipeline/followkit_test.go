package pipeline

// assignerOf is the assigner of a rig.
func assignerOf(r *rig) *assigner {
	return partOf(r, func(s *shared) *assigner {
		return newAssigner(s, newFollower(s, nil, newSettleRoom(settleBytes)))
	})
}
