package processes

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// echo returns the address of a server that returns each line. Arrived receives every line.
func echo(t *testing.T) (address string, arrived chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	arrived = make(chan string, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewReader(conn)
				for {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					arrived <- line
					if _, err := io.WriteString(conn, line); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), arrived
}

// caller is a client of echo.
type caller struct {
	net.Conn
	answers *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &caller{conn, bufio.NewReader(conn)}
}

func (c *caller) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (c *caller) expect(t *testing.T, line string) {
	t.Helper()
	got, err := c.answers.ReadString('\n')
	if err != nil || got != line+"\n" {
		t.Fatalf("answer %q, %v; want %q", got, err, line)
	}
}

func newProxy(t *testing.T) (*Proxy, chan string) {
	t.Helper()
	address, arrived := echo(t)
	p, err := NewProxy(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, arrived
}

func heal(t *testing.T, p *Proxy, c Cure) {
	t.Helper()
	if err := p.Heal(context.Background(), c); err != nil {
		t.Fatal(err)
	}
}

func TestProxyForwards(t *testing.T) {
	p, _ := newProxy(t)
	c := dial(t, p)
	c.send(t, "one")
	c.expect(t, "one")
	p.Inject(Slow)
	c.send(t, "two")
	c.expect(t, "two")
}

func TestProxyCutResetsAndRefuses(t *testing.T) {
	p, _ := newProxy(t)
	c := dial(t, p)
	c.send(t, "one")
	c.expect(t, "one")
	p.Inject(Cut)
	if _, err := c.answers.ReadString('\n'); err == nil || err == io.EOF {
		t.Errorf("the connection ended with %v, want an error", err)
	}
	if conn, err := net.Dial("tcp", p.Address()); err == nil {
		t.Error("a new connection was not refused")
		_ = conn.Close()
	}
	heal(t, p, Reset)
	c = dial(t, p)
	c.send(t, "two")
	c.expect(t, "two")
}

// Held data arrives after its sender has gone. The guard must reject such requests.
func TestProxyHoldDeliversLate(t *testing.T) {
	p, arrived := newProxy(t)
	c := dial(t, p)
	c.send(t, "one")
	c.expect(t, "one")
	<-arrived
	p.Inject(Hold)
	c.send(t, "two")
	_ = c.Close()
	heal(t, p, Deliver)
	if line := <-arrived; line != "two\n" {
		t.Errorf("%q arrived, want what was held", line)
	}
}

func TestProxyMuteKeepsAnswers(t *testing.T) {
	p, arrived := newProxy(t)
	c := dial(t, p)
	p.Inject(Mute)
	c.send(t, "one")
	<-arrived
	heal(t, p, Reset)
	if line, err := c.answers.ReadString('\n'); err == nil {
		t.Errorf("the answer %q came through a connection that was reset", line)
	}
	c = dial(t, p)
	p.Inject(Mute)
	c.send(t, "two")
	<-arrived
	heal(t, p, Deliver)
	c.expect(t, "two")
}

// A forgotten connection stays open and silent. A new one works.
func TestProxyForgets(t *testing.T) {
	p, arrived := newProxy(t)
	c := dial(t, p)
	c.send(t, "one")
	c.expect(t, "one")
	<-arrived
	p.Inject(Hold)
	c.send(t, "lost")
	heal(t, p, Forget)
	c.send(t, "lost, too")
	other := dial(t, p)
	other.send(t, "two")
	other.expect(t, "two")
	if line := <-arrived; line != "two\n" {
		t.Errorf("%q arrived through a forgotten connection", line)
	}
	if err := c.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || !err.(net.Error).Timeout() {
		t.Errorf("the forgotten connection ended with %v, want that it does not end", err)
	}
}
