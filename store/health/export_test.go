package health

import "muster/store/sqlite"

// DamagedSetting writes a setting whose limit is no number.
func DamagedSetting() []sqlite.Statement {
	return []sqlite.Statement{sqlite.Do("INSERT INTO health_rules(rule, selector, off, bound, set_at, set_by) VALUES ('gpu_hot', '', 0, 'warm', 0, '')")}
}
