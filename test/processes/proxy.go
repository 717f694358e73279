package processes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// Fault is a network fault.
type Fault int

// The faults of a network.
const (
	None Fault = iota
	// Cut resets the connections and refuses new ones.
	Cut
	// Hold lets no byte pass in either direction, and breaks no connection. Requests arrive when it
	// is healed, long after their senders gave up.
	Hold
	// Mute lets requests pass and withholds the answers: the sender does not know that they were
	// executed.
	Mute
	// Slow delays all data by slowness.
	Slow
)

// String names the fault.
func (f Fault) String() string { return [...]string{"none", "cut", "hold", "mute", "slow"}[f] }

// Cure says what happens to delayed connections when a fault is healed.
type Cure int

// The cures.
const (
	// Deliver forwards the withheld data.
	Deliver Cure = iota
	// Reset breaks the connections: withheld data is lost, and both ends get an error.
	Reset
	// Forget leaves the connections open but dead, as a firewall does that has lost its state. New
	// ones work.
	Forget
)

// String names the cure.
func (c Cure) String() string { return [...]string{"delivered", "reset", "forgotten"}[c] }

// slowness is the delay of Slow in each direction.
const slowness = 120 * time.Millisecond

// Proxy forwards TCP connections to one address, and injects network faults.
type Proxy struct {
	upstream string
	address  string
	done     sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond // fault, closed, or a link's broken
	fault    Fault
	closed   bool
	listener net.Listener // nil while connections are refused
	links    map[*link]struct{}
}

// link is one connection through a proxy.
type link struct {
	client, server net.Conn
	broken         bool
	forgotten      bool
}

// Listening ports are chosen below the range for outgoing connections (from 32768 on Linux, 49152
// elsewhere). So a port is still free when it is opened again after a cut.
const lowestPort, ports = 20_000, 12_000

// NewProxy listens on a free loopback port and forwards to upstream, a host and a port.
func NewProxy(upstream string) (*Proxy, error) {
	p := &Proxy{upstream: upstream, links: map[*link]struct{}{}}
	p.changed = sync.NewCond(&p.mu)
	const attempts = 100
	var err error
	for range attempts {
		p.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(lowestPort+rand.IntN(ports)))
		if err = p.open(); err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no free port for a proxy: %w", err)
}

// Address returns the address at which the proxy listens.
func (p *Proxy) Address() string { return p.address }

// open starts to accept connections.
func (p *Proxy) open() error {
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	p.done.Add(1)
	go func() {
		defer p.done.Done()
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.done.Add(1)
			go func() {
				defer p.done.Done()
				p.forward(client)
			}()
		}
	}()
	return nil
}

// forward serves one connection to its end.
func (p *Proxy) forward(client net.Conn) {
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
		reset(client)
		return
	}
	l := &link{client: client, server: server}
	p.mu.Lock()
	if p.closed || p.fault == Cut { // after it was accepted
		l.sever()
	} else {
		p.links[l] = struct{}{}
	}
	p.mu.Unlock()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		p.pump(l, client, server, true)
	}()
	p.pump(l, server, client, false)
	<-answered
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	_ = client.Close()
	_ = server.Close()
}

// pump copies data in one direction until its sender ends or the link is broken. If the sender has
// gone, its data is still delivered, late, as networks do.
func (p *Proxy) pump(l *link, to, from net.Conn, answer bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !p.pass(l, answer) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				_ = from.Close() // there is no receiver left
				return
			}
		}
		if err != nil {
			_ = to.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

// pass waits until data may continue, and reports whether it still can.
func (p *Proxy) pass(l *link, answer bool) bool {
	p.mu.Lock()
	slow := p.fault == Slow
	p.mu.Unlock()
	if slow {
		time.Sleep(slowness)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for !l.broken && !p.closed && (l.forgotten || p.fault == Hold || p.fault == Mute && answer) {
		p.changed.Wait()
	}
	return !l.broken && !p.closed
}

// Inject causes a fault until Heal.
func (p *Proxy) Inject(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	if f == Cut {
		p.severAll()
		if p.listener != nil {
			_ = p.listener.Close() // nothing else is done with it
			p.listener = nil
		}
	}
}

// Heal ends a fault.
func (p *Proxy) Heal(ctx context.Context, c Cure) error {
	p.mu.Lock()
	p.fault = None
	switch c {
	case Reset:
		p.severAll()
	case Forget:
		for l := range p.links {
			l.forgotten = true
		}
	}
	p.changed.Broadcast()
	refusing := p.listener == nil
	p.mu.Unlock()
	if !refusing {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		err := p.open()
		if err == nil {
			return nil
		}
		if wait(limited, 50*time.Millisecond) != nil {
			return fmt.Errorf("a proxy cannot listen again: %w", err)
		}
	}
}

// severAll breaks every connection. The caller holds the mutex.
func (p *Proxy) severAll() {
	for l := range p.links {
		l.sever()
	}
	p.changed.Broadcast()
}

// sever breaks a connection for both ends, as if the other end had crashed.
func (l *link) sever() {
	l.broken = true
	reset(l.client)
	reset(l.server)
}

// reset closes a connection so that its peer gets an error rather than an end of file.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		_ = p.listener.Close()
	}
	p.severAll()
	p.mu.Unlock()
	p.done.Wait()
}

// wait is a sleep that ends with ctx.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
