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

	"muster/gateway/internal/kit/cloudsim/guest"
)

const (
	readyTime = time.Minute // for the gateway
	endTime   = 20 * time.Second
)

// play is what runs: the companies, MAAS, their machines and the gateway.
type play struct {
	dir       string
	programs  string
	companies []*company
	metal     *metal
	guests    *guest.Guests
	control   string // address
	listening []net.Listener
	gateway   *exec.Cmd
	ended     chan error // the gateway
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
	if err := errors.Join(adopt(), os.Chmod(p.dir, 0o755), os.Mkdir(machines, 0o755)); err != nil {
		return err
	}
	if p.guests, err = guest.New(machines, filepath.Join(p.programs, "muster-agent"), map[string]int{lacking: 7}); err != nil {
		return fmt.Errorf("%w: make build", err)
	}
	p.companies, p.metal = companies(p.guests), newMetal(p.guests)
	for _, c := range p.companies {
		if c.address, err = p.answer(c.sim); err != nil {
			return err
		}
	}
	if p.metal.address, err = p.answer(p.metal.sim); err != nil {
		return err
	}
	if p.control, err = p.answer(p.controls()); err != nil {
		return err
	}
	return errors.Join(p.write("key", key), p.write("maas.key", p.metal.sim.Key()))
}

// answer has a handler answer at a free port, until close.
func (p *play) answer(handler http.Handler) (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	p.listening = append(p.listening, listener)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), nil
}

// write writes a file that has a key.
func (p *play) write(name, text string) error {
	return os.WriteFile(p.path(name), []byte(text+"\n"), 0o600)
}

// open starts the gateway, and waits for it.
func (p *play) open(ctx context.Context) error {
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
			p.ended <- err
			text, _ := os.ReadFile(p.path("gateway.log"))
			return fmt.Errorf("the gateway ended (%v):\n%s", err, text)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (p *play) path(name string) string { return filepath.Join(p.dir, name) }

// controls makes machines fail. What a company or MAAS would see too, its simulator does.
func (p *play) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /machines/{id}/crash", func(w http.ResponseWriter, r *http.Request) {
		if !p.guests.Kill(r.PathValue("id")) {
			http.NotFound(w, r)
		}
	})
	for _, c := range p.companies {
		mux.Handle("/"+c.kind+"/", http.StripPrefix("/"+c.kind, c.sim.Control()))
	}
	mux.Handle("/maas/", http.StripPrefix("/maas", p.metal.control()))
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
		"--public-url", "https://"+address, "--maas-url", p.metal.url(), "--maas-key-file", p.path("maas.key"),
		"--maas-deploy-timeout", "5m")
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

// last lets happen what is due at the companies and at MAAS, until ctx ends or the gateway does.
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
			for _, c := range p.companies {
				c.sim.Tick()
			}
			p.metal.tick()
		}
	}
}

// close ends and removes all of it.
func (p *play) close() {
	if p.gateway != nil && p.gateway.Process != nil {
		_ = p.gateway.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(endTime, func() { _ = p.gateway.Process.Kill() })
		<-p.ended
		timer.Stop()
	}
	for _, listener := range p.listening {
		_ = listener.Close()
	}
	if p.guests != nil {
		p.guests.Close()
	}
	endOrphans()
	_ = os.RemoveAll(p.dir)
}
