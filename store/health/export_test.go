package health

import "muster/store/engine"

// DamagedSetting writes a setting whose limit is no number.
func DamagedSetting() []engine.Statement {
	return []engine.Statement{engine.Do("INSERT INTO health_rules(rule, selector, off, bound, set_at, set_by) VALUES ('gpu_hot', '', 0, 'warm', 0, '')")}
}
