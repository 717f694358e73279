package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/oauth2/google"
)

const (
	// tokenTime is how long a request for a token may take, after a connection has timed out. If a
	// library ignores this limit, noToken returns after twice that time.
	tokenTime = time.Second
	// dataScope is the OAuth scope of a token for Bigtable's data.
	dataScope = "https://www.googleapis.com/auth/bigtable.data"
)

// noToken returns the reason if a connection failed because no token is available; otherwise nil.
// It is needed because Google's libraries retry requests for a token until their context ends, and
// then return only the context's error.
func noToken(ctx context.Context) error {
	given := clientsOf(ctx)
	if emulator, _ := given.Lookup("BIGTABLE_EMULATOR_HOST"); emulator != "" || len(given.Google) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tokenTime)
	defer cancel()
	found, err := google.FindDefaultCredentials(ctx, dataScope)
	if err != nil {
		return err
	}
	issuer := "the metadata server (metadata.google.internal)"
	if found.JSON != nil {
		var file struct{ Type string }
		if json.Unmarshal(found.JSON, &file) != nil || file.Type == "service_account" {
			return nil // a service account's key signs its own tokens
		}
		issuer = "the token service for " + file.Type
	}
	asked := make(chan error, 1)
	go func() {
		_, err := found.TokenSource.Token()
		asked <- err
	}()
	select {
	case err = <-asked:
	case <-time.After(2 * tokenTime):
		err = context.DeadlineExceeded
	}
	if err != nil { // err is not wrapped, because the deadline is not the only cause
		return fmt.Errorf("no token from %s: %v", issuer, err)
	}
	return nil
}
