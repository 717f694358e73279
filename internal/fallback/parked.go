package fallback

import (
	"context"
)

// park records a key that cannot be carried to the source. A later change of its row heals it.
func (r *term) park(ctx context.Context, key, reason string) error {
	if err := r.Ledger.ParkFallback(ctx, r.Source, key, reason); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parked[key] = true
	return nil
}

// heal removes the record of a parked key that is settled.
func (r *term) heal(ctx context.Context, key string) error {
	r.mu.Lock()
	is := r.parked[key]
	r.mu.Unlock()
	if !is {
		return nil
	}
	if err := r.Ledger.HealFallback(ctx, r.Source, key); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.parked, key)
	return nil
}
