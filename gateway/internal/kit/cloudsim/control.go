package cloudsim

import (
	"encoding/json"
	"net/http"
)

// Control lets a person play with a simulator that is a process of its own. It stands beside the company's API, and wants no key.
//
//	GET    /machines              all machines that ever were
//	POST   /machines/{id}/{what}  kill, lose, recover, remove or overbid
//	POST   /faults                a Fault
//	DELETE /faults                heals all
func (s *Sim) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /machines", func(w http.ResponseWriter, _ *http.Request) {
		Answer{Body: s.Machines()}.write(w, "")
	})
	acts := map[string]func(id string) bool{
		"kill": s.Kill, "lose": s.Lose, "recover": s.Recover, "remove": s.Remove, "overbid": s.Overbid,
	}
	mux.HandleFunc("POST /machines/{id}/{what}", func(w http.ResponseWriter, r *http.Request) {
		if act := acts[r.PathValue("what")]; act == nil || !act(r.PathValue("id")) {
			http.NotFound(w, r)
		}
	})
	mux.HandleFunc("POST /faults", func(w http.ResponseWriter, r *http.Request) {
		var f Fault
		if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.Add(f)
	})
	mux.HandleFunc("DELETE /faults", func(http.ResponseWriter, *http.Request) { s.Heal() })
	return mux
}
