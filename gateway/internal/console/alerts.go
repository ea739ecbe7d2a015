package console

import (
	"fmt"

	"muster/gateway/api"
	"muster/gateway/internal/console/form"
	"muster/gateway/internal/health/alert"
)

type alertsPage struct {
	Alerts     []api.Alert
	More       int // that are not listed
	All        bool
	Silences   []api.AlertSilence
	Receivers  []api.AlertReceiver
	Fleet      bool // receivers are shown
	Kinds      []string
	Severities []string
	Made       *api.AlertReceiver // a new webhook, whose secret is shown once
	Tried      *trial
}

// trial is how a test of a receiver went.
type trial struct {
	Receiver string
	api.AlertTest
}

// showAlerts shows receivers to accounts of all tenants.
func (v *visit) showAlerts() (page, error) {
	data := alertsPage{All: v.Set("all"), Fleet: v.session.Account.Tenant == "",
		Kinds: alert.Kinds(), Severities: api.Severities()}
	shown := page{name: "alerts", title: "Alerts", section: "alerts"}
	list, err := get[api.AlertList](v, api.PathAlerts, api.AlertFilter{All: data.All, Selector: v.Asked("selector")})
	if err != nil {
		return shown, err
	}
	data.Alerts = list.Alerts
	data.More = list.Total - len(list.Alerts)
	silences, err := get[api.AlertSilenceList](v, api.PathSilences, nil)
	if err != nil {
		return shown, err
	}
	data.Silences = silences.Silences
	if data.Fleet {
		receivers, err := get[api.AlertReceiverList](v, api.PathReceivers, nil)
		if err != nil {
			return shown, err
		}
		data.Receivers = receivers.Receivers
	}
	shown.data = data
	return shown, nil
}

const alertsPath = api.PathConsole + "alerts"

func (v *visit) silenceAlerts() (page, error) {
	length, err := v.duration("for")
	if err != nil {
		return page{}, err
	}
	return page{to: alertsPath}, v.do("POST", api.PathSilences, api.AlertSilenceRequest{Node: v.field("node"), Selector: v.field("selector"),
		Cause: v.field("cause"), Tenant: v.field("tenant"), For: length, Reason: v.field("reason")})
}

func (v *visit) endSilence() (page, error) {
	return page{to: alertsPath}, v.do("DELETE", api.At(api.PathSilence, v.r.PathValue("silence")), nil)
}

// addReceiver answers with the page itself where there is a secret to show: a redirect could not carry it.
func (v *visit) addReceiver() (page, error) {
	q := api.AlertReceiverRequest{Kind: v.field("kind"), URL: v.field("url"), Token: v.field("token"), Selector: v.field("selector"),
		Severity: v.field("severity")}
	q.Causes = form.Words(v.field("causes"))
	made, err := send[api.AlertReceiver](v, "PUT", api.At(api.PathReceiver, v.field("name")), q)
	v.r.Form.Del("url") // they are secrets: the page must not show them again
	v.r.Form.Del("token")
	if err != nil {
		return page{}, err
	}
	if made.Secret == "" {
		return page{to: alertsPath}, nil
	}
	return v.alertsWith(func(data *alertsPage) { data.Made = &made })
}

func (v *visit) testReceiver() (page, error) {
	name := v.r.PathValue("receiver")
	tried, err := send[api.AlertTest](v, "POST", api.At(api.PathReceiverTest, name), nil)
	if err != nil {
		return page{}, err
	}
	return v.alertsWith(func(data *alertsPage) { data.Tried = &trial{name, tried} })
}

// alertsWith is the page with something to say once.
func (v *visit) alertsWith(add func(*alertsPage)) (page, error) {
	shown := once(v, (*visit).showAlerts, add)
	v.r.Form = nil
	return shown, nil
}

func (v *visit) dropReceiver() (page, error) {
	name := v.r.PathValue("receiver")
	return v.perform(deed{question{Title: "Remove the receiver " + name + "?", Button: "Remove " + name, Danger: true, Back: alertsPath,
		Says: []string{fmt.Sprintf("%s is told of no alert any more.", name), "Its address is forgotten: to add it again you need the URL."}},
		"DELETE", api.At(api.PathReceiver, name), nil}, "alerts")
}
