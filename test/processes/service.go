package processes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/grpc"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// ServiceVariable is the environment variable that makes a process of this test binary a service.
// Its value is passed to Serve.
const ServiceVariable = "REPLICATOR_PROCESSES_SERVICE"

// The services.
const (
	dynamoService   = "dynamodb"
	bigtableService = "bigtable"
	pubsubService   = "pubsub"
	// otherService is an independent program.
	otherService = "other"
)

// role holds the parameters of a service process.
type role struct {
	Service string `json:"service"`
	// Seed, Shards and FirstSequence are options of the embedded DynamoDB.
	Seed          uint64 `json:"seed,omitempty"`
	Shards        int    `json:"shards,omitempty"`
	FirstSequence string `json:"first_sequence,omitempty"`
	// Window is how long the embedded DynamoDB accepts a signature; 0 for any time. Changes makes the
	// embedded Bigtable keep change streams.
	Window  time.Duration `json:"window,omitempty"`
	Changes bool          `json:"changes,omitempty"`
	// Command is an independent program with its arguments; portPlaceholder stands for the port.
	Command []string `json:"command,omitempty"`
}

// maxMessage is the largest gRPC message that the embedded Bigtable accepts. The default of 4 MiB
// is below the size of a row.
const maxMessage = 256 << 20

// Serve is the main function of a service process. It prints its address in one line on out, and
// serves until in ends. That happens when the process that started it ends in any way.
func Serve(text string, in io.Reader, out io.Writer) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return fmt.Errorf("%s: %w", ServiceVariable, err)
	}
	var address string
	switch r.Service {
	case dynamoService:
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: dynamodbtest.New(dynamodbtest.Options{
			Seed: r.Seed, Region: region, InitialShards: r.Shards, FirstSequenceNumber: r.FirstSequence, Control: true, SignatureWindow: r.Window,
		})}
		go func() { _ = server.Serve(listener) }() // until the process ends
		address = listener.Addr().String()
	case bigtableService:
		if r.Changes {
			server, err := bigtabletest.New(bigtabletest.Options{Seed: r.Seed})
			if err != nil {
				return err
			}
			address = server.Addr()
			break
		}
		server, err := bttest.NewServer("127.0.0.1:0", grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))
		if err != nil {
			return err
		}
		address = server.Addr
	case pubsubService:
		var err error
		if address, err = servePubSub(); err != nil {
			return err
		}
	case otherService:
		return serveOther(r.Command, in, out)
	default:
		return fmt.Errorf("%s: unknown service %q", ServiceVariable, r.Service)
	}
	if _, err := fmt.Fprintln(out, address); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

// service is a running service process.
type service struct {
	name    string
	address string
	cmd     *exec.Cmd
	log     *os.File
	hold    io.Closer // ends the process once closed
}

// startService starts the executable, which calls Serve, and waits for its address. Its log has the
// given name.
func startService(executable, dir, name string, r role) (*service, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	s := &service{name: name, cmd: exec.Command(executable)}
	s.cmd.Env = append(os.Environ(), ServiceVariable+"="+string(text))
	if s.log, err = os.Create(filepath.Join(dir, name+".log")); err != nil {
		return nil, err
	}
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	if s.hold, err = s.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", s.name, err), s.log.Close())
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("%s ended before it told its address: %w: %s", s.name, err, tail(s.log.Name(), 10))
	}
	s.address = strings.TrimSpace(line)
	return s, nil
}

// stop ends the process, which holds only data in memory.
func (s *service) stop() {
	_ = s.hold.Close()
	exited := make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // the exit status does not matter
		close(exited)
	}()
	select {
	case <-exited:
	case <-time.After(endLimit):
		_ = s.cmd.Process.Kill()
		<-exited
	}
	_ = s.log.Close()
}

// endLimit is the longest time until a service ends after its input was closed.
const endLimit = 5 * time.Second

// control calls an operation of the embedded DynamoDB that applications may not use: see
// dynamodbtest. Result may be nil.
func (s *service) control(ctx context.Context, name string, parameters map[string]any, result any) error {
	body, err := json.Marshal(parameters)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/_control/"+name, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  string          `json:"error"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("control %s: %s: %w", name, response.Status, err)
	}
	if answer.Error != "" {
		return fmt.Errorf("control %s: %s", name, answer.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
