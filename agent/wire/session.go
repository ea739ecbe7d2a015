package wire

import (
	"fmt"
	"strings"
	"time"
)

// Types of sessions. A session is opened by a signed document: a TaskPayload whose type is one of these, and whose id is the session's.
// They are part of policies and of what operators sign, so they never change.
const (
	SessionShell   = "session.shell"
	SessionExec    = "session.exec"
	SessionForward = "session.forward"
	SessionCopy    = "session.copy"
	SessionLogs    = "session.logs"
)

// IsSession reports whether a document is for a session and not for a task. A type that is not in the table may be one of a later version.
func IsSession(kind string) bool { return strings.HasPrefix(kind, "session.") }

// SessionType is one row of the table of what a node can be asked to open. The gateway refuses what does not fit before it signs. The
// node refuses it again after it has checked the signature.
type SessionType struct {
	Name   string
	About  string
	Opener string // the part of the scope that opens it: SessionOpeners has all; empty: no account, the gateway opens it for readers of logs
	New    func() SessionParams
}

// SessionParams are the params of one type, as a pointer to a struct. They are read strictly. Check is called after that.
type SessionParams interface {
	// Check refuses values that no node should be asked for.
	Check() error
	// Bounds are the limits of the session.
	Bounds() SessionBounds
}

// SessionTypes returns the table of all types.
func SessionTypes() []SessionType {
	return []SessionType{
		{SessionShell, "a terminal on the node, as one of its users", OpenerShell, func() SessionParams { return &ShellParams{} }},
		{SessionExec, "run one program on the node, without a shell", OpenerExec, func() SessionParams { return &ExecParams{} }},
		{SessionForward, "carry connections to a port on the node", OpenerForward, func() SessionParams { return &ForwardParams{} }},
		{SessionCopy, "read or write a file or a folder on the node", OpenerExec, func() SessionParams { return &CopyParams{} }},
		{SessionLogs, "read the node's logs", "", func() SessionParams { return &LogsParams{} }},
	}
}

// Parts of the scope of sessions.
const (
	OpenerShell   = "shell"
	OpenerExec    = "exec"
	OpenerForward = "forward"
)

// SessionOpeners returns the parts of the scope of sessions.
func SessionOpeners() []string { return []string{OpenerShell, OpenerExec, OpenerForward} }

// FindSessionType finds a type by its name.
func FindSessionType(name string) (SessionType, error) {
	var names []string
	for _, t := range SessionTypes() {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return SessionType{}, Refuse(CodeTaskTypeUnknown, fmt.Sprintf("there is no session type %.60q", name),
		"the types are "+strings.Join(names, ", "))
}

// SessionBounds end a session by themselves. The node and the gateway both keep them.
type SessionBounds struct {
	IdleSeconds  int `json:"idle_seconds,omitempty" about:"the session ends after so long without a byte; 0: as the gateway has it"`
	LimitSeconds int `json:"limit_seconds,omitempty" about:"the session ends after so long in any case; 0: as the gateway has it"`
}

// Bounds returns the bounds themselves, so that params which embed them have this method.
func (b SessionBounds) Bounds() SessionBounds { return b }

// Check refuses bounds that no session has. Params that have nothing else to check take it as their own.
func (b SessionBounds) Check() error {
	longest := int(MaxSession / time.Second)
	if b.IdleSeconds < 0 || b.LimitSeconds < 0 || b.IdleSeconds > longest || b.LimitSeconds > longest {
		return badSession("idle_seconds and limit_seconds", fmt.Sprintf("0 to %d", longest))
	}
	return nil
}

// ShellParams open a terminal.
type ShellParams struct {
	User    string   `json:"user,omitempty" about:"whose login shell it is; empty: the agent's own user"`
	Term    string   `json:"term,omitempty" about:"TERM of the terminal; empty: xterm-256color"`
	Rows    int      `json:"rows,omitempty" about:"of the terminal; 0: 24"`
	Columns int      `json:"columns,omitempty" about:"of the terminal; 0: 80"`
	Command []string `json:"command,omitempty" about:"a program with its arguments in place of the login shell"`
	SessionBounds
}

// ExecParams run a program. Its standard input, output and error are kept apart.
type ExecParams struct {
	User    string   `json:"user,omitempty" about:"who runs it; empty: the agent's own user"`
	Command []string `json:"command" required:"true" about:"the program and its arguments; no shell looks at them"`
	SessionBounds
}

// ForwardParams carry connections: each one that the operator opens is one to this port.
type ForwardParams struct {
	Host string `json:"host,omitempty" about:"where the port is, as the node sees it; empty: the node itself, by its loopback address"`
	Port int    `json:"port" required:"true" about:"of TCP"`
	SessionBounds
}

// CopyParams read or write a file, or a folder with all that is in it (package tree).
type CopyParams struct {
	User   string `json:"user,omitempty" about:"who reads or writes it; empty: the agent's own user"`
	Path   string `json:"path" required:"true" about:"an absolute path on the node"`
	Write  bool   `json:"write,omitempty" about:"the operator sends the file, and the node writes it"`
	Offset int64  `json:"offset,omitempty" about:"where to go on, in bytes"`
	Mode   int    `json:"mode,omitempty" about:"permissions of a file that is written; 0: 0644"`
	Size   int64  `json:"size,omitempty" about:"bytes of a file that is written"`
	Sparse bool   `json:"sparse,omitempty" about:"zeros of a file that is written need take no room"`
	SHA256 string `json:"sha256,omitempty" about:"of a file that is written, in hex; with an offset: it names what the earlier part is of"`
	Folder bool   `json:"folder,omitempty" about:"a folder with all that is in it; offset, mode, size, sparse and sha256 are of files alone"`
	Name   string `json:"name,omitempty" about:"of a folder that is written, in a path that is a folder already; empty: both become one"`
	Origin string `json:"origin,omitempty" about:"of a folder that is written: where it is from, as a SHA-256 in hex; only the same goes on"`
	SessionBounds
}

// LogsParams read a log. The lines come as LogLine, one JSON object a line.
type LogsParams struct {
	Source string    `json:"source" required:"true" about:"agent, kernel, boot, unit:NAME or workload:NAME"`
	Since  time.Time `json:"since" about:"lines of this time and later"`
	Follow bool      `json:"follow,omitempty" about:"go on with new lines"`
	SessionBounds
}

// SessionRefused is the body of a frame that ends a session before it began, and of one that ends it early.
type SessionRefused struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// NewSessionID makes the name of a session: that of a task, behind a mark.
func NewSessionID() string { return sessionMark + NewTaskID() }

const sessionMark = "s-"

// CheckSessionID refuses what is not a session's name.
func CheckSessionID(id string) error {
	bare, marked := strings.CutPrefix(id, sessionMark)
	if !marked || CheckTaskID(bare) != nil {
		return Refuse(CodeBadRequest, fmt.Sprintf("%.40q is not a session's id", id), "an id is s- with 16 lower-case letters and digits 2 to 7")
	}
	return nil
}
