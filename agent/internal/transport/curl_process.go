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

	"muster/agent/wire"
)

const (
	maxHeaders = 64 << 10        // bytes of an answer's headers
	maxSays    = 4 << 10         // bytes of curl's own words
	pipeGrace  = 2 * time.Second // for output after curl has ended
)

// invocation is one run of curl. Its arguments are always the same; everything else goes through pipes.
type invocation struct {
	program string
	env     []string
	config  []byte // on standard input
	body    []byte // at bodyFile
	roots   []byte // at rootsFile
}

// outcome is what one run left behind.
type outcome struct {
	headers, body []byte
	stderr        string
	code          int  // exit status; -1 when a signal ended it
	tooLarge      bool // it was killed because of that
	err           error
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
	return plain(line, 200)
}

// run runs curl in its own process group, which is killed when ctx is done or the answer is too large.
func (i invocation) run(ctx context.Context) outcome {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	stdout := bounded{most: wire.MaxBody, overflow: kill}
	headers := bounded{most: maxHeaders, overflow: kill}
	stderr := bounded{most: maxSays}
	cmd := exec.CommandContext(ctx, i.program, "-q", "--config", "-")
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = i.env, bytes.NewReader(i.config), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = pipeGrace
	pipes, err := openPipes(i.body, i.roots)
	if err != nil {
		return outcome{err: err}
	}
	cmd.ExtraFiles = pipes.child
	err = cmd.Start()
	pipes.closeChild()
	received := make(chan struct{})
	go func() { defer close(received); io.Copy(&headers, pipes.headers) }()
	if err == nil {
		err = cmd.Wait()
	}
	pipes.headers.SetReadDeadline(time.Now().Add(pipeGrace)) // whoever still holds the pipe is not waited for
	<-received
	pipes.headers.Close()
	out := outcome{headers: headers.kept, body: stdout.kept, stderr: string(stderr.kept), tooLarge: stdout.over || headers.over, code: -1}
	var exit *exec.ExitError
	if cmd.ProcessState != nil {
		out.code = cmd.ProcessState.ExitCode()
	}
	if err != nil && !errors.As(err, &exit) {
		out.err = err
	}
	return out
}

// pipes are curl's besides the standard ones.
type pipes struct {
	child   []*os.File // curl's ends, from descriptor 3 on
	headers *os.File
}

func openPipes(body, roots []byte) (*pipes, error) {
	p := &pipes{}
	bodyEnd, err := feed(body)
	if err != nil {
		return nil, err
	}
	p.child = append(p.child, bodyEnd)
	read, write, err := os.Pipe()
	if err != nil {
		p.closeChild()
		return nil, err
	}
	p.headers, p.child = read, append(p.child, write)
	rootsEnd, err := feed(roots)
	if err != nil {
		p.closeChild()
		read.Close()
		return nil, err
	}
	p.child = append(p.child, rootsEnd)
	return p, nil
}

// feed gives a pipe that the data can be read from. Its writer ends when the last reader has gone.
func feed(data []byte) (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		defer write.Close()
		write.Write(data)
	}()
	return read, nil
}

func (p *pipes) closeChild() {
	for _, file := range p.child {
		file.Close()
	}
}

// bounded keeps the first bytes written to it and swallows the rest; overflow, where set, is told.
type bounded struct {
	kept     []byte
	most     int
	over     bool
	overflow func()
}

func (b *bounded) Write(data []byte) (int, error) {
	room := min(len(data), b.most-len(b.kept))
	b.kept = append(b.kept, data[:room]...)
	if room < len(data) && b.overflow != nil {
		b.over = true
		b.overflow()
	}
	return len(data), nil
}
