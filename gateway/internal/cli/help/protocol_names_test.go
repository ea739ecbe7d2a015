package help_test

import (
	"encoding/base64"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/httpserver/limit"
	"muster/gateway/internal/reply"
)

const wireFolder = "../../../../agent/wire"

func base64Decode(text string) ([]byte, error) { return base64.StdEncoding.DecodeString(text) }

// wireFiles is the source of agent/wire.
func wireFiles(t *testing.T) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(wireFolder + "/*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("no source in %s: %v", wireFolder, err)
	}
	var files []*ast.File
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			files = append(files, must(parser.ParseFile(token.NewFileSet(), name, nil, 0)))
		}
	}
	return files
}

// fieldsOf are the JSON names of all fields of all types of agent/wire.
func fieldsOf(files []*ast.File) (names []string) {
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil {
				return true
			}
			tag := must(strconv.Unquote(field.Tag.Value))
			name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			names = append(names, name)
			return true
		})
	}
	return names
}

// constantsOf are the constants of agent/wire: their names, and the text of those that are one.
func constantsOf(files []*ast.File) map[string]string {
	found := map[string]string{}
	for _, f := range files {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				addConstants(g, found)
			}
		}
	}
	return found
}

func addConstants(g *ast.GenDecl, into map[string]string) {
	for _, spec := range g.Specs {
		v := spec.(*ast.ValueSpec)
		into[v.Names[0].Name] = ""
		if text, ok := v.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
			into[v.Names[0].Name] = must(strconv.Unquote(text.Value))
		}
	}
}

// notOfNodes are the constants of agent/wire that no node sends or reads: operators and installers do.
var notOfNodes = []string{
	"PathInstaller", "PathBootstrap", "PrefixNodes", "PrefixInternal", "PrefixBootstrap", "PrefixAdmin",
	"StateCommissioned", "StateReady", "StatusPending", "StatusOnline", "StatusStale",
	"PrefixTasks", "PrefixSessions", "OpenerShell", "OpenerExec", "OpenerForward", "userForm", "commandForm", "wordsForm", "sessionMark",
	"ParamText", "ParamFlag", "ParamInt", "ParamList", "ParamMap", "SeverityNote", "SeverityWarn", "SeveritySevere",
	"EnvPrefix", "EnvGateway", "EnvState", "EnvToken", "EnvTokenFile", "EnvSupervised", "EnvKept", "EnvSession", "EnvRun", "hub",
}

// fieldsOfTypes are how muster task types describes params to operators. The page says what params there are: see TestProtocolTaskTypes.
var fieldsOfTypes = []string{"kind", "required", "about"}

// TestProtocolFields: every member of every message, every header, path, word and code stands on the page.
func TestProtocolFields(t *testing.T) {
	p := readPage(t)
	files := wireFiles(t)
	prose := block.ReplaceAllString(p.text, "") // an example explains nothing
	fields := slices.DeleteFunc(fieldsOf(files), func(name string) bool { return slices.Contains(fieldsOfTypes, name) })
	if len(fields) < 100 {
		t.Fatalf("agent/wire has %d fields: the test would keep nothing", len(fields))
	}
	for _, name := range fields {
		if !regexp.MustCompile("[`.\"]" + name + "[`\"]").MatchString(prose) {
			t.Errorf("the page does not explain the field %s", name)
		}
	}
	constants := constantsOf(files)
	for _, name := range notOfNodes {
		if _, there := constants[name]; !there {
			t.Errorf("agent/wire has no %s", name)
		}
		delete(constants, name)
	}
	for name, text := range constants {
		if text != "" && !regexp.MustCompile("`((GET|POST) )?"+regexp.QuoteMeta(text)+"`").MatchString(prose) {
			t.Errorf("the page does not name %s, %q", name, text)
		}
	}
	channel := wire.SessionChannelPath("{session}", "{channel}")
	for _, path := range []string{wire.PathRelease, wire.ReleaseBlobPath("{digest}"), channel} {
		if !strings.Contains(prose, "| `GET "+path+"` |") {
			t.Errorf("the page does not name %s", path)
		}
	}
	const task = "{task}"
	for _, path := range []string{wire.HeartbeatPath("{id}"), wire.LeavePath("{id}"), wire.RenewPath("{id}"), wire.AdoptPath("{id}"),
		wire.TaskStartedPath(task), wire.TaskOutputPath(task), wire.TaskResultPath(task), wire.TaskSecretsPath(task), channel,
		wire.LogsPath("{id}")} {
		if !strings.Contains(prose, "| `POST "+path+"` |") {
			t.Errorf("the page does not name %s", path)
		}
	}
}

