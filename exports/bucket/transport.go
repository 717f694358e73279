package bucket

import (
	"context"
	"net"
	"net/http"
	"time"
)

// silence is the longest time for which a connection may deliver no data. A file takes minutes to
// read, so a time limit for the whole request would not help.
const silence = time.Minute

// watchSilence makes connections of a transport fail if they deliver no data for this time.
func watchSilence(t *http.Transport) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return watched{conn}, nil
	}
	t.MaxIdleConnsPerHost = 32
	return t
}

type watched struct{ net.Conn }

func (c watched) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}
