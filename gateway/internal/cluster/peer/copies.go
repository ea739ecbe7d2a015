package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"muster/gateway/internal/artifact"
)

// Copies is what a gateway has for the others: blobs of the registry, and minutes of the history.
type Copies struct {
	// Keep stores a blob whose bytes come from another gateway, and verifies it by its digest.
	Keep func(blob artifact.Info, content io.Reader) error
	// Open opens a blob that is here.
	Open func(blob artifact.Info) (io.ReadCloser, error)
	// Note keeps minutes of the history: one value of JSON.
	Note func(minutes io.Reader) error
}

// mostNotes bounds a message with minutes of the history, in bytes.
const mostNotes = 64 << 20

// stallTime is how long a copy may stand still.
const stallTime = 30 * time.Second

// storeTime is how long another gateway may take to say that it has a blob, after the last byte: it waits until gigabytes are on its disk.
const storeTime = 5 * time.Minute

// answer is what stands before the bytes of an answer, as a line of JSON.
type answer struct {
	Error string `json:"error,omitempty"`
}

// keep takes a copy from another gateway.
func (c Copies) keep(from *Conn, blob artifact.Info) error {
	return from.receive(blob.Size, func(content io.Reader) error { return c.Keep(blob, content) })
}

// receive takes so many bytes from another gateway at most, and says how that went.
func (c *Conn) receive(most int64, take func(io.Reader) error) error {
	lively := stalling{c.Conn}
	read := io.MultiReader(io.LimitReader(c.rest, int64(c.rest.Buffered())), lively) // first what came with the header
	err := take(io.LimitReader(read, most))
	return errors.Join(err, writeLine(lively, answered(err)))
}

// give sends a copy to another gateway.
func (c Copies) give(to *Conn, blob artifact.Info) error {
	lively := stalling{to.Conn}
	file, err := c.Open(blob)
	if err != nil {
		return errors.Join(err, writeLine(lively, answered(err)))
	}
	defer file.Close()
	if err := writeLine(lively, answer{}); err != nil {
		return err
	}
	_, err = io.Copy(lively, file)
	return err
}

// Note gives another gateway minutes of the history, as JSON.
func Note(ctx context.Context, own Identity, to Gateway, minutes any) error {
	return talk(ctx, own, to, header{Kind: notes}, func(c net.Conn) error {
		lively := stalling{c}
		if err := writeLine(lively, minutes); err != nil {
			return err
		}
		return readAnswer(bufio.NewReaderSize(lively, mostHeader))
	})
}

// talk opens a connection to another gateway for as long as something is said over it, or ctx lasts.
func talk(ctx context.Context, own Identity, to Gateway, h header, say func(net.Conn) error) error {
	c, err := begin(ctx, own, to, h)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	return say(c)
}

func answered(err error) answer {
	if err != nil {
		return answer{err.Error()}
	}
	return answer{}
}

func writeLine(to io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = to.Write(append(line, '\n'))
	}
	return err
}

// readAnswer reads what stands before the bytes of an answer.
func readAnswer(from *bufio.Reader) error {
	line, err := from.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("the other gateway's answer: %w", err)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return fmt.Errorf("the other gateway's answer: %w", err)
	}
	if a.Error != "" {
		return Refusal(a.Error)
	}
	return nil
}

// Refusal is the reason why another gateway did not do what it was asked.
type Refusal string

func (r Refusal) Error() string { return "the other gateway: " + string(r) }

// Keep has another gateway keep a copy of a blob. When it returns nil, the copy is on that gateway's disk, and verified.
func Keep(ctx context.Context, own Identity, to Gateway, blob artifact.Info, content io.Reader) error {
	return talk(ctx, own, to, header{Kind: keeps, Blob: &blob}, func(c net.Conn) error { return sendBlob(c, content) })
}

func sendBlob(c net.Conn, content io.Reader) error {
	if _, err := io.Copy(stalling{c}, content); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(storeTime)); err != nil {
		return err
	}
	return readAnswer(bufio.NewReaderSize(c, mostHeader))
}

// Fetch returns the bytes of a blob that another gateway has, until ctx ends. The caller verifies them. The error is an
// artifact.ErrNotThere if the other gateway has answered that it does not have the blob.
func Fetch(ctx context.Context, own Identity, from Gateway, blob artifact.Info) (io.ReadCloser, error) {
	c, err := begin(ctx, own, from, header{Kind: gives, Blob: &blob})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	rest := bufio.NewReaderSize(stalling{c}, mostHeader)
	if err := readAnswer(rest); err != nil {
		stop()
		if refusal := Refusal(""); errors.As(err, &refusal) {
			err = fmt.Errorf("%w: %w", artifact.ErrNotThere, err)
		}
		return nil, errors.Join(err, c.Close())
	}
	return fetched{io.LimitReader(rest, blob.Size), c, stop}, nil
}

// fetched is a blob on its way.
type fetched struct {
	io.Reader
	conn net.Conn
	stop func() bool
}

// Close ends the way.
func (f fetched) Close() error {
	f.stop()
	return f.conn.Close()
}

// stalling is a connection that fails when it stands still.
type stalling struct{ net.Conn }

func (s stalling) Read(p []byte) (int, error) {
	if err := s.SetReadDeadline(time.Now().Add(stallTime)); err != nil {
		return 0, err
	}
	return s.Conn.Read(p)
}

func (s stalling) Write(p []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(stallTime)); err != nil {
		return 0, err
	}
	return s.Conn.Write(p)
}
