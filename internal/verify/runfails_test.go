package verify

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// A process that only works on verifies ends with every read of its ledger that fails for good. If
// a write fails, it ends too, or its result has all findings. Heartbeats and removals may fail.
func TestARunHandsOnFailuresOfTheLedger(t *testing.T) {
	for _, way := range []verify.Way{verify.Quiet, verify.Live} {
		for _, writes := range []bool{false, true} {
			for failing, ended := 1, false; !ended && failing < 200; failing++ {
				playScene(t, "ab", func(s *scene) {
					s.Damage("orders", "b", "d", "pk", "x")
					s.begin(way, verify.Scope{})
					s.Sleep(time.Minute)
					s.StopWorker()
					s.Sleep(10 * time.Second)
					requests, key := 0, ""
					fail := func(of string) error {
						if requests++; requests == failing {
							key = of
							return checkpoint.ErrLedgerExchanged
						}
						return nil
					}
					s.Store.OnRead = func(_ context.Context, prefix string) error {
						if !writes {
							return fail(prefix)
						}
						return nil
					}
					s.Store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
						if writes {
							if err := fail(key); err != nil {
								return false, err
							}
						}
						return execute(), nil
					}
					o := s.options()
					o.Open = s.Source.Open
					err := Run(s.Ctx, o)
					s.Store.OnRead, s.Store.OnSwap = nil, nil
					ended = key == ""
					exact := s.found() == "different b" && s.Table("Orders").Verify.Result.Differing() == 1
					switch {
					case !ended && errors.Is(err, checkpoint.ErrLedgerExchanged):
					case err != nil, !ended && !writes, !exact:
						t.Errorf("%s: request %d, of %s, fails: %v; found %s", way, failing, key, err, s.found())
					}
				})
			}
		}
	}
}
