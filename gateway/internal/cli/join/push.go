package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const (
	pushTTL      = 15 * time.Minute // of the token that is minted for one box, unless --timeout is longer
	pushTimeout  = 5 * time.Minute
	pushParallel = 8
	afterwards   = 10 * time.Second // for taking a token back, or a folder away, when the time of a box is up
)

// PushCommands returns the command that joins machines over the system's own ssh.
func PushCommands() []cli.Command {
	return []cli.Command{{Name: "push", Args: "[HOST[:PORT][=NAME]...]", Most: -1, Run: pushNodes,
		Flags: []string{"hosts", "port", "identity", "tenant", "label", "gpus", "name", "provider", "instance-id", "gateway", "force", "timeout",
			"yes"},
		Summary: "join machines over ssh",
		Text: "Copies the agent to each machine over this system's ssh, joins it, and shows what it says as it says it. HOST is " +
			"user@address, or a name of your ssh configuration: keys, agents, jump hosts and the checking of host keys are ssh's own. " +
			"=NAME is the name of its node, :PORT the port of its ssh. --hosts FILE has one such machine a line, and # begins a comment; - is " +
			"standard input. If a line is wrong, the command names it and pushes to none. " +
			"The machine needs a POSIX shell with its usual tools (uname, mktemp, chmod, cat, rm) and no sftp, and the user need not be root.\n\n" +
			"Each machine gets an enrollment token of its own, for one use. It goes through ssh's standard input, stands in no argument " +
			"and no file, and is revoked when the machine does not join. Several machines are joined at the same time; ssh asks " +
			"nothing then, so their host keys must be known and their keys loaded. What several machines note alike is said once, at the end. " +
			"Exit code 0 means that all are online.\n\n" + cli.TenantText,
		Examples: []string{"muster push root@203.0.113.7 -p 39467 --tenant platform",
			"muster push 10.0.0.7=gpu-7 10.0.0.8=gpu-8 --tenant platform --label rack=7",
			"muster push --hosts boxes.txt --tenant platform",
			"muster push root@ssh4.vast.ai -p 39467 -i ~/.ssh/vast --provider vast_ai --instance-id 39467543 --name vast-h100",
			"muster push ubuntu@2001:db8::7 --gateway https://10.0.0.5:7443"}}}
}

// push is one call of the command: the same for every box.
type push struct {
	*cli.Session
	gateway api.Gateway
	boxes   []box
	token   api.TokenRequest // without the name of a node: labels and tenant are in it, so that the box cannot change them
	join    []string         // flags for the agent's join, without the token and the name
	ssh     []string         // options of ssh
	port    string           // of ssh, where a box has none of its own; "": as ssh's configuration says
	single  bool             // one box: its ssh may ask the person for a password
	flags   struct {
		Timeout           time.Duration
		Gateway, Provider string
		InstanceID        string `flag:"instance-id"`
		Force             bool
		Identity          string
		Port              int
	}
}

// pushNodes carries the agent to boxes over the system's own ssh and joins them, pushParallel of them at once. Each box has its own
// time, which begins when its turn comes.
func pushNodes(ctx context.Context, s *cli.Session) error {
	all, err := boxes(s)
	if err != nil {
		return err
	}
	p, err := newPush(ctx, s, all)
	if err != nil {
		return err
	}
	return p.summary(ctx, p.run(ctx))
}

// run joins all boxes, and returns what came of each.
func (p *push) run(ctx context.Context) []error {
	results := make([]error, len(p.boxes))
	out := &terminal{to: p.Stdout}
	cli.AtOnce(len(p.boxes), pushParallel, func(i int) {
		bounded, cancel := context.WithTimeout(ctx, p.flags.Timeout)
		defer cancel()
		results[i] = p.one(bounded, p.boxes[i], out.of(p.boxes[i].text, p.single))
	})
	out.tellNotes()
	return results
}

// newPush checks all that can be checked without a box: a wrong flag must not leave some boxes joined and others not.
func newPush(ctx context.Context, s *cli.Session, all []box) (p *push, err error) {
	p = &push{Session: s, boxes: all, single: len(all) == 1}
	p.flags.Timeout = pushTimeout
	if err := p.Flags.Into(&p.flags, &p.token); err != nil {
		return nil, err
	}
	p.token.Uses = 1
	p.token.TTL = api.Duration(max(pushTTL, p.flags.Timeout+time.Minute))
	p.token.Gateway = "" // the box gets no printed command
	if err := p.sshFlags(); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("ssh"); err != nil {
		return nil, errors.New("ssh is not on this machine; install openssh-client, or copy muster-agent by hand and run its join there")
	}
	if p.gateway, err = cli.Get[api.Gateway](ctx, p.Session, api.PathGateway, nil); err != nil {
		return nil, err
	}
	if err := p.joinFlags(); err != nil {
		return nil, err
	}
	return p, s.AskTenant(ctx, p.token.Tenant)
}

// joinFlags are the flags of the agent's join. They always have the root's pin, whatever certificate the gateway shows: the agent compares
// the pin with the roots in the proven welcome.
func (p *push) joinFlags() error {
	gateway := p.gateway.URL
	if given := p.flags.Gateway; given != "" {
		u, err := url.Parse(given)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return cli.Usagef("write --gateway https://10.0.0.5:7443", "%s %q is no URL", p.Flags.Source("gateway"), given)
		}
		gateway = given
	} else if onlyHere(gateway) {
		fmt.Fprintf(p.Stderr, "note: the gateway's public URL is %s, which no other machine can reach. Give another with --gateway URL, "+
			"or for good with muster serve --public-url URL\n", screen.Printable(gateway))
	}
	p.join = []string{"--gateway", gateway}
	if p.flags.Force {
		p.join = append(p.join, "--force")
	}
	if p.gateway.RootPin != "" {
		p.join = append(p.join, "--root-pin", p.gateway.RootPin)
	}
	for _, one := range [][2]string{{"provider", p.flags.Provider}, {"instance-id", p.flags.InstanceID}} {
		if one[1] == "" {
			continue
		}
		if !p.single && one[0] != "provider" {
			return cli.Usagef("push one at a time to give each its own", "%s is for one machine, and there are %d", p.Flags.Source(one[0]),
				len(p.boxes))
		}
		p.join = append(p.join, "--"+one[0], one[1])
	}
	return nil
}

