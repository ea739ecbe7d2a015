package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// maxAttempts bounds how often one call is signed anew because the gateway asks for it.
const maxAttempts = 4

// attempt is one exchange of a call, and what is needed to judge its answer.
type attempt struct {
	Answer
	out      *outgoing
	sent     time.Time
	via      Way  // the way that carried it
	strict   bool // the certificate's dates were checked
	endpoint *endpoint
}

// Facts are what every proven answer may carry. From an answer that is not proven they count for nothing.
type Facts struct {
	Error wire.ErrorDetail `json:"error"`
	Time  *time.Time       `json:"time"`
	Epoch string           `json:"epoch"`
}

// Call posts in as JSON to a node's route and reads the proven answer into out. Its errors are those of Do.
func (c *Client) Call(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	answer, err := c.Do(ctx, Request{Path: path, Kind: kindJSON, Body: body})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer.Body, out); err != nil {
		return fmt.Errorf("read the gateway's answer: %w", err)
	}
	return nil
}

// Do sends a request of the node and returns the proven answer, whose status is 2xx. The proof covers status and body. If the request was
// signed, headers count for nothing.
//
// The error is a *Refusal where the gateway provably refused, ErrOtherContent where it gives another content than Into's, and an *Unproven
// where something else answered. It wraps ErrIdentityChanged where the call was cut because the node has another identity now. Any other
// error means that nothing answered.
//
// Do corrects clock and epoch by proven answers, and signs the request again if the gateway asks for that. It is safe for concurrent use.
func (c *Client) Do(ctx context.Context, q Request) (Answer, error) {
	t, err := c.enter(ctx)
	if err != nil {
		return Answer{}, err
	}
	defer c.leave(t)
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.life, cancel)()
	answer, err := c.settle(bounded, t, q)
	var refusal *Refusal
	switch {
	case err == nil:
		return answer, nil
	case t.life.Err() != nil && ctx.Err() == nil && !errors.As(err, &refusal):
		return Answer{}, fmt.Errorf("speak to %s: %w", c.at(t).base.Host, ErrIdentityChanged)
	}
	return Answer{}, err
}

// settle repeats a request as long as the gateway wants it signed anew, at most maxAttempts times.
func (c *Client) settle(ctx context.Context, t *tenure, q Request) (Answer, error) {
	var last error
	for range maxAttempts {
		a, err := c.attempt(ctx, t, q)
		if err != nil {
			return Answer{}, err
		}
		again, err := c.judge(a)
		if again {
			last = err
			continue
		}
		if unproven := (*Unproven)(nil); errors.As(err, &unproven) { // something between talks, as when the gateway behind it is gone
			c.move(t, a.endpoint, err)
		}
		return a.Answer, err
	}
	return Answer{}, fmt.Errorf("%s does not take a request that was signed %d times: %v", c.at(t).base.Host, maxAttempts, last)
}

// attempt sends the request on the way that is in use, and once more on the other one where carry says so. If only the dates of the
// gateway's certificate are wrong, it ignores them and sends the request signed: the proven answer tells whose clock is wrong.
func (c *Client) attempt(ctx context.Context, t *tenure, q Request) (attempt, error) {
	return c.carry(ctx, t, func(d *endpoint, via Way) (attempt, error) {
		signed := via == Curl || !c.isMutual(d)
		a, err := c.send(ctx, d.over(via, strict), t, q, signed)
		a.strict = true
		if errors.Is(err, errDates) {
			c.cfg.Logger.Warn("the gateway's certificate fails by its dates alone: asking for the time", "host", d.base.Host)
			a, err = c.send(ctx, d.over(via, lenient), t, q, true)
			d.over(via, lenient).close()
		}
		a.endpoint = d
		return a, err
	})
}

// send makes one exchange. Every exchange of a signed request has a new nonce, because the gateway takes a nonce only once.
func (c *Client) send(ctx context.Context, through exchanger, t *tenure, q Request, signed bool) (attempt, error) {
	a := attempt{out: c.outgoing(q), sent: c.cfg.Now()}
	if q.Into != nil {
		q.Into.ask(a.out.header)
	}
	var err error
	if signed {
		a.out.keys = t.identity.AnswerKeys
		if a.out.nonce, err = c.signInto(a.out, t.identity.Signer); err != nil {
			return attempt{}, err
		}
	}
	a.Answer, err = through.exchange(ctx, a.out)
	return a, err
}

func (c *Client) signInto(o *outgoing, signer sign.Signer) (nonce string, err error) {
	r, err := http.NewRequest(o.method(), c.base.String()+o.Path, nil)
	if err != nil {
		return "", err
	}
	r.Header = o.header
	c.mu.Lock()
	epoch := c.epoch
	c.mu.Unlock()
	return signer.SignDigest(r, sign.ContentDigest(o.Body), epoch, c.Now())
}

// judge decides what an answer means. The error is nil for a proven success. again says that the request has to be sent anew.
func (c *Client) judge(a attempt) (again bool, err error) {
	if !a.proven() {
		if !a.signed() { // since the last exchange something else answers: sign from now on
			c.setMutual(a.endpoint, false)
			return true, a.Unproven()
		}
		return false, a.Unproven()
	}
	said := c.learn(a)
	if a.Status >= 200 && a.Status < 300 {
		c.setMutual(a.endpoint, a.chained && a.strict)
		if a.out.Into != nil && !a.streamed {
			return false, ErrOtherContent
		}
		return false, nil
	}
	refusal := a.refusal(said.Error)
	switch refusal.Code {
	case wire.CodeClockSkew, wire.CodeStaleNonce, wire.CodeReplayed:
		return true, refusal
	case wire.CodeNoIdentity:
		c.setMutual(a.endpoint, false)
		return !a.signed(), refusal
	case wire.CodeMTLSRequired:
		c.setMutual(a.endpoint, a.signed() && a.chained)
		return c.isMutual(a.endpoint), refusal
	}
	return false, refusal
}

// proven reports whether an answer is the gateway's. An answer to an unsigned request is proven by its connection alone.
func (a attempt) proven() bool {
	switch {
	case !a.signed():
		return a.chained && a.strict
	case a.streamed: // else nothing of it was written
		return true
	}
	return a.out.proves(a.Answer, sign.ContentDigest(a.Body))
}

func (a attempt) signed() bool { return a.out.nonce != "" }

// learn takes clock and epoch from a proven answer. It assumes that the gateway wrote its time in the middle of the round trip.
func (c *Client) learn(a attempt) Facts {
	f := a.facts()
	c.LearnEpoch(f.Epoch)
	if f.Time != nil {
		c.LearnTime(f.Time.Add(c.cfg.Now().Sub(a.sent) / 2))
	}
	return f
}

// Refusal reads an answer that the caller has proven and that is not a success.
func (a Answer) Refusal() (*Refusal, Facts) {
	f := a.facts()
	return a.refusal(f.Error), f
}

func (a Answer) facts() Facts {
	var f Facts
	if json.Unmarshal(a.Body, &f) != nil {
		return Facts{}
	}
	return f
}

func (a Answer) refusal(detail wire.ErrorDetail) *Refusal {
	if detail.Code == "" {
		detail = wire.ErrorDetail{Code: wire.CodeInternal, Message: "HTTP " + strconv.Itoa(a.Status)}
	}
	return &Refusal{Status: a.Status, ErrorDetail: detail, RetryAfter: retryAfter(a.Header)}
}

// retryAfter reads the header in its form of seconds. The header is not proven, so it counts for five minutes at most.
func retryAfter(header http.Header) int {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(seconds, int(MaxWait/time.Second))
}
