package executable

// This file makes small programs for the tests of what carries, stores and hands out agents.

import "encoding/binary"

// Least returns the smallest file that counts as a program of Linux for a machine (amd64 or arm64, as Go calls them; any other arch gives a
// machine that no agent is for): an ELF header, one segment, and some text in it. No kernel could run it.
func Least(arch, text string) []byte {
	const headers, base = 64 + 56, 0x400000
	b := make([]byte, headers, headers+1+len(text))
	b = append(append(b, 0xc3), text...)
	copy(b, "\x7fELF\x02\x01\x01")
	b[16], b[18], b[20] = 2, machine(arch), 1  // ET_EXEC, the machine, the version
	little := binary.LittleEndian              //
	little.PutUint64(b[24:], base+headers)     // where it begins
	b[32], b[52], b[54], b[56] = 64, 64, 56, 1 // where the one program header is, and the sizes
	b[64], b[68] = 1, 5                        // PT_LOAD, readable and executable
	little.PutUint64(b[80:], base)             // address
	little.PutUint64(b[96:], uint64(len(b)))   // bytes in the file
	little.PutUint64(b[104:], uint64(len(b)))  // bytes in memory
	return b
}

// machine is e_machine of ELF.
func machine(arch string) byte {
	switch arch {
	case "amd64":
		return 62
	case "arm64":
		return 183
	}
	return 22 // s390x
}
