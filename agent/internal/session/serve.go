package session

import (
	"context"

	"muster/agent/internal/person"
	"muster/agent/pipe"
	"muster/agent/wire"
)

// serve does what a session is for. This switch is the one place that knows what serves the sessions of a type. The error is why the
// session does not begin, or ends early.
func (o *opening) serve(ctx context.Context, main *pipe.End, channel func(int) *pipe.End) (pipe.Exit, error) {
	switch p := o.params.(type) {
	case *wire.ShellParams:
		return o.shell(ctx, main, p)
	case *wire.ExecParams:
		return o.exec(ctx, main, p)
	case *wire.ForwardParams:
		most := mostConnections
		if o.Client.Mode() == "curl" {
			most = mostByCurl
		}
		return pipe.Exit{}, forward(ctx, main, pipe.NewFrames(main), channel, most, p, o.policy)
	case *wire.CopyParams:
		who, err := person.Find(o.Accounts, p.User, o.policy.CheckUser)
		if err != nil {
			return pipe.Exit{}, err
		}
		return copyFile(ctx, main, pipe.NewFrames(main), p, who.Login, &o.copies)
	case *wire.LogsParams:
		if o.Logs != nil {
			return o.Logs(ctx, main, p)
		}
	}
	return pipe.Exit{}, wire.Refuse(wire.CodeTaskTypeUnknown, "this agent does not know how to open "+o.kind, "update it")
}
