package region

import (
	"context"
	"encoding/base64"
	"net/url"
)

const opAllocate = "allocate"

// Acquire acquires a Ready machine for the client's user. If the answer was lost, a list by the agent name tells whether the machine was
// acquired: so each attempt needs a name of its own.
func (c *Client) Acquire(ctx context.Context, id, agentName, comment string) (Machine, error) {
	if _, err := c.to(id, request{op: opAllocate}); err != nil {
		return Machine{}, err
	}
	f := url.Values{"system_id": {id}, "agent_name": {agentName}}
	if agentName == "" {
		return Machine{}, c.fail(request{op: opAllocate, path: id}, Unreached, 0, "there is no agent name")
	}
	set(f, "comment", comment)
	return c.answered(ctx, id, request{path: pathMachines, op: opAllocate, form: f})
}

// Deployment says what is installed.
type Deployment struct {
	UserData  []byte // what the machine runs at its first start; it is not empty
	Series    string // such as ubuntu/noble; empty: MAAS's default
	AgentName string // for a machine that is not acquired yet
	Comment   string
}

// Deploy installs an acquired machine. A Ready machine is acquired at the same time. MAAS lets an admin deploy a machine that somebody else
// has acquired: the caller must know before whose it is. Deploying a machine that deploys already is a Conflict.
func (c *Client) Deploy(ctx context.Context, id string, d Deployment) (Machine, error) {
	r := request{op: "deploy", path: id}
	if len(d.UserData) == 0 {
		return Machine{}, c.fail(r, Unreached, 0, "there is no user data: the machine would never report")
	}
	f := url.Values{"user_data": {base64.StdEncoding.EncodeToString(d.UserData)}}
	set(f, "distro_series", d.Series)
	set(f, "agent_name", d.AgentName)
	set(f, "comment", d.Comment)
	return c.machine(ctx, id, request{op: r.op, form: f})
}

// Release gives a machine back. It is in Releasing or Erasing for a while, and ends in Ready, or in New if its last commissioning did not
// pass. For a machine that is Ready or releases already, it does nothing. With erase, the machine's disks are erased in their own way, or
// else with zeros all over. A setting of MAAS may erase even without erase.
func (c *Client) Release(ctx context.Context, id string, erase bool, comment string) (Machine, error) {
	f := url.Values{}
	if erase {
		f.Set("erase", "true")
		f.Set("secure_erase", "true")
	}
	set(f, "comment", comment)
	return c.machine(ctx, id, request{op: "release", form: f})
}

// Commission has MAAS look at the machine's hardware: from New, Ready, Failed commissioning and Broken. While it does, the machine is the
// user's own. If its state does not allow that, the error is a Refused, and not a Conflict.
func (c *Client) Commission(ctx context.Context, id string) (Machine, error) {
	return c.machine(ctx, id, request{op: "commission", form: url.Values{}})
}

// Abort ends what MAAS does with the machine: Commissioning, Deploying (it stays acquired), Erasing or Testing. MAAS answers with the state
// before, so Abort returns no machine: the caller must read it.
func (c *Client) Abort(ctx context.Context, id, comment string) error {
	f := url.Values{}
	set(f, "comment", comment)
	r, err := c.to(id, request{op: "abort", form: f})
	if err != nil {
		return err
	}
	return c.do(ctx, r, nothing)
}

// MarkFixed ends Broken: the machine is Ready, or Deployed if it was so before.
func (c *Client) MarkFixed(ctx context.Context, id, comment string) (Machine, error) {
	f := url.Values{}
	set(f, "comment", comment)
	return c.machine(ctx, id, request{op: "mark_fixed", form: f})
}

// set puts a text into a form, if there is one.
func set(f url.Values, name, text string) {
	if text != "" {
		f.Set(name, text)
	}
}