// onlyHere tells whether a URL leads every other machine to itself.
func onlyHere(gateway string) bool {
	u, err := url.Parse(gateway)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// one joins one box: look, copy, join. The token is minted once the box was reached and there is an agent for its platform.
func (p *push) one(ctx context.Context, to box, out *screen.Lines) error {
	defer out.End()
	platform, dir, err := p.look(ctx, to)
	if broken(err) {
		return &unreached{err}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: reached, copying the agent to %s\n", platform, dir)
	if err := p.copy(ctx, to, platform, dir); err != nil {
		return errors.Join(err, p.clean(ctx, to, dir))
	}
	request := p.token
	request.Name = to.name
	request.Tenant = cmp.Or(to.tenant, request.Tenant)
	request.GPUs = cmp.Or(to.gpus, request.GPUs)
	minted, err := cli.Send[api.NewToken](ctx, p.Session, "POST", api.PathTokens, request)
	if err != nil {
		return errors.Join(err, p.clean(ctx, to, dir))
	}
	joined := p.joinBox(ctx, to, dir, minted.Token, out)
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer cancel()
	err = errors.Join(joined, p.settle(late, minted.ID, request.Tenant, joined != nil))
	if broken(joined) { // else the box has removed the folder itself
		err = errors.Join(err, p.clean(ctx, to, dir))
	}
	return err
}

// unreached is why ssh did not get onto a box.
type unreached struct{ error }

func (u *unreached) Unwrap() error { return u.error }

// settle ends a token that was not used, because the box did not join or had joined before.
func (p *push) settle(ctx context.Context, id, tenant string, failed bool) error {
	if !failed {
		list, err := cli.Get[api.TokenList](ctx, p.Session, api.PathTokens, api.ListFilter{Tenant: tenant})
		live := err != nil // an account that may mint tokens need not be one that may list them
		for _, t := range list.Tokens {
			live = live || t.ID == id
		}
		if !live {
			return nil
		}
	}
	if err := cli.Drop(ctx, p.Session, api.At(api.PathToken, id), nil); err != nil {
		return cli.Hinted(fmt.Sprintf("the token %s is still good: %s", id, err), "end it with muster token revoke "+id)
	}
	return nil
}

// joinBox runs the agent's join with the token on its standard input. Both its outputs are one stream, so that what it says is shown in
// order.
func (p *push) joinBox(ctx context.Context, to box, dir, token string, out io.Writer) error {
	agent := quote(dir + "/muster-agent")
	words := []string{"chmod 700", agent, "&&", agent, "join"}
	flags := slices.Concat(p.join, to.join)
	if to.name != "" {
		flags = append(flags, "--name", to.name)
	}
	for _, flag := range append(flags, "--token-file", "-") {
		words = append(words, quote(flag))
	}
	script := strings.Join(words, " ") + " 2>&1; code=$?; rm -rf " + quote(dir) + "; exit $code"
	_, err := p.remote(ctx, to, script, strings.NewReader(token+"\n"), out)
	return err
}

// summary says what failed and why, and of several boxes how many joined. It fails when one box did not join.
func (p *push) summary(ctx context.Context, results []error) error {
	joined := 0
	for i, err := range results {
		if err == nil {
			joined++
			continue
		}
		p.tell(ctx, p.boxes[i].text, err)
	}
	if !p.single {
		fmt.Fprintf(p.Stdout, "%s: %d joined, %d failed\n", screen.Plural(len(results), "machine"), joined, len(results)-joined)
	}
	if joined < len(results) {
		return cli.ErrReported
	}
	return nil
}

// tell prints what a box said, unless it was printed before, and then why it did not join.
func (p *push) tell(ctx context.Context, host string, err error) {
	var remote *remoteError
	if !errors.As(err, &remote) {
		p.Trouble(ctx, host, err)
		return
	}
	if len(remote.said) > 1 {
		for _, line := range remote.said {
			fmt.Fprintf(p.Stderr, "  %s: %s\n", host, screen.Printable(line))
		}
	}
	p.Report(host+": "+strings.ReplaceAll(err.Error(), "\n", "; "), remote.hint)
}

// sshFlags are the options of ssh. The user's own configuration says how to connect and whom to trust; what it would add to a
// session, such as forwarded ports and agents, is turned off.
func (p *push) sshFlags() error {
	p.ssh = []string{"-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15", "-o", "ClearAllForwardings=yes", "-o", "ForwardAgent=no",
		"-o", "ForwardX11=no", "-o", "PermitLocalCommand=no", "-o", "RemoteCommand=none"}
	if !p.single {
		p.ssh = append(p.ssh, "-o", "BatchMode=yes") // nobody can answer questions of several boxes at once
	}
	if key := p.flags.Identity; key != "" {
		if _, err := os.Stat(key); err != nil {
			return fmt.Errorf("the key that --identity names: %w", err)
		}
		p.ssh = append(p.ssh, "-i", key)
	}
	if p.flags.Port > 0 {
		p.port = fmt.Sprint(p.flags.Port)
	}
	return nil
}
