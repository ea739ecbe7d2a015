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

// attempt is one exchange of a call with what is needed to judge its answer.
type attempt struct {
	Answer
	identity Identity
	sent     time.Time
	signed   bool
	via      Way // what carried it
	nonce    string
	strict   bool // the certificate's dates were checked
}

// Facts are what any proven answer may carry.
type Facts struct {
	Error wire.ErrorDetail `json:"error"`
	Time  *time.Time       `json:"time"`
	Epoch string           `json:"epoch"`
}

// Call posts in as JSON to a node's route and reads the proven answer into out. The error is a *Refusal where the gateway
// provably refused, an *Unproven where something else answered, and anything else where nothing did. Clock and epoch are
// corrected from proven answers, and the request is signed again where the gateway asks for that.
func (c *Client) Call(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	for range maxAttempts {
		a, failed := c.attempt(ctx, path, body)
		if failed != nil {
			return failed
		}
		var again bool
		if again, err = c.judge(a); again {
			continue
		}
		if err != nil {
			return err
		}
		if err := json.Unmarshal(a.Body, out); err != nil {
			return fmt.Errorf("read the gateway's answer: %w", err)
		}
		return nil
	}
	return fmt.Errorf("%s does not take a request that was signed %d times: %v", c.base.Host, maxAttempts, err)
}

// attempt sends the request once on each way that it takes. Where only the dates of the gateway's certificate stand against
// it, the request goes out signed with the dates ignored: the proven answer tells whose clock is wrong.
func (c *Client) attempt(ctx context.Context, path string, body []byte) (attempt, error) {
	return c.carry(ctx, func(via Way) (attempt, error) {
		a, err := c.send(ctx, c.over(via, strict), path, body, via == Curl || !c.isMutual())
		a.strict = true
		if errors.Is(err, errDates) {
			c.cfg.Logger.Warn("the gateway's certificate fails by its dates alone: asking for the time", "host", c.base.Host)
			a, err = c.send(ctx, c.over(via, lenient), path, body, true)
			c.over(via, lenient).close()
		}
		return a, err
	})
}

func (c *Client) send(ctx context.Context, through exchanger, path string, body []byte, signed bool) (attempt, error) {
	id, err := c.current()
	if err != nil {
		return attempt{}, err
	}
	a := attempt{identity: id, signed: signed, sent: c.cfg.Now()}
	header := http.Header{"Content-Type": {"application/json"}}
	if signed {
		if a.nonce, err = c.signInto(header, id.Signer, path, body); err != nil {
			return attempt{}, err
		}
	}
	a.Answer, err = through.exchange(ctx, http.MethodPost, path, header, body)
	return a, err
}

func (c *Client) signInto(header http.Header, signer sign.Signer, path string, body []byte) (nonce string, err error) {
	r, err := http.NewRequest(http.MethodPost, c.base.String()+path, nil)
	if err != nil {
		return "", err
	}
	r.Header = header
	c.mu.Lock()
	epoch := c.epoch
	c.mu.Unlock()
	return signer.Sign(r, body, epoch, c.Now())
}

// judge decides what an answer means: nil for a proven yes, again where the request has to be sent anew.
func (c *Client) judge(a attempt) (again bool, err error) {
	if !c.proven(a) {
		if !a.signed { // the connection changed under us
			c.setMutual(false)
			return true, a.Unproven()
		}
		return false, a.Unproven()
	}
	said := c.learn(a)
	if a.Status >= 200 && a.Status < 300 {
		c.setMutual(a.chained && a.strict)
		return false, nil
	}
	refusal := a.refusal(said.Error)
	switch refusal.Code {
	case wire.CodeClockSkew, wire.CodeStaleNonce, wire.CodeReplayed:
		return true, refusal
	case wire.CodeNoIdentity:
		c.setMutual(false)
		return !a.signed, refusal
	case wire.CodeMTLSRequired:
		c.setMutual(a.signed && a.chained)
		return c.isMutual(), refusal
	}
	return false, refusal
}

func (c *Client) proven(a attempt) bool {
	if !a.signed {
		return a.chained && a.strict
	}
	for _, key := range a.identity.AnswerKeys {
		if sign.VerifyAnswer(a.Header.Get(wire.HeaderAnswer), key, a.nonce, a.Status, a.Body) == nil {
			return true
		}
	}
	return false
}

// learn takes clock and epoch from a proven answer. Its time is taken for the middle of the round trip.
func (c *Client) learn(a attempt) Facts {
	f := a.facts()
	c.LearnEpoch(f.Epoch)
	if f.Time != nil {
		c.LearnTime(f.Time.Add(c.cfg.Now().Sub(a.sent) / 2))
	}
	return f
}

// Refusal reads an answer that the caller has proven and that is not a yes.
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

// retryAfter reads the header in its form of seconds. Nothing proves it, so it counts for five minutes at most.
func retryAfter(header http.Header) int {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(seconds, 300)
}