var (
	codeRow   = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([0-9]{3}) \\| ([a-z -]+) \\| ([a-z -]+) \\|")
	otherCode = regexp.MustCompile("`([a-z_]+)` \\(([0-9]{3})\\)")
)

// TestProtocolCodes: every code stands on the page with its status, and no other one.
func TestProtocolCodes(t *testing.T) {
	p := readPage(t)
	statuses := map[string]string{}
	for _, form := range []*regexp.Regexp{codeRow, otherCode} {
		for _, m := range form.FindAllStringSubmatch(p.text, -1) {
			statuses[m[1]] = m[2]
		}
	}
	for name, code := range constantsOf(wireFiles(t)) {
		if !strings.HasPrefix(name, "Code") {
			continue
		}
		if want := strconv.Itoa(reply.Status(code)); statuses[code] != want {
			t.Errorf("the page gives %s the status %q, want %s", code, statuses[code], want)
		}
		delete(statuses, code)
	}
	for code := range statuses {
		t.Errorf("the page lists the code %s, which there is not", code)
	}
}

// TestProtocolLimits: every limit of agent/wire stands in the page's table, with its value.
func TestProtocolLimits(t *testing.T) {
	p := readPage(t)
	seconds := func(d time.Duration) string { return fmt.Sprintf("%d s", int(d.Seconds())) }
	known := map[string]string{
		"MaxRegisterBody": fmt.Sprintf("body of a register request | %d bytes", wire.MaxRegisterBody),
		"MaxAdoptBody":    fmt.Sprintf("body of an adopt request | %d bytes", wire.MaxAdoptBody),
		"MaxBody":         fmt.Sprintf("body of any other request | %d bytes", wire.MaxBody),
		"MaxCSR":          fmt.Sprintf("CSR | %d bytes", wire.MaxCSR),
		"MaxNameLength":   fmt.Sprintf("name | %d characters", wire.MaxNameLength),
		"MaxLabels":       fmt.Sprintf("labels | %d", wire.MaxLabels),
		"MaxLabelKey":     fmt.Sprintf("key of a label, and its prefix | %d characters each", wire.MaxLabelKey),
		"MaxLabelValue":   fmt.Sprintf("value of a label | %d characters", wire.MaxLabelValue),
		"MaxProvider":     fmt.Sprintf("provider | %d characters", wire.MaxProvider),
		"MaxInstanceID":   fmt.Sprintf("instance id | %d characters", wire.MaxInstanceID),
		"MaxNodeID":       fmt.Sprintf("node id | %d characters", wire.MaxNodeID),
		"MaxEpoch":        fmt.Sprintf("epoch | %d characters", wire.MaxEpoch),
		"MaxGateways":     fmt.Sprintf("`gateways` | %d URLs", wire.MaxGateways),
		"MaxGatewayURL":   fmt.Sprintf("one of them | %d bytes", wire.MaxGatewayURL),
		"MinRunID":        fmt.Sprintf("run id | %d to %d characters", wire.MinRunID, wire.MaxRunID),
		"MaxRunID":        fmt.Sprintf("run id | %d to %d characters", wire.MinRunID, wire.MaxRunID),
		"MaxPace":         "interval in a heartbeat | " + seconds(wire.MaxPace),
		"MaxSkewMillis":   fmt.Sprintf("skew in a heartbeat | %d ms", int64(wire.MaxSkewMillis)),
		"MaxNotices":      fmt.Sprintf("notices, and entries of health | %d", wire.MaxNotices),
		"MaxNoticeBytes":  fmt.Sprintf("notices together | %d bytes", wire.MaxNoticeBytes),
		"MaxHealthDetail": fmt.Sprintf("one entry of health_detail | %d bytes", wire.MaxHealthDetail),
		"MaxUnshipped":    fmt.Sprintf("sources that are not shipped | %d", wire.MaxUnshipped),
		"MaxUnshippedWhy": fmt.Sprintf("why a source is not shipped | %d bytes", wire.MaxUnshippedWhy),
		"MaxSelf":         fmt.Sprintf("agent, and cost | %d bytes each", wire.MaxSelf),
		"MaxGPUs":         fmt.Sprintf("GPUs | %d", wire.MaxGPUs),
		"MaxDepth":        fmt.Sprintf("levels of JSON in hardware | %d", wire.MaxDepth),
		"MaxText":         fmt.Sprintf("text in hardware | %d bytes", wire.MaxText),
		"MaxList":         fmt.Sprintf("list in hardware | %d", wire.MaxList),
		"MostProcesses":   fmt.Sprintf("processes of one GPU in hardware | %d", wire.MostProcesses),
		"MaxProcessText":  fmt.Sprintf("text of a process in hardware | %d bytes", wire.MaxProcessText),
		"MaxXids":         fmt.Sprintf("events of the kernel in hardware | %d", wire.MaxXids),
		"MaxRuns":         fmt.Sprintf("runs in hardware | %d", wire.MaxRuns),
		"MaxChecks":       fmt.Sprintf("checks, and figures, of evidence | %d each", wire.MaxChecks),
		"MaxPCI":          fmt.Sprintf("devices of evidence | %d", wire.MaxPCI),
		"MaxSaw":          fmt.Sprintf("one text of a check, and of a cleaning | %d bytes", wire.MaxSaw),
		"MaxLeft":         fmt.Sprintf("lines removed, and lines left, of a cleaning | %d each", wire.MaxLeft),
		"MaxStartsWhy":    fmt.Sprintf("why the last run of the agent ended | %d bytes", wire.MaxStartsWhy),
		"StartsWindow":    fmt.Sprintf("time in which starts of the agent count | %.0f s", wire.StartsWindow.Seconds()),
		"MaxGeneration":   fmt.Sprintf("generation in adopt | %d", wire.MaxGeneration),
		"EnrollWindow":    "time of a register request is off | " + seconds(wire.EnrollWindow),
		"SignatureWindow": "created of a signature is off | " + seconds(wire.SignatureWindow),
		"Backdate":        "beginning of a certificate before its issue | " + seconds(wire.Backdate),
		"UsualInterval":   "interval that nobody has asked for | " + seconds(wire.UsualInterval),
		"MinInterval": fmt.Sprintf("interval that a gateway asks for | %d to %s", int(wire.MinInterval.Seconds()),
			seconds(wire.MaxInterval)),
		"MaxInterval": fmt.Sprintf("interval that a gateway asks for | %d to %s", int(wire.MinInterval.Seconds()),
			seconds(wire.MaxInterval)),
		"MaxTaskWait":     "wait for a task | " + seconds(wire.MaxTaskWait),
		"MaxTaskPayload":  fmt.Sprintf("payload of a task | %d bytes", wire.MaxTaskPayload),
		"MaxTaskHead":     fmt.Sprintf("head of a task's output | %d bytes", wire.MaxTaskHead),
		"MaxTaskTail":     fmt.Sprintf("tail of a task's output | %d bytes", wire.MaxTaskTail),
		"MaxTaskPiece":    fmt.Sprintf("data in one piece of output | %d bytes", wire.MaxTaskPiece),
		"MaxTaskArchive":  fmt.Sprintf("file of a task | %d bytes", wire.MaxTaskArchive),
		"MaxTaskError":    fmt.Sprintf("error of a result | %d bytes", wire.MaxTaskError),
		"MaxTaskValues":   fmt.Sprintf("values of a result | %d bytes", wire.MaxTaskValues),
		"MaxTaskLife":     "life of a task | " + seconds(wire.MaxTaskLife),
		"MaxTaskAhead":    "lead of `issued_at` | " + seconds(wire.MaxTaskAhead),
		"TaskLease":       "silence of a node until its tasks are lost | " + seconds(wire.TaskLease),
		"TaskPulse":       "time between two signs of life of a task | " + seconds(wire.TaskPulse),
		"MaxPointer":      fmt.Sprintf("pointer of a release | %d bytes", wire.MaxPointer),
		"MaxLayer":        fmt.Sprintf("layer of a release | %d bytes", wire.MaxLayer),
		"MaxProgram":      fmt.Sprintf("program in a layer | %d bytes", wire.MaxProgram),
		"MaxChannel":      fmt.Sprintf("name of a channel | %d characters", wire.MaxChannel),
		"MaxUpdateLog":    fmt.Sprintf("log of an update | %d bytes", wire.MaxUpdateLog),
		"MaxUpdateDetail": fmt.Sprintf("detail of an update | %d bytes", wire.MaxUpdateDetail),
		"MaxUpdateWord":   fmt.Sprintf("phase and code of an update | %d characters each", wire.MaxUpdateWord),
		"MaxStagger":      "time over which nodes spread an update | " + seconds(wire.MaxStagger),
		"TrialBeat":       "time between two heartbeats of a trial | " + seconds(wire.TrialBeat),
		"TrialBeats":      fmt.Sprintf("heartbeats that a trial needs | %d", wire.TrialBeats),
		"TrialStable":     "life that a trial needs | " + seconds(wire.TrialStable),
		"TrialTime":       "time of a trial | " + seconds(wire.TrialTime),
		"TrialCap":        "time of a trial while the gateway is away | " + seconds(wire.TrialCap),

		"MaxSessionWait":    "time in which a node must open a session | " + seconds(wire.MaxSessionWait),
		"MaxSession":        "time that a session lasts | " + seconds(wire.MaxSession),
		"MaxPiece":          fmt.Sprintf("data in one piece of a session | %d bytes", wire.MaxPiece),
		"PipeRoom":          fmt.Sprintf("bytes of one direction of a channel that wait | %d bytes", wire.PipeRoom),
		"PieceWait":         "wait for bytes of a session | " + seconds(wire.PieceWait),
		"SessionBridge":     "silence until a session ends | " + seconds(wire.SessionBridge),
		"MaxConnections":    fmt.Sprintf("connections that an operator has in a session | %d", wire.MaxConnections),
		"MaxChannels":       fmt.Sprintf("channels of a session | %d", wire.MaxChannels),
		"MaxNodeSessions":   fmt.Sprintf("sessions of a node | %d", wire.MaxNodeSessions),
		"MaxSessionCommand": fmt.Sprintf("command of a session | %d bytes", wire.MaxSessionCommand),
		"MaxSessionPath":    fmt.Sprintf("path in a session | %d bytes", wire.MaxSessionPath),
		"MaxCopyUnknown":    fmt.Sprintf("copied bytes of a file that says it has none | %d bytes", wire.MaxCopyUnknown),
		"MaxTerm":           fmt.Sprintf("term of a terminal | %d characters", wire.MaxTerm),
		"MaxTerminal":       fmt.Sprintf("rows, and columns, of a terminal | %d", wire.MaxTerminal),
		"MaxNumber":         fmt.Sprintf("number in a session | %d", int64(wire.MaxNumber)),
		"MaxLogName":        fmt.Sprintf("name in a source of logs | %d characters", wire.MaxLogName),
		"MaxLogLine":        fmt.Sprintf("message of a line of a log | %d bytes", wire.MaxLogLine),
		"MaxLogBatch":       fmt.Sprintf("body of lines of logs | %d bytes", wire.MaxLogBatch),
		"MaxLogFields":      fmt.Sprintf("fields of a line of a log | %d", wire.MaxLogFields),

		"ProtocolVersion": fmt.Sprintf("`protocol` | integer | %d", wire.ProtocolVersion),
	}
	for name, text := range constantsOf(wireFiles(t)) {
		row, listed := known[name]
		if text == "" && !listed && !slices.Contains(notOfNodes, name) {
			t.Errorf("no row of the page is held against wire.%s", name)
		}
		if listed && !strings.Contains(p.text, "| "+row+" |") {
			t.Errorf("the page has no row %q", row)
		}
	}
}

