package console

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"strconv"

	"muster/gateway/api"
	"muster/gateway/internal/console/form"
)

type addPage struct {
	Made *api.CreatedNode // holds the token: shown once
	Env  string           // what /etc/muster/agent.env holds
}

// showAdd mints nothing: opening a page changes nothing.
func (v *visit) showAdd() (page, error) {
	return page{name: "add", title: "Add a node", section: "fleet", data: addPage{}}, nil
}

// addNode makes the node and its bootstrap token. The page itself holds the token, so there is no redirect.
func (v *visit) addNode() (page, error) {
	gpus, badGPUs := v.number("gpus")
	labels, badLabels := form.Pairs(v.field("labels"))
	if err := cmp.Or(badGPUs, badLabels); err != nil {
		return page{}, err
	}
	q := api.CreateNodeRequest{Name: v.field("name"), Tenant: v.field("tenant"), GPUs: gpus, Labels: labels, Mode: v.field("mode")}
	made, err := send[api.CreatedNode](v, "POST", api.PathNodes, q)
	if err != nil {
		return page{}, err
	}
	env := fmt.Sprintf("MUSTER_GATEWAY=%s\nMUSTER_ROOT_PIN=%s\n", v.Gateway.URL, v.Gateway.RootPin)
	return page{name: "added", title: "Add " + made.Node.Name, section: "fleet", data: addPage{&made, env}}, nil
}

// downloadScript mints a bootstrap token of its own for the script that it sends. The script holds that token, and no URL does.
func (v *visit) downloadScript() (page, error) {
	name := v.r.PathValue("node")
	made, err := send[api.BootstrapScript](v, "POST", api.At(api.PathBootstrap, name), nil)
	if err != nil {
		return page{}, err
	}
	h := v.w.Header()
	h.Set("Content-Type", api.ScriptType+"; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(made.Script)))
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": "bootstrap-" + made.Node + ".sh"}))
	v.w.WriteHeader(http.StatusOK)
	_, _ = v.w.Write([]byte(made.Script)) // the connection is gone: nobody is left to tell
	return page{sent: true}, nil
}
