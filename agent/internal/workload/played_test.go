package workload_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/internal/child"
)

// playVar names the folder in which a played engine keeps what it knows, and what it was asked.
const playVar = "PLAYED_ENGINE"

// played is how an engine behaves. A test writes it; the played program reads it at each call.
type played struct {
	Version    string            // what --version prints; empty: as the engine does
	Down       string            // it answers nothing but --version, and complains with this
	Hangs      string            // the command that never answers
	Images     []string          // on the node
	Pulls      string            // the image that a pull really brings; empty: the one that was asked for
	PullFails  string            // what a pull complains with
	Says       string            // what a pull prints
	RunFails   string            // what a run complains with, after it has made the container
	NoID       bool              // a run does not print an id
	Ends       *int              // a new container ends at once, with this exit code
	OOM        bool              // for want of memory
	Log        string            // what containers have written
	Stubborn   bool              // a container cannot be removed
	Garbage    string            // what container inspect prints instead
	Vanishes   int               // so many times a container goes between ps and inspect
	Containers []playedContainer // made so far
}

type playedContainer struct {
	ID, Name, Status    string
	ExitCode            int
	Labels              map[string]string
	Env                 []string
	StartedAt, Finished string
}

// asked is one call as the played engine saw it.
type asked struct {
	Program string
	Args    []string
	Env     []string
	Stdin   string
	Auth    string // the file of credentials that the call was pointed to
}

// stage is one call at work.
type stage struct {
	*played
	ctx    context.Context
	asked  asked
	out    io.Writer
	stderr io.Writer
}

// playProgram is the played engine as a program. Its name is that of the engine.
func playProgram() int {
	stdin, _ := io.ReadAll(os.Stdin)
	s := stage{ctx: context.Background(), out: os.Stdout, stderr: os.Stderr}
	s.asked = asked{Program: filepath.Base(os.Args[0]), Args: os.Args[1:], Env: os.Environ(), Stdin: string(stdin)}
	if s.play() == nil {
		return 0
	}
	return failure
}

// playHere is the played engine without a process of its own, for what does not need one.
func playHere(ctx context.Context, c child.Command) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s := stage{ctx: ctx, asked: asked{Program: filepath.Base(c.Program), Args: c.Args, Env: c.Env}, out: io.Discard, stderr: io.Discard}
	if c.Stdin != nil {
		stdin, _ := io.ReadAll(c.Stdin)
		s.asked.Stdin = string(stdin)
	}
	if c.Stdout != nil {
		s.out = c.Stdout
	}
	if c.Stderr != nil {
		s.stderr = c.Stderr
	}
	err := s.play()
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s was stopped: %w", s.asked.Program, cause)
	}
	if err != nil {
		return &child.ExitError{Program: s.asked.Program, Code: failure}
	}
	return nil
}

// failure is the exit code of an engine whose command failed.
const failure = 125

// env is a variable of the call.
func (s *stage) env(name string) (value string) {
	for _, entry := range s.asked.Env {
		if text, found := strings.CutPrefix(entry, name+"="); found {
			value = text
		}
	}
	return value
}

// play does what the call asks for, and complains if that fails.
func (s *stage) play() error {
	s.asked.Auth = s.auth()
	s.record()
	file := filepath.Join(s.env(playVar), s.asked.Program, "played")
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &s.played)
	}
	if err == nil {
		err = s.do()
		raw, _ = json.Marshal(s.played)
		_ = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		fmt.Fprintln(s.stderr, err)
	}
	return err
}

