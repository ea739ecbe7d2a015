package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"muster/gateway/internal/kit/cloudsim"
	"muster/gateway/internal/kit/cloudsim/guest"
	"muster/gateway/internal/kit/cloudsim/vast"
)

const (
	key       = "key-of-the-demo"
	readyTime = time.Minute // for the gateway
	endTime   = 20 * time.Second
)

// hosts are what the company rents out. One of 8 GPUs has 7 of them only, so it does not pass acceptance.
func hosts() (all []vast.Host, gpus map[string]int) {
	add := func(count int, of vast.Host) {
		for range count {
			of.ID = int64(len(all)) + 101
			all = append(all, of)
			of.Price += of.Price / 50
		}
	}
	add(6, vast.Host{GPU: "H100 SXM", GPUs: 1, MiB: 81559, Price: 2_010_000, MinBid: 1_200_000, Disk: 150, Place: "Prague, CZ"})
	add(2, vast.Host{GPU: "H100 SXM", GPUs: 1, MiB: 81559, Price: 2_650_000, Disk: 150, Place: "Oregon, US"})
	add(3, vast.Host{GPU: "H100 SXM", GPUs: 8, MiB: 81559, Price: 16_400_000, Disk: 150, Place: "Oregon, US"})
	return all, map[string]int{"109": 7}
}

// play is what runs: the company, its machines and the gateway.
type play struct {
	dir      string
	programs string
	company  *vast.Sim
	guests   *guest.Guests
	api      net.Listener
	control  net.Listener
	gateway  *exec.Cmd
	ended    chan error // the gateway
}

// openPlay prepares all of it in a folder of its own.
func openPlay(programs string) (*play, error) {
	programs, err := filepath.Abs(programs)
	if err != nil {
		return nil, err
	}
	p := &play{programs: programs, ended: make(chan error, 1)}
	if p.dir, err = os.MkdirTemp("", "muster-demo-"); err != nil {
		return nil, err
	}
	if err := p.prepare(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *play) prepare() (err error) {
	machines := filepath.Join(p.dir, "machines")
	if err := errors.Join(adopt(), os.Chmod(p.dir, 0o755), os.Mkdir(machines, 0o755),
		os.WriteFile(filepath.Join(p.dir, "key"), []byte(key+"\n"), 0o600)); err != nil {
		return err
	}
	offered, gpus := hosts()
	if p.guests, err = guest.New(machines, filepath.Join(p.programs, "muster-agent"), gpus); err != nil {
		return fmt.Errorf("%w: make build", err)
	}
	p.company = vast.New(cloudsim.Config{Keys: map[string][]string{key: nil}, Boot: 3 * time.Second, Halt: 2 * time.Second,
		End: 3 * time.Second, Limits: true, OnStart: p.guests.Start, OnStop: p.guests.Stop, OnDestroy: p.guests.Stop}, offered...)
	if p.api, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	p.control, err = net.Listen("tcp", "127.0.0.1:0")
	return err
}

// open starts all of it, and waits for the gateway.
func (p *play) open(ctx context.Context) error {
	for listener, handler := range map[net.Listener]http.Handler{p.api: p.company, p.control: p.controls()} {
		server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(listener) }() // until the listener is closed
	}
	if err := p.serve(); err != nil {
		return err
	}
	for deadline := time.Now().Add(readyTime); ; {
		if p.muster(ctx, "provider", "ls") == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("the gateway does not answer: see %s", p.path("gateway.log"))
		}
		select {
		case err := <-p.ended:
			text, _ := os.ReadFile(p.path("gateway.log"))
			return fmt.Errorf("the gateway ended (%v):\n%s", err, text)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (p *play) path(name string) string { return filepath.Join(p.dir, name) }

// controls makes machines fail. What the company would see too, the simulator does.
func (p *play) controls() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", p.company.Control())
	mux.HandleFunc("POST /machines/{id}/crash", func(w http.ResponseWriter, r *http.Request) {
		if !p.guests.Kill(r.PathValue("id")) {
			http.NotFound(w, r)
		}
	})
	return mux
}

// serve starts the gateway on a free port.
func (p *play) serve() error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		return err
	}
	log, err := os.Create(p.path("gateway.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	p.gateway = exec.Command(filepath.Join(p.programs, "muster"), "serve", "--data", p.path("data"), "--listen", address,
		"--public-url", "https://"+address)
	p.gateway.Env, p.gateway.Stdout, p.gateway.Stderr = p.environ(), log, log
	p.gateway.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} // ^C is for this process
	if err := p.gateway.Start(); err != nil {
		return fmt.Errorf("%w: make build", err)
	}
	go func() { p.ended <- p.gateway.Wait() }()
	return nil
}

// muster runs a command for the gateway.
func (p *play) muster(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(p.programs, "muster"), append([]string{"--data", p.path("data")}, args...)...)
	cmd.Env = p.environ()
	return cmd.Run()
}

// environ is the environment without what would have a command ask another gateway.
func (p *play) environ() (env []string) {
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "MUSTER_") {
			env = append(env, entry)
		}
	}
	return env
}

func (p *play) text() string {
	return fmt.Sprintf(`A gateway runs, and a simulated vast.ai. Each machine that is rented there is an agent on this one.
In another terminal:

  cd %s; export PATH=%s:$PATH MUSTER_DATA=$PWD/data
  muster provider add vast_ai --key-file key --url http://%s
  muster rent --provider vast_ai --gpu H100 --count 3 --max-price 2.5 --ttl 1h --label batch=x --yes
  muster provider instances

A machine dies, and the company does not see that. ID is its number there, such as 1001:

  curl -X POST http://%s/machines/ID/crash
  muster provider plan
  muster node return -l batch=x --destroy --yes && muster provider plan

The company sees what is done with kill, lose, recover, remove and overbid instead of crash. The host 109 has a GPU less than it is
paid for, so another machine is rented for it:

  muster rent --provider vast_ai --gpu H100 --gpus 8 --max-price 18 --ttl 1h --yes

^C ends the demo. Its logs are in %s until then.
`, p.dir, p.programs, p.api.Addr(), p.control.Addr(), p.dir)
}

// last lets happen what is due at the company, until ctx ends or the gateway does.
func (p *play) last(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-p.ended:
			p.ended <- err
			return fmt.Errorf("the gateway ended: %w", err)
		case <-ticker.C:
			p.company.Tick()
		}
	}
}

// close ends and removes all of it.
func (p *play) close() {
	for _, listener := range []net.Listener{p.api, p.control} {
		if listener != nil {
			_ = listener.Close()
		}
	}
	if p.gateway != nil && p.gateway.Process != nil {
		_ = p.gateway.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(endTime, func() { _ = p.gateway.Process.Kill() })
		<-p.ended
		timer.Stop()
	}
	if p.guests != nil {
		p.guests.Close()
	}
	endOrphans()
	_ = os.RemoveAll(p.dir)
}
