package workload

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/internal/child"
)

// The labels of a container that belongs to muster. A launch sets all of them, because an image may bring labels of its own.
const (
	labelTask    = "muster.task"       // the task that launched it
	Label        = "muster.workload"   // the workload's name; every container that belongs to muster has it
	labelNode    = "muster.node"       // the node's id at that time
	labelSpec    = "muster.spec"       // tells whether another launch wants the same
	labelImage   = "muster.image"      // as the params have it
	labelGPUs    = "muster.gpus"       // as the params have them, with commas between
	labelSecrets = "muster.secret_env" // names of the variables that hold secrets, with commas between

	labelAllocation = "muster.allocation" // the allocation that it belongs to; empty: to none
)

// containerName is how a workload's container is called.
func containerName(workload string) string { return "muster-" + workload }

// States of a container, as the engines name them.
const (
	stateRunning = "running"
	statePaused  = "paused"
)

// container is one container of muster's.
type container struct {
	engine engine
	ID     string `json:"Id"`
	Name   string
	State  struct {
		Status     string
		ExitCode   int
		OOMKilled  bool
		Error      string
		StartedAt  string
		FinishedAt string
	}
	Config struct {
		Labels map[string]string
		Env    []string
	}
	HostConfig struct {
		LogConfig struct{ Type string }
	}
}

func (c container) workload() string         { return c.Config.Labels[Label] }
func (c container) label(name string) string { return c.Config.Labels[name] }

// alive tells whether the container has a process.
func (c container) alive() bool {
	return c.State.Status == stateRunning || c.State.Status == statePaused
}

// secrets are the values of those variables that the launch took from secrets.
func (c container) secrets() []string {
	var all []string
	for name := range strings.SplitSeq(c.label(labelSecrets), ",") {
		for _, entry := range c.Config.Env {
			if value, found := strings.CutPrefix(entry, name+"="); found && name != "" {
				all = append(all, value)
			}
		}
	}
	return all
}

func idsOf(all []container) (ids []string) {
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	return ids
}

// moment reads a time as the engines write it; nil: there was none.
func moment(text string) *time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() < 1971 {
		return nil
	}
	at = at.UTC().Truncate(time.Second)
	return &at
}

// workloads gives the containers of a workload; the empty name stands for all of them.
func (e engine) workloads(ctx context.Context, name string) ([]container, error) {
	filter := "label=" + Label
	if name != "" {
		filter += "=" + name
	}
	return e.list(ctx, filter)
}

// list gives muster's containers that an engine's filter finds. A container that is removed between the two questions makes the second
// one fail, so they are asked once more.
func (e engine) list(ctx context.Context, filter string) ([]container, error) {
	all, err := e.listOnce(ctx, filter)
	var exit *child.ExitError
	if errors.As(err, &exit) {
		return e.listOnce(ctx, filter)
	}
	return all, err
}

func (e engine) listOnce(ctx context.Context, filter string) ([]container, error) {
	ids, err := e.ask(ctx, "ps", "--all", "--quiet", "--no-trunc", "--filter", filter)
	if err != nil || len(bytes.TrimSpace(ids)) == 0 {
		return nil, err
	}
	return e.inspect(ctx, strings.Fields(string(ids))...)
}

// inspect gives those of the containers that are muster's.
func (e engine) inspect(ctx context.Context, ids ...string) ([]container, error) {
	answer, err := e.ask(ctx, append([]string{"container", "inspect"}, ids...)...)
	if err != nil {
		return nil, err
	}
	all, err := parseContainers(answer)
	if err != nil {
		return nil, fmt.Errorf("%s container inspect: %w", e.name, err)
	}
	for i := range all {
		all[i].engine = e
	}
	return all, nil
}

// parseContainers reads an answer to container inspect, and leaves out what is not muster's. A label alone proves nothing, because an
// image can bring it: the name must fit too. Nothing of the answer may get into an error: it has the environment with the secrets.
func parseContainers(answer []byte) ([]container, error) {
	var all []container
	if err := json.Unmarshal(answer, &all); err != nil {
		return nil, errors.New("the answer is not a list of containers as JSON")
	}
	var ours []container
	for _, c := range all {
		c.State.Status = cmp.Or(strings.ToLower(c.State.Status), "unknown")
		named := strings.TrimPrefix(c.Name, "/") == containerName(c.workload())
		if c.ID != "" && !strings.HasPrefix(c.ID, "-") && named && c.workload() != "" && c.label(labelTask) != "" {
			ours = append(ours, c)
		}
	}
	return ours, nil
}

// remove ends containers of one engine that may still run, and removes them with the volumes that nobody has named. What is left
// afterwards is the failure, whatever the engine has said meanwhile.
func (e engine) remove(ctx context.Context, filter string, ids ...string) error {
	_, err := e.ask(ctx, append([]string{"rm", "--force", "--volumes"}, ids...)...)
	left, listErr := e.list(ctx, filter)
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	for _, c := range left {
		if slices.Contains(ids, c.ID) {
			return cmp.Or(err, fmt.Errorf("%s has not removed %s", e.name, c.Name))
		}
	}
	return nil
}
