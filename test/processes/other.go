package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// portPlaceholder stands for the port in the arguments of an independent program.
const portPlaceholder = "{port}"

// otherLimit is the longest time until an independent program listens.
const otherLimit = 20 * time.Second

// Dynoxide returns the command of dynoxide, an independent DynamoDB with Streams.
func Dynoxide(executable string) []string {
	return []string{executable, "serve", "--host", "127.0.0.1", "--port", portPlaceholder, "--log", "quiet"}
}

// BigtableEmulator returns the command of Google's emulator.
func BigtableEmulator(executable string) []string {
	return []string{executable, "-host", "127.0.0.1", "-port", portPlaceholder}
}

// ServeDynamo starts a DynamoDB and returns its address: an independent one, or the embedded one if
// command is nil. Executable is a program that calls Serve. The log goes to dir under the name.
func ServeDynamo(executable, dir, name string, command []string) (address string, stop func(), err error) {
	r := role{Service: dynamoService}
	if command != nil {
		r = role{Service: otherService, Command: command}
	}
	s, err := startService(executable, dir, name, r)
	if err != nil {
		return "", nil, err
	}
	return s.address, s.stop, nil
}

// serveOther runs a program that listens on a local port, and prints the address once it does. This
// process runs between the program and the test. Such programs do not end with the process that
// started them, but this one does, and ends them.
func serveOther(command []string, in io.Reader, out io.Writer) error {
	if len(command) == 0 {
		return fmt.Errorf("%s: no command", ServiceVariable)
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	arguments := make([]string, len(command)-1)
	for i, argument := range command[1:] {
		arguments[i] = strings.ReplaceAll(argument, portPlaceholder, port)
	}
	cmd := exec.Command(command[0], arguments...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, ServiceVariable+"=") })
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	if err := listens(address, exited); err != nil {
		_ = cmd.Process.Kill()
		return fmt.Errorf("%s: %w", command[0], err)
	}
	if _, err := fmt.Fprintln(out, address); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	over := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, in)
		over <- err
	}()
	select {
	case err = <-exited:
		return fmt.Errorf("%s ended by itself: %v", command[0], err)
	case err = <-over:
		_ = cmd.Process.Kill()
		<-exited
		return err
	}
}

// freeAddress returns a local address at which no process listens. It does not reserve the port,
// but the system does not soon assign the same port again.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(0)))
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// listens waits until a process accepts connections at an address.
func listens(address string, exited <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), otherLimit)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case ended := <-exited:
			return fmt.Errorf("it ended before it listened: %v", ended)
		default:
		}
		if wait(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("it does not listen after %s: %w", otherLimit, err)
		}
	}
}
