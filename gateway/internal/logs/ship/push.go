package ship

import (
	"context"
	"encoding/json"
	"time"

	"muster/agent/spool"
	"muster/gateway/internal/httpserver/post"
)

const (
	linger   = time.Second            // from a line to its push, so that more go with it
	mostRead = 640 << 10              // bytes of records in one push, which makes less than 1 MiB for the sink
	least    = 500 * time.Millisecond // the first pause of a back-off
	longest  = 5 * time.Minute        // and the longest
)

// pusher sends one rule's buffer to its sink.
type pusher struct {
	*Service
	*rule
}

// run pushes until ctx ends.
func (p *pusher) run(ctx context.Context) {
	r := p.box.Untaken()
	defer r.Close()
	for ctx.Err() == nil {
		got, err := r.Next(mostRead)
		switch {
		case err != nil:
			p.state.failed("the buffer cannot be read: look at the disk of the gateway", p.Now())
			p.Logger.Warn("a buffer of log lines cannot be read", "rule", p.Name, "error", err)
			p.Wait(ctx, longest)
		case len(got) == 0:
			p.state.waits(nil)
			p.wait(ctx)
		default:
			p.push(ctx, got)
		}
	}
}

// wait waits for lines, and a little for more of them.
func (p *pusher) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-p.box.News():
		p.Wait(ctx, linger)
	}
}

// push sends records until the sink has taken or refused them. If ctx ends before that, they stay in the buffer.
func (p *pusher) push(ctx context.Context, got []spool.Record) {
	lines := p.lines(got)
	if len(lines) > 0 && !p.deliver(ctx, lines) {
		return
	}
	if err := p.box.Confirm(got[len(got)-1].Number); err != nil {
		p.Logger.Debug("log lines that were sent could not be removed from the buffer: they are removed with a later push",
			"rule", p.Name, "error", err)
	}
}

// lines reads the records, and counts those that are missing. What the bound of the buffer cost is counted there.
func (p *pusher) lines(got []spool.Record) []kept {
	var all []kept
	for _, one := range got {
		var k kept
		switch {
		case one.Gap != nil && one.Gap.Reason != spool.ReasonFull:
			p.state.drop(ReasonDamaged, one.Gap.Lost)
		case one.Gap != nil:
		case json.Unmarshal(one.Data, &k) != nil:
			p.state.drop(ReasonDamaged, 1)
		default:
			all = append(all, k)
		}
	}
	return all
}

// deliver reports false if ctx ended first.
func (p *pusher) deliver(ctx context.Context, lines []kept) bool {
	if at := lines[0].Line.Received; at != nil {
		p.state.waits(at)
	}
	body, size, err := encode(lines, p.Now())
	if err != nil { // a line of the buffer always can be encoded
		p.state.refused(len(lines), "the lines cannot be written as JSON", p.Now())
		return true
	}
	for failures := 0; ctx.Err() == nil; failures++ {
		err := p.sink.push(ctx, body)
		if err == nil {
			p.state.took(len(lines), size, p.Now())
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if err.Refused {
			p.state.refused(len(lines), err.Text, p.Now())
			p.Logger.Warn("a sink refuses log lines, they are dropped", "rule", p.Name, "lines", len(lines), "why", err.Text)
			return true
		}
		if p.state.failed(err.Text, p.Now()) {
			p.Logger.Warn("a sink takes no log lines, trying again", "rule", p.Name, "why", err.Text)
		}
		p.Wait(ctx, max(err.After, post.Pause(least, longest, failures, p.Rand())))
	}
	return false
}
