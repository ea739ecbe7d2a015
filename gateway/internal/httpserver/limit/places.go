package limit

import (
	"errors"
	"sync"
)

// Errors of Places.Enter.
var (
	ErrOwn = errors.New("this holder has all the places that one may have")
	ErrAll = errors.New("all places are taken")
)

// Places are places that many holders take and give back. No holder gets all of them. The zero value is ready. It is safe for concurrent
// use.
type Places struct {
	mu  sync.Mutex
	all int
	by  map[string]int // by holder
}

// Enter takes some places until leave is called. One holder may have at most ofOne places, all holders together at most ofAll.
func (p *Places) Enter(holder string, some, ofOne, ofAll int) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = map[string]int{}
	}
	switch {
	case p.by[holder]+some > ofOne:
		return nil, ErrOwn
	case p.all+some > ofAll:
		return nil, ErrAll
	}
	p.add(holder, some)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.add(holder, -some)
	}, nil
}

func (p *Places) add(holder string, some int) {
	p.all += some
	if p.by[holder] += some; p.by[holder] == 0 {
		delete(p.by, holder)
	}
}
