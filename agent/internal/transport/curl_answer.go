package transport

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

var errNoHTTP = errors.New("what answers there does not speak HTTP: check the port of --gateway")

// parseHeaders reads what curl dumps. The header block of the answer may follow others: those of a proxy's CONNECT and of 1xx answers.
// Trailers may follow it. The last block with a status line counts.
func parseHeaders(raw []byte) (status int, header http.Header, err error) {
	inside := false
	for line := range bytes.Lines(raw) {
		text := strings.TrimRight(string(line), "\r\n")
		switch {
		case !inside:
			if code := statusOf(text); code != 0 {
				status = code
				header = http.Header{}
				inside = true
			}
		case text == "":
			inside = false
		default:
			name, value, ok := strings.Cut(text, ":")
			if ok && isToken(name) {
				header.Add(name, strings.Trim(value, " \t"))
			}
		}
	}
	if status < 200 || inside {
		return 0, nil, errNoHTTP
	}
	return status, header, nil
}

// statusOf reads a status line such as "HTTP/1.1 200 OK" or "HTTP/2 200". It is 0 for another line.
func statusOf(line string) int {
	version, rest, ok := strings.Cut(line, " ")
	digits, _, _ := strings.Cut(rest, " ")
	if !ok || !strings.HasPrefix(version, "HTTP/") || len(digits) != 3 {
		return 0
	}
	code, err := strconv.Atoi(digits)
	if err != nil || code < 100 {
		return 0
	}
	return code
}

// arrival takes an answer from curl's two pipes: the body from one, the head from the other. Either may come first, so it holds the body
// until the head says where the body goes. Its Write takes the body. Two goroutines write.
type arrival struct {
	out  *outgoing
	kill func()
	news chan struct{} // has room for one: the head has grown

	mu    sync.Mutex
	heads []byte
	held  []byte // the part of the body that has gone nowhere yet
	flows bool   // the body goes to the download
	err   error
}

// head is where an arrival's head is written.
type head struct{ *arrival }

func (h head) Write(data []byte) (int, error) {
	a := h.arrival
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.heads)+len(data) > maxHeaders {
		a.fail(fmt.Errorf("larger than %d bytes in its head: %w", maxHeaders, errTooLarge))
		return len(data), nil
	}
	a.heads = append(a.heads, data...)
	select {
	case a.news <- struct{}{}:
	default:
	}
	return len(data), nil
}

func (a *arrival) Write(data []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return len(data), nil
	}
	a.held = append(a.held, data...)
	a.look()
	if a.crowded() {
		a.await()
	}
	if err := a.out.fits(len(a.held)); err != nil && a.err == nil {
		a.fail(err)
	}
	return len(data), nil
}

// crowded reports whether more is held than belongs in memory, though the head may yet say that it goes to the download.
func (a *arrival) crowded() bool {
	return a.out.Into != nil && a.err == nil && a.out.fits(len(a.held)) != nil
}

// await waits for the head: on a busy machine the body may be read long before it.
func (a *arrival) await() {
	late := time.NewTimer(pipeGrace)
	defer late.Stop()
	for a.crowded() {
		a.mu.Unlock()
		select {
		case <-a.news:
			a.mu.Lock()
		case <-late.C:
			a.mu.Lock()
			return
		}
		a.look()
	}
}

// look passes on what is held if the head allows that. The head of a proxy's answer, which comes first, allows nothing: it carries no
// proof. The caller holds mu.
func (a *arrival) look() {
	if a.out.Into == nil || a.err != nil {
		return
	}
	if !a.flows {
		status, header, err := parseHeaders(a.heads)
		answer := Answer{Status: status, Header: header}
		if err != nil || !a.out.streams(answer) {
			return
		}
		a.flows = true
		if err := a.out.Into.begin(answer); err != nil {
			a.fail(err)
			return
		}
	}
	if _, err := a.out.Into.Write(a.held); err != nil {
		a.fail(err)
	}
	a.held = a.held[:0]
}

// fail ends curl, because the rest of the answer is of no use. The caller holds mu.
func (a *arrival) fail(err error) {
	a.err = err
	a.kill()
}

// end returns the answer when nothing more comes. done says that curl has received all of it.
func (a *arrival) end(done bool) (Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.look()
	if a.err != nil || !done {
		return Answer{}, a.err
	}
	status, header, err := parseHeaders(a.heads)
	if err != nil {
		return Answer{}, nil // the caller sees status 0
	}
	answer := Answer{Status: status, Header: header}
	if answer.streamed = a.flows; !a.flows {
		answer.Body = a.held
	}
	return answer, nil
}
