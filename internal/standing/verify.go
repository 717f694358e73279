package standing

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// VerifiedInFull reports whether the last verify of all items was clean. It must have ended within
// the last day, in the current generation.
func VerifiedInFull(s checkpoint.TableState, now time.Time) bool {
	full := s.Verify.Full
	return full.Clean() && !full.Stale(now) && full.Generation == s.Generation
}

// Verified reports whether the last verify was clean and no sampled row is known to differ. The
// verify must have ended in the current generation, within the given time. If `within` is 0, it may
// have ended at any time.
func Verified(s checkpoint.TableState, within time.Duration, now time.Time) bool {
	r := s.Verify.Result
	return r.Clean() && r.Generation == s.Generation && s.Sampled.Differing == 0 && (within == 0 || now.Sub(r.EndedAt) <= within)
}

// differing returns the verify that found differing rows, and the number of these rows. The result
// of a partial verify does not replace the result of a verify of all items. Differences of an
// earlier generation do not count, because a load came after them.
func differing(s checkpoint.TableState) (of checkpoint.VerifyResult, rows int64) {
	for _, r := range []checkpoint.VerifyResult{s.Verify.Result, s.Verify.Full} {
		if n := r.Differing(); r.Known() && r.Generation == s.Generation && n > 0 {
			return r, n
		}
	}
	return of, 0
}
