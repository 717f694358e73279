package processes

import (
	"net"
	"os"
	"strings"
	"testing"
)

// otherProgram as the first argument makes the test binary act as an independent program, which
// listens on the port in the second argument.
const otherProgram = "listen"

// listenAt accepts connections on a port until the process is ended.
func listenAt(port string) {
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		os.Exit(1)
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			os.Exit(1)
		}
		_ = conn.Close()
	}
}

func TestOtherProgram(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	address, stop, err := ServeDynamo(executable, t.TempDir(), "other", []string{executable, otherProgram, portPlaceholder})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	stop()
	if conn, err := net.Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Error("the program outlives the service that it is")
	}
}

func TestOtherProgramThatEnds(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, stop, err := ServeDynamo(executable, t.TempDir(), "other", []string{executable, otherProgram, "no port " + portPlaceholder})
	if err == nil {
		stop()
		t.Fatal("a program that ends at once was taken for one that serves")
	}
	if !strings.Contains(err.Error(), "it ended before it listened") {
		t.Errorf("the error does not tell what happened: %v", err)
	}
}
