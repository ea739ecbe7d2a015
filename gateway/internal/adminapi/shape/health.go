package shape

import (
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/health"
	records "muster/store/health"
)

// Finding is a finding as the API shows it.
func Finding(f health.Finding) api.Finding {
	return api.Finding{Rule: f.Rule.Name, Severity: f.Rule.Severity, GPU: f.GPU, Since: f.Since.UTC(), Text: f.Text, Next: f.Rule.Next,
		Topic: f.Rule.Topic, Old: f.Old}
}

// Rule is a rule of health, with its settings.
func Rule(r health.RuleView) api.HealthRule {
	out := api.HealthRule{Rule: r.Name, Severity: r.Severity, Subject: "node", Meaning: r.Meaning, Next: r.Next, Topic: r.Topic,
		Unit: r.Unit, FoundAfterSeconds: int(r.Found.For / time.Second), CuredAfterSeconds: int(r.Cured.For / time.Second)}
	if r.GPU {
		out.Subject = "gpu"
	}
	if r.Limit != 0 {
		out.Limit = &r.Limit
	}
	out.Settings = Each(r.Settings, func(s records.Setting) api.HealthSetting {
		return api.HealthSetting{Selector: s.Selector, Off: s.Off, Limit: s.Limit, For: api.Duration(s.For), SetAt: s.SetAt.UTC(), SetBy: s.SetBy}
	})
	return out
}
