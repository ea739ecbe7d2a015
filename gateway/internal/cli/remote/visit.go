package remote

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/work"
)

// passage is one session with a node.
type passage struct {
	*cli.Session
	attached *Session
	ready    pipe.Ready
	cut      context.CancelFunc
	free     func() bool
	leave    func()
	over     atomic.Bool // the node has said how the session ended
	say      func(string)
}

// open opens a session, and waits until the node has begun. When ctx is done, the node is told that nobody is there any more.
func open(ctx context.Context, s *cli.Session, node, kind string, params wire.SessionParams) (*passage, error) {
	c, err := s.Client(ctx)
	if err != nil {
		return nil, err
	}
	key, err := work.Key(s)
	if err != nil {
		return nil, err
	}
	ask, err := work.Session(ctx, s, key, node, kind, params)
	if err != nil {
		return nil, err
	}
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	v := &passage{Session: s, cut: cut, say: sayer(s)}
	early := context.AfterFunc(ctx, cut)
	if v.attached, err = Open(life, c, node, ask); err != nil {
		cut()
		return nil, err
	}
	early()
	v.leave = sync.OnceFunc(v.attached.Leave)
	v.free = context.AfterFunc(ctx, v.leave)
	v.attached.Notice = v.say
	v.attached.Trouble = func(err error) { v.say(WayWords(err)) }
	if v.ready, err = begin(s, v.attached, v.say); err != nil {
		v.close()
		return nil, interrupted(ctx, err)
	}
	return v, nil
}

// close ends the session, where it has not ended, and waits until the node can know that.
func (v *passage) close() {
	v.free()
	if !v.over.Load() {
		v.leave()
	}
	v.cut()
}

// interrupted is the error where the person ended it, whatever that broke.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// ended reads how the node ended the session. The error is the node's.
func (v *passage) ended(data []byte) (pipe.Exit, error) {
	v.over.Store(true)
	exit, err := ReadExit(data)
	if err == nil && exit.Error != "" {
		err = errors.New(exit.Error)
	}
	return exit, err
}
