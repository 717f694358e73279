package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/oauth2/google"
)

const (
	// tokenTime is how long a token may take, once a connection was waited for in vain; a library
	// that does not hold to it is left after twice that.
	tokenTime = time.Second
	// dataScope is what a token for Bigtable's data is asked for.
	dataScope = "https://www.googleapis.com/auth/bigtable.data"
)

// noToken says why no token can be had, if that is what a connection waits for; nil if it is not.
// Google's libraries ask for a token until their time is up, and then say only that.
func noToken(ctx context.Context) error {
	if os.Getenv("BIGTABLE_EMULATOR_HOST") != "" {
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
			return nil // whose key signs its own tokens
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
	if err != nil { // not wrapped: it says more than that the time was up
		return fmt.Errorf("no token from %s: %v", issuer, err)
	}
	return nil
}
