package api

// RecordingType is the media type of a recording, asciicast v2.
const RecordingType = "application/x-asciicast"

// HeaderRecording says in the answer with a recording how much of it is there: one of the states below.
const HeaderRecording = "Muster-Recording"

// States of a recording. All that comes was verified, whatever the state.
const (
	RecordingComplete = "complete"
	RecordingLive     = "live"    // its session goes on
	RecordingCutOff   = "cut-off" // its end is missing: the gateway was killed, its disk was full, or somebody has cut the file off
	RecordingDamaged  = "damaged" // it is not as it was written, and what follows the damage is left out
)
