package wire

import (
	"maps"
	"slices"
	"time"
)

// TaskTime is what the params of every type have.
type TaskTime struct {
	TimeoutSeconds int `json:"timeout_seconds,omitempty" about:"how long the work may take on the node"`
}

// Limit returns how long the work may take; 0: as the type says.
func (t TaskTime) Limit() time.Duration { return time.Duration(t.TimeoutSeconds) * time.Second }

// Subject returns no subject: params that change something have their own method.
func (t TaskTime) Subject() TaskSubject { return TaskSubject{} }

// Kinds of a TaskSubject.
const (
	subjectUser     = "user"
	subjectWorkload = "workload"
)

// Subject returns the account.
func (p *ProvisionUser) Subject() TaskSubject { return TaskSubject{subjectUser, p.Username} }

// Subject returns the account, or all of them.
func (p *DeprovisionUser) Subject() TaskSubject { return TaskSubject{subjectUser, p.Username} }

// Subject returns the workload.
func (p *WorkloadLaunch) Subject() TaskSubject { return TaskSubject{subjectWorkload, p.Name} }

// Subject returns the workload: containers and programs share their names.
func (p *WorkloadProcess) Subject() TaskSubject { return TaskSubject{subjectWorkload, p.Name} }

// Subject returns the workload, or all of them.
func (p *WorkloadStop) Subject() TaskSubject { return TaskSubject{subjectWorkload, p.Name} }

// Subject returns all workloads: so a workload of the allocation that is just being launched is there before the cleaning looks for it.
func (p *GPUClean) Subject() TaskSubject { return TaskSubject{Kind: subjectWorkload} }

// ProvisionUser are the params of TaskProvisionUser.
type ProvisionUser struct {
	Username string   `json:"username" required:"" about:"the account's name"`
	Keys     []string `json:"ssh_public_keys,omitempty" about:"lines for authorized_keys; they replace those of before"`
	Groups   []string `json:"groups,omitempty" about:"groups that exist on the node and that the account joins, such as docker"`
	Sudo     bool     `json:"sudo,omitempty" about:"it may do everything as root, without a password"`
	Shell    string   `json:"shell,omitempty" about:"its login shell; /bin/bash where that exists"`
	// Allocation binds the account: nobody else's task changes it, and the allocation's gpu.clean removes it.
	Allocation string `json:"allocation,omitempty" about:"the allocation that it belongs to; it goes with it"`
	TaskTime
}

// DeprovisionUser are the params of TaskDeprovisionUser.
type DeprovisionUser struct {
	Username   string `json:"username,omitempty" about:"the account's name"`
	All        bool   `json:"all,omitempty" about:"all accounts that muster made on the node"`
	RemoveHome bool   `json:"remove_home,omitempty" about:"remove the home directory too"`
	TaskTime
}

// WorkloadLaunch are the params of TaskWorkloadLaunch. The task's values are changed (false: it ran already), runtime, container (the id),
// image, state, and exit_code if the container has ended.
type WorkloadLaunch struct {
	Name       string            `json:"name" required:"" about:"the workload's name, by which the others name it"`
	Image      string            `json:"image" required:"" about:"HOST/PATH[:TAG]@sha256:DIGEST; of a tag alone the gateway adds the digest"`
	Command    []string          `json:"command,omitempty" about:"what to run instead of the image's own command"`
	Env        map[string]string `json:"env,omitempty" about:"environment"`
	SecretEnv  map[string]string `json:"secret_env,omitempty" about:"environment whose value is the name of a secret (muster secret set)"`
	GPUs       []string          `json:"gpus,omitempty" about:"UUIDs of GPUs, or all"`
	Ports      []string          `json:"ports,omitempty" about:"[ADDRESS:]HOST:CONTAINER[/udp]"`
	Mounts     []string          `json:"mounts,omitempty" about:"HOST:CONTAINER[:ro], below a folder that the node's policy names"`
	User       string            `json:"user,omitempty" about:"UID[:GID] or name inside the container"`
	Workdir    string            `json:"workdir,omitempty" about:"folder inside the container"`
	ShmMiB     int               `json:"shm_mib,omitempty" about:"size of /dev/shm"`
	MemoryMiB  int               `json:"memory_mib,omitempty" about:"most memory that it may take"`
	Login      string            `json:"registry_secret,omitempty" about:"name of a secret USER:PASSWORD for the image's registry"`
	Runtime    string            `json:"runtime,omitempty" about:"docker, podman or nerdctl; the first of them that is there"`
	Allocation string            `json:"allocation,omitempty" about:"the allocation that it belongs to; it ends with it"`
	TaskTime
}

