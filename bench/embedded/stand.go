package embedded

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds the program into a folder, and returns its path.
func Build(ctx context.Context, dir string) (program string, err error) {
	program = filepath.Join(dir, "replicator")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/dynamodb-bigtable/replicator/cmd/replicator")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return program, nil
}

// Stand holds both services and one worker that follows the source.
type Stand struct {
	Source, Target *Service
	Worker         *Worker
}

// NewStand starts the services, and a worker in a folder. The argument `configuration` is the text
// of the worker's file; "" stands for that of Configure.
func NewStand(dir, program, configuration string, source Role, flags ...string) (s *Stand, err error) {
	if err := Configure(dir); err != nil {
		return nil, err
	}
	if configuration != "" {
		if err := os.WriteFile(filepath.Join(dir, "replicator.yaml"), []byte(configuration), 0o600); err != nil {
			return nil, err
		}
	}
	source.Source, s = true, &Stand{}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	if s.Source, err = Start(source); err != nil {
		return nil, err
	}
	if s.Target, err = Start(Role{}); err != nil {
		return nil, err
	}
	s.Worker = &Worker{Program: program, Dir: dir, Source: s.Source.Line, Target: s.Target.Line, Name: "a", Flags: flags}
	return s, s.Worker.Start()
}

// Stop ends the worker and the services, as far as they were started.
func (s *Stand) Stop() {
	if s.Worker != nil && s.Worker.Process != nil {
		s.Worker.Kill()
	}
	for _, service := range []*Service{s.Target, s.Source} {
		if service != nil {
			service.Stop()
		}
	}
}
