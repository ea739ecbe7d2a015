package offline

// At gives an Offline that calls a function before each step of a restore.
func At(o Offline, at func(step string)) Offline {
	o.at = at
	return o
}
