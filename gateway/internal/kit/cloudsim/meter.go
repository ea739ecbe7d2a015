package cloudsim

import "time"

// hour is in milliseconds.
const hour = int64(time.Hour / time.Millisecond)

// meter adds up what a machine costs, without losing parts of a millionth.
type meter struct {
	at   time.Time // until when it has been added up
	sum  int64     // millionths of a dollar
	rest int64     // millionths of a dollar by milliseconds, less than an hour's
}

// until adds what the time until a moment costs.
func (m *meter) until(at time.Time, rate int64) {
	ms := at.Sub(m.at).Milliseconds()
	if ms <= 0 {
		return
	}
	m.at = m.at.Add(time.Duration(ms) * time.Millisecond)
	m.rest += ms * rate
	m.sum += m.rest / hour
	m.rest %= hour
}