// TestProtocolNonces finds the bounds of a nonce by the code that makes and reads it, and how many the gateway remembers.
func TestProtocolNonces(t *testing.T) {
	p := readPage(t)
	r := p.request("leave-request", p.example("leave-body"))
	nonce := func(change func(string) string) error {
		copied := r.Clone(t.Context())
		copied.Header.Set("Signature-Input", nonceForm.ReplaceAllStringFunc(r.Header.Get("Signature-Input"), change))
		_, err := sign.ParseRequest(copied)
		return err
	}
	least := strings.Repeat("r", 16)
	for text, good := range map[string]bool{
		strings.Repeat("e", 111) + "." + least: true, strings.Repeat("e", 112) + "." + least: false, "e." + least[1:]: false, "." +
			least: true,
	} {
		if err := nonce(func(string) string { return `nonce="` + text + `"` }); (err == nil) != good {
			t.Errorf("a nonce of %d characters: %v", len(text), err)
		}
	}
	memory := fleet.NewReplay()
	taken := 0
	for memory.Take(strconv.Itoa(taken), storyTime, storyTime.Add(wire.SignatureWindow), storyTime) == limit.Fresh {
		taken++
	}
	if !strings.Contains(p.text, fmt.Sprintf("At most %d signed requests of one node", taken)) {
		t.Errorf("the page does not say that %d nonces are remembered", taken)
	}
}

var nonceForm = regexp.MustCompile(`nonce="[^"]*"`)
