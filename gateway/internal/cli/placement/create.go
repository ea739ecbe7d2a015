package placement

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const (
	queuePause = 2 * time.Second // between two looks at an allocation that waits
)

// files are the names of files, one for each time that the flag is given.
type files []string

// Set adds one.
func (f *files) Set(name string) error {
	*f = append(*f, name)
	return nil
}

// create is one call of alloc create.
type create struct {
	*cli.Session
	wish  api.NewAllocation
	flags struct {
		Tenant, Note, MaxPrice, Priority, User, Launch string
		SSHKeys                                        files         `flag:"ssh-key"`
		TTL                                            time.Duration `flag:"ttl,seconds"`
		DryRun, Wait, Sudo, Yes                        bool
	}
}

func allocCreate(ctx context.Context, s *cli.Session) error {
	c := &create{Session: s}
	if err := c.read(); err != nil {
		return err
	}
	if err := s.AskTenant(ctx, c.wish.Tenant); err != nil {
		return err
	}
	if c.wish.Rent && !c.wish.DryRun && !c.flags.Yes && s.Interactive() {
		if err := c.agree(ctx); err != nil {
			return err
		}
	}
	a, err := c.send(ctx)
	if err == nil && a.State == api.AllocationWaiting && c.wish.Wait && !c.wish.DryRun {
		a, err = c.await(ctx, a)
	}
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		return s.WriteJSON(a)
	case c.wish.DryRun:
		return c.plan(a)
	}
	show(s, a)
	if a.State == api.AllocationWaiting {
		s.Say(next(a.ID))
	}
	return nil
}

// read makes the request from the flags. Its id is chosen here, so that a request whose answer got lost can be made again without a second
// allocation.
func (c *create) read() error {
	f, w := &c.flags, &c.wish
	if err := c.Flags.Into(f, &w.Wish); err != nil {
		return err
	}
	if (w.SKU == "") == (w.GPU == "") {
		return cli.Usagef("--gpu h100 --count 2, or --sku NAME; muster sku ls shows what there is", "what is to be allocated: a SKU or GPUs?")
	}
	w.ID, w.Tenant, w.Note = wire.NewTaskID(), f.Tenant, f.Note
	w.TTLSeconds, w.Wait, w.DryRun = int(f.TTL/time.Second), f.Wait, f.DryRun
	var err error
	if f.Priority != "" {
		if c.wish.Priority, err = strconv.Atoi(f.Priority); err != nil {
			return c.Flags.Wrong("priority", "write a whole number from -100 to 100", "")
		}
	}
	if f.MaxPrice != "" {
		price, err := strconv.ParseFloat(f.MaxPrice, 64)
		if err != nil || !(price > 0) || math.IsInf(price, 0) {
			return c.Flags.Wrong("max-price", "write a price such as 4.50", "")
		}
		c.wish.MaxPrice = &price
	}
	if c.wish.User, err = c.user(); err == nil && f.Launch != "" {
		c.wish.Launch, err = c.launch()
	}
	return err
}

// launch is what each node runs as soon as it is allocated: a container if the params name an image, else a program.
func (c *create) launch() (*api.Launch, error) {
	raw, err := c.ReadFile(c.flags.Launch)
	if err != nil {
		return nil, fmt.Errorf("read the params of the workload: %w", err)
	}
	var params map[string]json.RawMessage
	if err := sign.DecodeStrict(raw, &params); err != nil {
		return nil, c.Flags.Wrong("launch", `the file holds one JSON object, such as {"name":"train","command":["python","train.py"]}`,
			err.Error())
	}
	launch := &api.Launch{Type: wire.TaskWorkloadProcess, Params: raw}
	if _, isContainer := params["image"]; isContainer {
		launch.Type = wire.TaskWorkloadLaunch
	}
	return launch, nil
}

// user is the account that the owner gets on each node; nil: none is asked for.
func (c *create) user() (*api.AllocationUser, error) {
	f := &c.flags
	switch {
	case f.User == "" && (len(f.SSHKeys) > 0 || f.Sudo):
		return nil, cli.Usagef("add --user NAME", "a key and sudo are a user's, and there is none")
	case f.User == "":
		return nil, nil
	case len(f.SSHKeys) == 0:
		return nil, cli.Usagef("--ssh-key ~/.ssh/id_ed25519.pub", "the user %s needs a public key to log in with", f.User)
	}
	user := &api.AllocationUser{Name: f.User, Sudo: f.Sudo}
	for _, name := range f.SSHKeys {
		raw, err := c.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the public key: %w", err)
		}
		keys, err := publicKeys(name, string(raw))
		if err != nil {
			return nil, err
		}
		user.Keys = append(user.Keys, keys...)
	}
	return user, nil
}

