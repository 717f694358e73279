package bucket

import (
	"context"
	"net"
	"net/http"
	"time"
)

// silence is for how long a connection may bring nothing: a file is read for minutes, so that the
// time of a request as a whole is no bound.
const silence = time.Minute

// watchSilence lets connections of a transport fail when they bring nothing for long.
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
