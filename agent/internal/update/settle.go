package update

import (
	"context"
	"log/slog"
)

// Settling is what Settle works with.
type Settling struct {
	Base string // the agent's state directory
	// Call makes one authenticated call of this program to its gateway. nil: the gateway answered, and that is proven.
	Call   func(ctx context.Context) error
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