// publicKeys are the keys of a file, one a line. A private key never leaves this machine.
func publicKeys(name, text string) (keys []string, err error) {
	if strings.Contains(text, "PRIVATE KEY") {
		return nil, cli.Usagef("--ssh-key "+name+".pub", "%s is a private key, which nobody else may see", name)
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			keys = append(keys, line)
		}
	}
	if len(keys) == 0 {
		return nil, cli.Usagef("--ssh-key ~/.ssh/id_ed25519.pub", "%s holds no key", name)
	}
	return keys, nil
}

// agree says what would be rented, and asks a person, with the most that it can cost: a script has said that with its --max-price. Where
// free slots fit, nothing is rented, even if somebody else is faster.
func (c *create) agree(ctx context.Context) error {
	plan := c.wish
	plan.DryRun = true
	a, err := cli.Send[api.Allocation](ctx, c.Session, http.MethodPost, api.PathAllocations, plan)
	if err != nil {
		return err
	}
	if len(a.Slots) > 0 {
		c.wish.Rent = false
		return nil
	}
	c.Say("It waits for " + screen.Printable(waitsFor(a)) + ".")
	lasts := time.Duration(a.TTLSeconds) * time.Second
	sum := *plan.MaxPrice * lasts.Hours()
	return c.Agree(fmt.Sprintf("rent for %s (at most %s an hour: %s, and what starting and cleaning take)", screen.Age(lasts),
		screen.Price(plan.MaxPrice), screen.Money(&sum)), "rent machines")
}

// send makes the request, and makes it again where no answer came.
func (c *create) send(ctx context.Context) (api.Allocation, error) {
	a, err := cli.SendSurely[api.Allocation](ctx, c.Session, http.MethodPost, api.PathAllocations, c.wish)
	if err != nil && ctx.Err() != nil {
		return a, c.leave("Whether " + c.wish.ID + " was made is not known.")
	}
	return a, err
}

// await waits until the allocation has its GPUs, and tells each change of what it waits for.
func (c *create) await(ctx context.Context, a api.Allocation) (api.Allocation, error) {
	tell := c.Changes()
	a, err := cli.Await(ctx, c.Session, api.At(api.PathAllocation, a.ID), queuePause, a, func(a api.Allocation) bool {
		if a.State == api.AllocationWaiting {
			tell(a.ID, a.ID+" waits for "+waitsFor(a)+"; ^C leaves it in the queue")
		}
		return a.State != api.AllocationWaiting
	})
	switch {
	case ctx.Err() != nil:
		return a, c.leave(a.ID + " waits on in the queue.")
	case err == nil && a.State != api.AllocationAllocated:
		err = cli.Hinted(fmt.Sprintf("%s is %s: %s", a.ID, a.State, why(a)), "muster alloc show "+a.ID)
	}
	return a, err
}

// leave says how a person who does not wait any more looks at the allocation and gives it up.
func (c *create) leave(text string) error {
	return c.Left(text + "\n" + next(c.wish.ID))
}

// next is how a person goes on with an allocation that waits.
func next(id string) string {
	return "muster alloc show " + id + " shows it, muster alloc release " + id + " gives it up."
}

// plan prints what the allocation would get.
func (c *create) plan(a api.Allocation) error {
	if len(a.Slots) == 0 {
		text := "It would wait for "
		if !c.wish.Wait && !c.wish.Rent {
			text = "It would be refused. With --wait, it would wait for "
		}
		fmt.Fprintln(c.Stdout, text+screen.OrUnknown(waitsFor(a))+"\nNothing was done.")
		return nil
	}
	rows := append([][]string{{"wants", wants(a)}}, slotRows(a)...)
	if a.PerHour != nil {
		rows = append(rows, []string{"price", screen.Price(a.PerHour) + " an hour"})
	}
	screen.Pairs(c.Stdout, c.Screen(), rows)
	fmt.Fprintln(c.Stdout, "Nothing was allocated.")
	return nil
}