// WorkloadProcess are the params of TaskWorkloadProcess. The task's values are changed (false: it ran already), runtime (process), task
// (that started it), state, pid, gpus (UUIDs), and exit_code if the program has ended.
type WorkloadProcess struct {
	Name       string            `json:"name" required:"" about:"the workload's name, by which the others name it"`
	Command    []string          `json:"command" required:"" about:"the program and its arguments; no shell looks at them"`
	Env        map[string]string `json:"env,omitempty" about:"environment"`
	SecretEnv  map[string]string `json:"secret_env,omitempty" about:"environment whose value is the name of a secret (muster secret set)"`
	GPUs       []string          `json:"gpus,omitempty" about:"UUIDs of GPUs that it sees alone, or all; who uses them does not matter"`
	GPUCount   int               `json:"gpu_count,omitempty" about:"so many GPUs that nothing uses; the node chooses them"`
	User       string            `json:"user,omitempty" about:"who runs it; the agent's own user unless said"`
	Workdir    string            `json:"workdir,omitempty" about:"folder that it begins in; the user's home unless said"`
	Allocation string            `json:"allocation,omitempty" about:"the allocation that it belongs to; it ends with it"`
	TaskTime
}

// WorkloadStop are the params of TaskWorkloadStop. The task's values are changed, and stopped: the names of the workloads.
type WorkloadStop struct {
	Name  string `json:"name,omitempty" about:"the workload's name"`
	All   bool   `json:"all,omitempty" about:"all workloads that muster started on the node"`
	Grace int    `json:"grace_seconds,omitempty" about:"from asking it to end to killing it; 10 unless said"`
	TaskTime
}

// WorkloadStatus are the params of TaskWorkloadStatus. The task's values are workloads, left_out (how many workloads there was no space
// for) and runtimes (those that answered). A workload has name, image, state, exit_code, started_at, finished_at, task, runtime, gpus and
// allocation.
type WorkloadStatus struct {
	Name string `json:"name,omitempty" about:"the workload's name; all of them unless said"`
	TaskTime
}

// WorkloadLogs are the params of TaskWorkloadLogs. The log is the task's output. Its values are lines, and truncated (it is longer).
type WorkloadLogs struct {
	Name  string `json:"name" required:"" about:"the workload's name"`
	Lines int    `json:"lines,omitempty" about:"only so many of the last lines"`
	TaskTime
}

// DiagCollect are the params of TaskDiagCollect.
type DiagCollect struct{ TaskTime }

// AgentRestart are the params of TaskAgentRestart.
type AgentRestart struct{ TaskTime }

// AgentUninstall are the params of TaskAgentUninstall.
type AgentUninstall struct{ TaskTime }

// TaskSecretNames returns the names of the secrets that params refer to. The node is lent these while the task runs.
func TaskSecretNames(p TaskParams) []string {
	var names []string
	switch p := p.(type) {
	case *WorkloadProcess:
		names = slices.Collect(maps.Values(p.SecretEnv))
	case *WorkloadLaunch:
		names = slices.Collect(maps.Values(p.SecretEnv))
		if p.Login != "" {
			names = append(names, p.Login)
		}
	case *NodeCheck:
		if p.Login != "" {
			names = append(names, p.Login)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TaskIncludes returns the types of the tasks that a task with these params does too. A caller who may not ask for those may not ask for
// this task.
func TaskIncludes(p TaskParams) []string {
	switch p := p.(type) {
	case *NodeCheck:
		if p.Image != "" {
			return []string{TaskWorkloadLaunch}
		}
	case *GPUClean:
		if len(p.Users) > 0 {
			return []string{TaskWorkloadStop, TaskDeprovisionUser}
		}
		return []string{TaskWorkloadStop}
	}
	return nil
}
