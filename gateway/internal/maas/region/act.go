package region

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/url"
	"strings"
)

const opAllocate = "allocate"

// Acquire makes a Ready machine that of the client's user. After an answer that was lost, a list by the agent name tells whether it has
// done so: the name must be of this attempt alone.
func (c *Client) Acquire(ctx context.Context, id, agentName, comment string) (Machine, error) {
	if _, err := c.to(id, request{op: opAllocate}); err != nil {
		return Machine{}, err
	}
	f := url.Values{"system_id": {id}, "agent_name": {agentName}}
	if agentName == "" {
		return Machine{}, c.fail(request{op: opAllocate, path: id}, Unreached, 0, "there is no agent name")
	}
	comments(f, comment)
	return c.answered(ctx, id, request{path: pathMachines, op: opAllocate, form: f})
}

// Deployment says what is installed.
type Deployment struct {
	UserData  []byte // what the machine runs at its first start; it is not empty
	Series    string // such as ubuntu/noble; empty: MAAS's default
	Kernel    string // such as hwe-24.04; empty: MAAS's default
	Ephemeral bool   // into memory
	HWSync    bool   // MAAS's own agent tells of new hardware
	AgentName string // for a machine that is not acquired yet
	Comment   string
}

// Deploy installs an acquired machine. A Ready one is acquired at the same time. MAAS lets an admin deploy a machine that somebody else has
// acquired: whose it is must be known before. Deploying again what deploys already is a Conflict.
func (c *Client) Deploy(ctx context.Context, id string, d Deployment) (Machine, error) {
	r := request{op: "deploy", path: id}
	if len(d.UserData) == 0 {
		return Machine{}, c.fail(r, Unreached, 0, "there is no user data: the machine would never report")
	}
	if (d.Ephemeral || d.HWSync) && !bytes.HasPrefix(d.UserData, []byte("#!")) {
		// There MAAS sets up the network in keys of cloud-config, which ours would take the place of.
		return Machine{}, c.fail(r, Unreached, 0, "the user data is no script: the machine would lose its network")
	}
	f := url.Values{"user_data": {base64.StdEncoding.EncodeToString(d.UserData)}}
	for name, value := range map[string]string{"distro_series": d.Series, "hwe_kernel": d.Kernel, "agent_name": d.AgentName} {
		if value != "" {
			f.Set(name, value)
		}
	}
	flag(f, "ephemeral_deploy", d.Ephemeral)
	flag(f, "enable_hw_sync", d.HWSync)
	comments(f, d.Comment)
	return c.machine(ctx, id, request{op: r.op, form: f})
}

// Erasure is how a machine's disks are erased when it is released. A setting of MAAS may erase where this does not ask for it.
type Erasure string

// Erasures.
const (
	EraseNot    Erasure = ""
	EraseFull   Erasure = "full"   // zeros over the whole disk: hours
	EraseQuick  Erasure = "quick"  // 2 MiB at each end: the data can be got back
	EraseSecure Erasure = "secure" // the disk's own way, or else zeros over all of it
	// EraseSecureOrQuick is the disk's own way, or else 2 MiB at each end.
	EraseSecureOrQuick Erasure = "secure-or-quick"
)

// Release gives a machine back. It is in Releasing or Erasing for a while, and ends in Ready, or in New where its last commissioning did
// not pass. Releasing what is Ready or releases already does nothing.
func (c *Client) Release(ctx context.Context, id string, e Erasure, comment string) (Machine, error) {
	f := url.Values{}
	flag(f, "erase", e != EraseNot)
	flag(f, "quick_erase", e == EraseQuick || e == EraseSecureOrQuick)
	flag(f, "secure_erase", e == EraseSecure || e == EraseSecureOrQuick)
	comments(f, comment)
	return c.machine(ctx, id, request{op: "release", form: f})
}

// CommissionOptions say what is left out.
type CommissionOptions struct {
	KeepBMC     bool     // the settings of its power control
	KeepNetwork bool     // of its interfaces
	KeepStorage bool     // of its disks
	Tests       []string // scripts that run afterwards; empty: MAAS's default; none: no one
}

// Commission has MAAS look at the machine's hardware: from New, Ready, Failed commissioning and Broken. While it does, the machine is the
// user's own. A Refused, and no Conflict, says that its state does not allow it.
func (c *Client) Commission(ctx context.Context, id string, o CommissionOptions) (Machine, error) {
	f := url.Values{}
	flag(f, "skip_bmc_config", o.KeepBMC)
	flag(f, "skip_networking", o.KeepNetwork)
	flag(f, "skip_storage", o.KeepStorage)
	if len(o.Tests) > 0 {
		f.Set("testing_scripts", strings.Join(o.Tests, ","))
	}
	return c.machine(ctx, id, request{op: "commission", form: f})
}

// Abort ends what MAAS does with the machine: Commissioning, Deploying (it stays acquired), Erasing or Testing. MAAS's answer shows the
// state before, so there is none: the machine must be read.
func (c *Client) Abort(ctx context.Context, id, comment string) error {
	f := url.Values{}
	comments(f, comment)
	r, err := c.to(id, request{op: "abort", form: f})
	if err != nil {
		return err
	}
	return c.do(ctx, r, nothing)
}

// MarkBroken takes a machine out of use. It must be the user's own: others are Forbidden. A deployed one is powered off.
func (c *Client) MarkBroken(ctx context.Context, id, why string) (Machine, error) {
	f := url.Values{}
	comments(f, why)
	return c.machine(ctx, id, request{op: "mark_broken", form: f})
}

// MarkFixed ends Broken: the machine is Ready, or Deployed if it was so before.
func (c *Client) MarkFixed(ctx context.Context, id, comment string) (Machine, error) {
	f := url.Values{}
	comments(f, comment)
	return c.machine(ctx, id, request{op: "mark_fixed", form: f})
}

// comments puts a line for MAAS's log into a form.
func comments(f url.Values, text string) {
	if text != "" {
		f.Set("comment", text)
	}
}

func flag(f url.Values, name string, is bool) {
	if is {
		f.Set(name, "true")
	}
}
