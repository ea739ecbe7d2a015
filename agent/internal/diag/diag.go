// Package diag collects what a support person asks for into one archive: how the agent is, and the machine that it runs on.
//
// Everything in the archive went through a logfile.Masker. A source that fails, hangs or is not there costs only itself: manifest.json
// names it with the reason, and the rest goes on. Nothing on the machine is changed.
package diag

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"muster/agent/internal/logfile"
	"muster/agent/internal/task"
	"muster/agent/wire"
)

const (
	// maxTotal bounds the files together, before they are compressed. What the archive adds fits into the rest.
	maxTotal = wire.MaxTaskArchive - 2<<20
	// sourceTime is how long one source may take, unless its row says more.
	sourceTime = 10 * time.Second
	// leaveTime is how long a source that was told to end may take for that. After that it is left behind.
	leaveTime = 5 * time.Second
	// allTime is how long all sources together may take.
	allTime = 5 * time.Minute
)

// Collector knows where things are on this machine.
type Collector struct {
	Version  string // of the agent
	State    string // the agent's state directory
	Settings string // the file of its settings; empty: there is none
	Root     string // where the machine's files are; empty: /
	User     bool   // the agent is a service of an ordinary user
	Token    string // a credential that the agent was given, so that it can be masked
	// Describe returns what nvidia-smi -q prints, and Reading the last look at the GPUs. nil: the GPUs are not looked at.
	Describe func(ctx context.Context) ([]byte, error)
	Reading  func() any
	Tasks    func() map[string]string // the tasks that the agent remembers, with how far each came
	Now      func() time.Time         // nil: time.Now
}

// source is one file of the archive.
type source struct {
	file  string
	limit int                                       // bytes that are kept; 0: 1 MiB
	time  time.Duration                             // 0: sourceTime
	read  func(ctx context.Context) ([]byte, error) // nil: this machine does not have it

	path    string   // of a file of the machine that is read; empty: it is none
	command []string // a program that is run, with its arguments; none: it is none
}

// errAbsent says that there is nothing to read on this machine. That is no failure.
var errAbsent = errors.New("not on this machine")

// Entry is a source in manifest.json.
type Entry struct {
	File      string `json:"file"`
	Bytes     int    `json:"bytes"`
	Truncated bool   `json:"truncated,omitempty"` // only its beginning is there
	Absent    bool   `json:"absent,omitempty"`    // this machine does not have it
	Error     string `json:"error,omitempty"`
	TookMS    int64  `json:"took_ms"`
}

// Manifest is manifest.json in the archive.
type Manifest struct {
	Task    string    `json:"task"`
	Agent   string    `json:"agent_version"`
	MadeAt  time.Time `json:"made_at"` // by this machine's clock
	Sources []Entry   `json:"sources"`
}

// Do does a task diag.collect. The values of the outcome are files and bytes: what is in the archive, and how long it is.
func (c Collector) Do(ctx context.Context, job task.Job) task.Outcome {
	name, size, files, err := c.collect(ctx, job)
	if err != nil {
		return task.Failed(err)
	}
	return task.Outcome{Archive: name, Values: wire.TaskValues{
		"files": json.RawMessage(fmt.Sprint(files)), "bytes": json.RawMessage(fmt.Sprint(size)),
	}}
}

// collect writes the archive into the task's folder.
func (c Collector) collect(ctx context.Context, job task.Job) (name string, size int64, files int, err error) {
	started := c.now()
	base := "muster-diag-" + c.nodeName() + "-" + started.Format("20060102T150405Z")
	name = base + ".tar.gz"
	path := filepath.Join(job.Dir, name)
	p, err := newPack(path, base, started, c.masker())
	if err != nil {
		return "", 0, 0, err
	}
	manifest := Manifest{Task: job.ID, Agent: c.Version, MadeAt: started}
	limited, cancel := context.WithTimeoutCause(ctx, allTime, fmt.Errorf("no time is left: all sources together may take %v", allTime))
	defer cancel()
	for _, one := range c.sources() {
		if err := context.Cause(ctx); err != nil {
			p.close()
			return "", 0, 0, err
		}
		entry, err := c.add(limited, p, one)
		if err != nil {
			p.close()
			return "", 0, 0, err
		}
		manifest.Sources = append(manifest.Sources, entry)
		fmt.Fprintln(job.Output, entry.line())
	}
	err = p.addJSON("manifest.json", manifest)
	if err = errors.Join(err, p.close()); err != nil {
		return "", 0, 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", 0, 0, err
	}
	fmt.Fprintf(job.Output, "%d files, %d bytes compressed\n", p.files, info.Size())
	return name, info.Size(), p.files, nil
}

// add reads a source and packs what it gave. Its error is one of the archive, and not of the source.
func (c Collector) add(ctx context.Context, p *pack, one source) (Entry, error) {
	start := time.Now()
	text, err := one.get(ctx)
	entry := Entry{File: one.file, TookMS: time.Since(start).Milliseconds()}
	switch {
	case errors.Is(err, errAbsent), errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		entry.Absent = true
	case err != nil:
		entry.Error = string(p.masker.Text([]byte(err.Error())))
	}
	if len(text) == 0 {
		return entry, nil
	}
	entry.Bytes, entry.Truncated, err = p.add(one.file, text, cmp.Or(one.limit, 1<<20))
	return entry, err
}

// get reads the source in its time. One that does not end then is left behind.
func (s source) get(ctx context.Context) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if s.read == nil {
		return nil, errAbsent
	}
	limit := cmp.Or(s.time, sourceTime)
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %v", limit))
	defer cancel()
	type result struct {
		text []byte
		err  error
	}
	ended := make(chan result, 1)
	go func() {
		text, err := s.read(limited)
		ended <- result{text, err}
	}()
	select {
	case r := <-ended:
		return r.text, r.err
	case <-limited.Done():
	}
	left := time.NewTimer(leaveTime)
	defer left.Stop()
	select {
	case r := <-ended:
		return r.text, r.err
	case <-left.C:
		return nil, fmt.Errorf("%w, and it does not end", context.Cause(limited))
	}
}

// line says how it went with a source.
func (e Entry) line() string {
	switch {
	case e.Absent:
		return e.File + ": not on this machine"
	case e.Error != "" && e.Bytes > 0:
		return fmt.Sprintf("%s: %d bytes, and failed: %s", e.File, e.Bytes, e.Error)
	case e.Error != "":
		return e.File + ": failed: " + e.Error
	case e.Truncated:
		return fmt.Sprintf("%s: the first %d bytes", e.File, e.Bytes)
	}
	return fmt.Sprintf("%s: %d bytes", e.File, e.Bytes)
}

func (c Collector) now() time.Time {
	if c.Now == nil {
		return time.Now().UTC()
	}
	return c.Now().UTC()
}

func (c Collector) path(name string) string { return filepath.Join("/", c.Root, name) }

// masker knows the secrets that the agent itself has.
func (c Collector) masker() logfile.Masker {
	state, err := c.identity()
	if err != nil {
		return logfile.NewMasker(c.Token)
	}
	return logfile.NewMasker(append(state.Secrets(), c.Token)...)
}
