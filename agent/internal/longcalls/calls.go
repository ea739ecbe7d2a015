package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"muster/agent/internal/transport"
)

// The routes are those of the test that runs this program.
const (
	size  = 2 << 20               // bytes of a body, more than wire.MaxBody
	piece = 64 << 10              // bytes until the next pause
	pause = 40 * time.Millisecond // in which nothing is read or written
)

// calls are the loops beside the heartbeat.
type calls struct {
	client     *transport.Client
	node       string
	generation func() int // of the certificate that is in use
	until      int        // the generation under which a call of each kind is to be done
	enough     func()     // is called then

	mu    sync.Mutex
	tally tally
	last  map[string]bool // kinds of calls that were done under that generation
}

// kinds is how many kinds of calls there are.
const kinds = 3

func (c *calls) path(name string) string { return "/test/" + c.node + "/" + name }

// wait asks for something that takes its time.
func (c *calls) wait(ctx context.Context) error {
	_, err := c.client.Do(ctx, transport.Request{Path: c.path("wait"), Timeout: time.Minute})
	return err
}

// upload sends a body slowly. The gateway answers with its digest.
func (c *calls) upload(ctx context.Context) error {
	source := &slowly{from: bytes.NewReader(bytes.Repeat([]byte("upload! "), size/8))}
	body, err := transport.Section("application/octet-stream", source, 0, size)
	if err != nil {
		return err
	}
	source.pause = pause
	answer, err := c.client.Do(ctx, transport.Request{Path: c.path("upload"), Body: body, Timeout: time.Minute})
	if err != nil {
		return err
	}
	sum := sha256.New()
	source.pause = 0
	if _, err := io.Copy(sum, io.NewSectionReader(source, 0, size)); err != nil {
		return err
	}
	var got string
	if err := json.Unmarshal(answer.Body, &got); err != nil || got != hex.EncodeToString(sum.Sum(nil)) {
		return errors.New("the gateway has other bytes than were sent")
	}
	return nil
}

// download takes a large answer slowly.
func (c *calls) download(ctx context.Context) error {
	into := &slowWriter{}
	download := &transport.Download{To: into, Most: 2 * size}
	_, err := c.client.Do(ctx, transport.Request{Path: c.path("download"), Into: download, Timeout: time.Minute})
	if err != nil {
		return err
	}
	if got := into.String(); strings.TrimSpace(got) != `"`+strings.Repeat("x", size)+`"` {
		return errors.New("other bytes arrived than were sent")
	}
	return nil
}

// slowly reads like a file on a slow disk. Without the pauses a call would end before the certificate is renewed.
type slowly struct {
	from  io.ReaderAt
	pause time.Duration
}

func (s *slowly) ReadAt(data []byte, offset int64) (int, error) {
	time.Sleep(s.pause)
	return s.from.ReadAt(data[:min(len(data), piece)], offset)
}

// slowWriter writes like a file on a slow disk.
type slowWriter struct {
	bytes.Buffer
	last int
}

func (s *slowWriter) Write(data []byte) (int, error) {
	if s.Len()-s.last >= piece {
		s.last = s.Len()
		time.Sleep(pause)
	}
	return s.Buffer.Write(data)
}
