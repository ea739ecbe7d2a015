package wire

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// TaskType is one row of the table of what a node can be asked to do. The gateway refuses what does not fit before it signs. The node
// refuses it again after it has checked the signature.
type TaskType struct {
	Name    string
	About   string
	Touches string        // what it changes on the node; empty: nothing
	Timeout time.Duration // for the work on the node, where the params name none
	Longest time.Duration // that the params may name
	Drained bool          // may run on a drained node
	Repeat  bool          // doing it twice does no harm, so a lost one is queued anew
	File    bool          // it may make a file for the operator
	New     func() TaskParams
}

// TaskParams are the params of one type, as a pointer to a struct. They are read strictly. Check is called after that.
type TaskParams interface {
	// Check refuses values that no node should be asked for.
	Check() error
	// Limit is how long the work may take; 0: as the type says.
	Limit() time.Duration
	// Subject returns what the work changes, if a task of another type can undo it. The zero value: nothing.
	Subject() TaskSubject
}

// TaskSubject names what tasks change, so that those on one subject are done one at a time and in their order.
type TaskSubject struct {
	Kind string // such as user; empty: there is no subject
	Name string // of one; empty: all of that kind
}

// Meets reports whether two tasks with these subjects may undo each other's work.
func (s TaskSubject) Meets(o TaskSubject) bool {
	return s.Kind != "" && s.Kind == o.Kind && (s.Name == o.Name || s.Name == "" || o.Name == "")
}

// Names of the task types. They are part of scopes, so they never change.
const (
	TaskProvisionUser   = "provision_user"
	TaskDeprovisionUser = "deprovision_user"
	TaskWorkloadLaunch  = "workload.oci_launch"
	TaskWorkloadProcess = "workload.process"
	TaskWorkloadStop    = "workload.stop"
	TaskWorkloadStatus  = "workload.status"
	TaskWorkloadLogs    = "workload.logs"
	TaskNodeCheck       = "node.check"
	TaskGPUClean        = "gpu.clean"
	TaskDiagCollect     = "diag.collect"
	TaskAgentRestart    = "agent.restart"
	TaskAgentUninstall  = "agent.uninstall"
)

// TaskTypes returns the table of all types.
func TaskTypes() []TaskType {
	const short = 5 * time.Minute
	return []TaskType{
		{TaskProvisionUser, "make an account that people log in with, or bring one that muster made to what the params say",
			"the account and its home directory, its groups, authorized_keys, one file in /etc/sudoers.d", short, time.Hour, false, true, false,
			func() TaskParams { return &ProvisionUser{} }},
		{TaskDeprovisionUser, "remove an account that muster made; one that it did not make is never touched",
			"the account, its processes, its home directory where asked, its file in /etc/sudoers.d", short, time.Hour, true, true, false,
			func() TaskParams { return &DeprovisionUser{} }},
		{TaskWorkloadLaunch, "run a container from an image that is named by digest",
			"one container and its image, with docker, podman or nerdctl", 30 * time.Minute, 6 * time.Hour, false, false, false,
			func() TaskParams { return &WorkloadLaunch{} }},
		{TaskWorkloadProcess, "start a program that runs on without the agent, and keep its output and its exit code",
			"what the program does as its user", short, time.Hour, false, false, false, func() TaskParams { return &WorkloadProcess{} }},
		{TaskWorkloadStop, "end containers and programs that muster started, and remove them", "these containers and programs", short, time.Hour,
			true, true, false, func() TaskParams { return &WorkloadStop{} }},
		{TaskWorkloadStatus, "say how the containers and programs are that muster started", "", short, time.Hour, true, true, false,
			func() TaskParams { return &WorkloadStatus{} }},
		{TaskWorkloadLogs, "give what a container or a program that muster started has written", "", short, time.Hour, true, true, false,
			func() TaskParams { return &WorkloadLogs{} }},
		{TaskNodeCheck, "look whether the machine is what a profile asks for, or what is paid for, and say of each check what it saw", "",
			10 * time.Minute, time.Hour, true, true, false, func() TaskParams { return &NodeCheck{} }},
		{TaskGPUClean, "end what an allocation has left on its GPUs, and say what is still in the way",
			"the allocation's programs, containers and accounts, with their home directories", short, time.Hour, true, true, false,
			func() TaskParams { return &GPUClean{} }},
		{TaskDiagCollect, "collect what a support person asks for, secrets masked, as one archive", "", 10 * time.Minute, time.Hour, true, true,
			true, func() TaskParams { return &DiagCollect{} }},
		{TaskAgentRestart, "start the agent anew; workloads go on", "the agent's process", short, time.Hour, true, true, false,
			func() TaskParams { return &AgentRestart{} }},
		{TaskAgentUninstall, "remove the agent from the node, and retire the node", "everything that the agent has put on the machine", short,
			time.Hour, true, false, false, func() TaskParams { return &AgentUninstall{} }},
	}
}

// FindTaskType finds a type by its name. The refusal names the types that there are.
func FindTaskType(name string) (TaskType, error) {
	var names []string
	for _, t := range TaskTypes() {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return TaskType{}, Refuse(CodeTaskTypeUnknown, fmt.Sprintf("there is no task type %.60q", name),
		"the types are "+strings.Join(names, ", "))
}

// Limit returns how long a task of this type with these params may work on its node.
func (t TaskType) Limit(p TaskParams) time.Duration {
	if asked := p.Limit(); asked > 0 {
		return min(asked, t.Longest)
	}
	return t.Timeout
}

// Kinds of a TaskParam.
const (
	ParamText = "text"
	ParamFlag = "true or false"
	ParamInt  = "whole number"
	ParamList = "list of texts"
	ParamMap  = "NAME=text"
)

// TaskParam describes one param to a person.
type TaskParam struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"` // one of the Param constants
	Required bool   `json:"required"`
	About    string `json:"about"`
}

// Params describes the params of a type, in the order of the struct's fields. The tags of the fields are the source.
func (t TaskType) Params() []TaskParam { return taskParams(reflect.TypeOf(t.New()).Elem()) }

func taskParams(t reflect.Type) []TaskParam {
	var all []TaskParam
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			all = append(all, taskParams(field.Type)...)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		_, required := field.Tag.Lookup("required")
		all = append(all, TaskParam{Name: name, Kind: paramKind(field.Type), Required: required, About: field.Tag.Get("about")})
	}
	return all
}

func paramKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return ParamFlag
	case reflect.Int:
		return ParamInt
	case reflect.Slice:
		return ParamList
	case reflect.Map:
		return ParamMap
	}
	return ParamText
}
