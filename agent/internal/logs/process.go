package logs

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"muster/agent/internal/child"
)

const (
	// stopTime is for a program to end when its reader does. It has nothing to save.
	stopTime = time.Second
	// heldTime is for what a program has printed before it ended, where another one holds its output open.
	heldTime = 2 * time.Second
	// maxComplaint is what is kept of a program's standard error, and of the answer to a question, in bytes.
	maxComplaint = 4 << 10
)

// program is a program whose output is a log.
type program struct {
	command child.Command
	lines   splitter
	joined  bool // its standard error is part of the log
}

// run gives its lines until it ends. The program waits for who reads. It is killed with all it has started when ctx is done, or when a line
// is not taken. complaint is what it has written to its standard error.
func (p program) run(ctx context.Context, give func(one) error) (complaint string, err error) {
	from, to, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer from.Close()
	life, cancel := context.WithCancelCause(ctx)
	said := child.Bounded{Most: maxComplaint}
	c := p.command
	c.Stdout = to
	c.Stderr = &said
	c.Grace = stopTime
	if p.joined {
		c.Stderr = to
	}
	var over atomic.Bool
	ended := make(chan error, 1)
	go func() {
		err := child.Run(life, c)
		to.Close()
		over.Store(true)
		_ = from.SetReadDeadline(time.Now().Add(heldTime))
		ended <- err
	}()
	readErr := p.read(from, &over, give)
	cancel(readErr)
	err = <-ended
	if readErr != nil {
		err = readErr
	}
	return strings.TrimSpace(string(said.Kept)), err
}

// read reads to the end of the output. Once the program is over it waits only for what it has left in the pipe.
func (p program) read(from *os.File, over *atomic.Bool, give func(one) error) error {
	data := make([]byte, 32<<10)
	for {
		last := over.Load()
		if last {
			_ = from.SetReadDeadline(time.Now().Add(heldTime))
		}
		n, readErr := from.Read(data)
		if err := p.lines.feed(data[:n], give); err != nil {
			return err
		}
		switch {
		case errors.Is(readErr, os.ErrDeadlineExceeded) && !last: // who read was away meanwhile: there may be more
		case readErr != nil:
			return p.lines.flush(give)
		}
	}
}