func (s *stage) record() {
	raw, _ := json.Marshal(s.asked)
	file, err := os.OpenFile(filepath.Join(s.env(playVar), "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = file.Write(append(raw, '\n'))
		_ = file.Close()
	}
}

// auth reads the file of credentials while it is there.
func (s *stage) auth() string {
	file := filepath.Join(s.env("DOCKER_CONFIG"), "config.json")
	for _, arg := range s.asked.Args {
		if path, found := strings.CutPrefix(arg, "--authfile="); found {
			file = path
		}
	}
	text, _ := os.ReadFile(file)
	return string(text)
}

// hang does not come back before the call is ended.
func (s *stage) hang() error {
	select {
	case <-s.ctx.Done():
	case <-time.After(time.Hour):
	}
	return errors.New("ended")
}

func (s *stage) do() error {
	p := s.played
	name := s.asked.Program
	args := s.asked.Args
	if args[0] == "--version" {
		version := map[string]string{
			"docker": "Docker version 28.2.2, build e6534b4", "podman": "podman version 4.3.1", "nerdctl": "nerdctl version 2.0.0",
		}
		if p.Version == "" {
			p.Version = version[name]
		}
		fmt.Fprintln(s.out, p.Version)
		return nil
	}
	if p.Down != "" {
		return errors.New(p.Down)
	}
	if p.Hangs == args[0] {
		return s.hang()
	}
	switch strings.Join(args[:min(2, len(args))], " ") {
	case "image inspect":
		return s.imageInspect(args[2])
	case "container inspect":
		return s.inspect(args[2:])
	case "context inspect":
		fmt.Fprintln(s.out, "unix:///run/other.sock")
		return nil
	}
	switch args[0] {
	case "ps":
		return s.list(args[1:])
	case "pull":
		return s.pull(args[len(args)-1])
	case "run":
		return s.run(args[1:], s.asked.Stdin)
	case "wait":
		return s.wait(args[1])
	case "logs":
		fmt.Fprint(s.out, p.Log)
		return nil
	case "stop", "rm":
		return s.end(args)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func (s *stage) imageInspect(image string) error {
	if !slices.Contains(s.Images, image) {
		fmt.Fprintln(s.out, "[]")
		return errors.New("no such image")
	}
	really := image
	if s.Pulls != "" {
		really = s.Pulls
	}
	fmt.Fprintf(s.out, `[{"Id":"sha256:1","RepoDigests":[%q]}]`, really)
	return nil
}

func (s *stage) pull(image string) error {
	fmt.Fprint(s.out, s.Says)
	if s.PullFails != "" {
		return errors.New(s.PullFails)
	}
	s.Images = append(s.Images, image)
	return nil
}

func (s *stage) list(args []string) error {
	for _, c := range s.Containers {
		found := true
		for i, arg := range args {
			if arg == "--filter" {
				name, value, said := strings.Cut(strings.TrimPrefix(args[i+1], "label="), "=")
				have, there := c.Labels[name]
				found = found && there && (!said || have == value)
			}
		}
		if found {
			fmt.Fprintln(s.out, c.ID)
		}
	}
	return nil
}

func (s *stage) inspect(ids []string) error {
	if s.Vanishes > 0 {
		s.Vanishes--
		fmt.Fprintln(s.out, "[]")
		return errors.New("no such container")
	}
	if s.Garbage != "" {
		fmt.Fprintln(s.out, s.Garbage)
		return nil
	}
	var all []any
	for _, id := range ids {
		i := s.find(id)
		if i < 0 {
			return errors.New("no such container")
		}
		c := s.Containers[i]
		all = append(all, map[string]any{
			"Id": c.ID, "Name": "/" + c.Name, "Config": map[string]any{"Labels": c.Labels, "Env": c.Env},
			"State": map[string]any{
				"Status": c.Status, "ExitCode": c.ExitCode, "OOMKilled": s.OOM, "StartedAt": c.StartedAt, "FinishedAt": c.Finished,
			},
		})
	}
	return json.NewEncoder(s.out).Encode(all)
}

func (s *stage) find(id string) int {
	return slices.IndexFunc(s.Containers, func(c playedContainer) bool { return c.ID == id })
}

func (s *stage) run(args []string, stdin string) error {
	c := playedContainer{ID: fmt.Sprintf("%064x", len(s.Containers)+1), Status: "running", Labels: map[string]string{},
		StartedAt: "2026-11-22T15:00:00.5Z", Finished: "0001-01-01T00:00:00Z"}
	for _, arg := range args {
		option, value, _ := strings.Cut(arg, "=")
		switch option {
		case "--name":
			c.Name = value
		case "--label":
			name, text, _ := strings.Cut(value, "=")
			c.Labels[name] = text
		case "--env":
			c.Env = append(c.Env, value+"="+s.env(value))
		case "--env-file":
			c.Env = append(c.Env, strings.Split(strings.TrimSuffix(stdin, "\n"), "\n")...)
		}
	}
	if s.Ends != nil {
		c.Status = "exited"
		c.ExitCode = *s.Ends
		c.Finished = "2026-11-22T15:00:01Z"
	}
	if s.RunFails != "" {
		c.Status = "created"
	}
	s.Containers = append(s.Containers, c)
	if s.RunFails != "" {
		return errors.New(s.RunFails)
	}
	if !s.NoID {
		fmt.Fprintln(s.out, c.ID)
	}
	return nil
}

// wait returns at once where the container has ended, else never.
func (s *stage) wait(id string) error {
	i := s.find(id)
	if i < 0 {
		return errors.New("no such container")
	}
	if s.Containers[i].Status == "running" {
		return s.hang()
	}
	fmt.Fprintln(s.out, strconv.Itoa(s.Containers[i].ExitCode))
	return nil
}

func (s *stage) end(args []string) error {
	for _, id := range args {
		i := s.find(id)
		switch {
		case i < 0:
		case s.Stubborn:
			return errors.New("device or resource busy")
		case args[0] == "stop":
			s.Containers[i].Status = "exited"
		default:
			s.Containers = slices.Delete(s.Containers, i, i+1)
		}
	}
	return nil
}
