package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"muster/agent/internal/child"
	"muster/agent/wire"
)

const (
	maxHeaders = 64 << 10        // bytes of an answer's headers
	maxSays    = 4 << 10         // bytes of curl's own words
	pipeGrace  = 2 * time.Second // for output after curl has ended
)

// invocation is one run of curl. Its arguments are always the same. Everything else goes through pipes, which other users cannot read.
type invocation struct {
	program string
	env     []string
	config  []byte // on standard input
	roots   []byte // at rootsFile
	out     *outgoing
}

// outcome is the result of one run.
type outcome struct {
	answer Answer // with status 0 where curl wrote no head of an answer
	stderr string
	code   int // exit status; -1 when a signal ended it
	err    error
}

// says is curl's own sentence, safe to print.
func (o outcome) says() string {
	text := o.stderr
	if _, after, ok := strings.Cut(text, "curl: ("); ok {
		if _, after, ok = strings.Cut(after, ") "); ok {
			text = after
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return wire.Plain(line, 200)
}

// run runs curl in its own process group, which is killed when ctx is done or the answer cannot be taken.
func (i invocation) run(ctx context.Context) outcome {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	arriving := arrival{out: i.out, kill: kill, news: make(chan struct{}, 1)}
	stderr := child.Bounded{Most: maxSays}
	cmd := exec.CommandContext(ctx, i.program, "-q", "--config", "-") // -q: no configuration file of the user's
	cmd.Env = i.env
	cmd.Stdin = bytes.NewReader(i.config)
	cmd.Stdout = &arriving
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = pipeGrace
	loan := newLoan()
	defer loan.end()
	pipes, err := openPipes(loan.of(i.out.Body), bytes.NewReader(i.roots))
	if err != nil {
		return outcome{err: err}
	}
	cmd.ExtraFiles = pipes.child
	err = cmd.Start()
	pipes.closeChild() // else this process would hold the pipes open, and reading them would not end
	received := make(chan struct{})
	go func() { defer close(received); _, _ = io.Copy(head{&arriving}, pipes.headers) }()
	if err == nil {
		err = cmd.Wait()
	}
	_ = pipes.headers.SetReadDeadline(time.Now().Add(pipeGrace)) // do not wait for a child of curl's that still holds the pipe
	<-received
	_ = pipes.headers.Close()
	result := outcome{stderr: string(stderr.Kept), code: -1}
	if cmd.ProcessState != nil {
		result.code = cmd.ProcessState.ExitCode()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		result.err = err
	}
	answer, failed := arriving.end(result.code == 0)
	result.answer = answer
	if failed != nil {
		result.err = failed
	}
	return result
}

// pipes are curl's pipes beside the standard ones, in the order of bodyFile, headersFile and rootsFile.
type pipes struct {
	child   []*os.File // curl's ends, from descriptor 3 on
	headers *os.File
}

func openPipes(body, roots io.Reader) (*pipes, error) {
	bodyEnd, failed := feed(body)
	read, write, err := os.Pipe()
	rootsEnd, unfed := feed(roots)
	p := &pipes{child: []*os.File{bodyEnd, write, rootsEnd}, headers: read}
	if err = errors.Join(failed, err, unfed); err != nil {
		p.closeChild()
		read.Close()
	}
	return p, err
}

// feed gives a pipe from which the data can be read. Its goroutine ends when the last reader has closed the pipe.
func feed(data io.Reader) (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		defer write.Close()
		_, _ = io.Copy(write, data) // curl says what went wrong
	}()
	return read, nil
}

func (p *pipes) closeChild() {
	for _, file := range p.child {
		file.Close() // a nil file takes it
	}
}
