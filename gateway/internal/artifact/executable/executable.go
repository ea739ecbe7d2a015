// Package executable tells whether a file is a program that Linux starts on a machine that agents are built for. It reads the first bytes
// of an ELF file and trusts none of them: if the file comes from a registry, anybody may have written it.
//
// It checks what the kernel checks before it starts a program, as the System V ABI (generic part, "Object Files") has the fields, and that
// the file is not cut off. Whether the program then does what an agent does is found out on the node, where it is tried.
package executable

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Head is how many bytes of a file Check and Arch read at most. The headers of a program lie at its beginning: Go's linker puts them
// there.
const Head = 4096

// Places and sizes in a 64-bit ELF header.
const (
	headerSize  = 64
	typeAt      = 16
	machineAt   = 18
	entryAt     = 24
	programsAt  = 32 // e_phoff
	sectionsAt  = 40 // e_shoff
	programSize = 54 // e_phentsize, then e_phnum, e_shentsize and e_shnum
	entrySize   = 56 // of one program header
)

const (
	fixed       = 2 // ET_EXEC
	independent = 3 // ET_DYN, as position-independent programs are
	loaded      = 1 // PT_LOAD
	runs        = 1 // PF_X
)

// Arch returns what Go calls the machine that a program is for; "": it is no program of Linux, or agents are not built for its machine.
func Arch(head []byte) string {
	if !isELF(head) {
		return ""
	}
	switch binary.LittleEndian.Uint16(head[machineAt:]) {
	case 62:
		return "amd64"
	case 183:
		return "arm64"
	}
	return ""
}

// Check refuses a program that Linux on a machine (amd64 or arm64, as Go calls them) could not start. head holds the first Head bytes of
// the file, or all of a shorter one; size is that of the whole file in bytes. The text of the error continues a sentence that begins with
// the file's name.
func Check(head []byte, size int64, arch string) error {
	switch found := Arch(head); {
	case !isELF(head):
		return errors.New("is no 64-bit ELF program")
	case found != arch && found != "":
		return fmt.Errorf("is built for another machine: linux/%s", found)
	case found == "":
		return errors.New("is built for another machine")
	}
	if kind := binary.LittleEndian.Uint16(head[typeAt:]); kind != fixed && kind != independent {
		return errors.New("is no program, but a part of one")
	}
	if err := checkSegments(head, size); err != nil {
		return err
	}
	begin := binary.LittleEndian.Uint64(head[sectionsAt:])
	each := uint64(binary.LittleEndian.Uint16(head[programSize+4:]))
	count := uint64(binary.LittleEndian.Uint16(head[programSize+6:]))
	if begin > 0 && !within(begin, each*count, size) {
		return cutOff(size)
	}
	return nil
}

// isELF accepts the head of a 64-bit little-endian ELF file.
func isELF(head []byte) bool {
	return len(head) >= headerSize && string(head[:7]) == "\x7fELF\x02\x01\x01"
}

// checkSegments looks at what the kernel loads: all of it must be in the file, and the program must begin in a part that may run.
func checkSegments(head []byte, size int64) error {
	begin := binary.LittleEndian.Uint64(head[programsAt:])
	count := uint64(binary.LittleEndian.Uint16(head[programSize+2:]))
	if count == 0 || binary.LittleEndian.Uint16(head[programSize:]) != entrySize || begin < headerSize {
		return errors.New("is no program: it has nothing to load")
	}
	if !within(begin, count*entrySize, int64(len(head))) {
		if size <= int64(len(head)) {
			return cutOff(size)
		}
		return fmt.Errorf("is no program: its headers do not lie in its first %d bytes", Head)
	}
	entry := binary.LittleEndian.Uint64(head[entryAt:])
	starts := false
	for i := range count {
		h := head[begin+i*entrySize:]
		if binary.LittleEndian.Uint32(h) != loaded {
			continue
		}
		at, length := binary.LittleEndian.Uint64(h[8:]), binary.LittleEndian.Uint64(h[32:])
		if !within(at, length, size) {
			return cutOff(size)
		}
		from := binary.LittleEndian.Uint64(h[16:])
		starts = starts || binary.LittleEndian.Uint32(h[4:])&runs != 0 && entry >= from && entry-from < length
	}
	if !starts {
		return errors.New("is no program: it does not say where it begins")
	}
	return nil
}

// within tells whether a range lies in so many bytes.
func within(at, length uint64, size int64) bool {
	return at <= uint64(size) && length <= uint64(size)-at
}

func cutOff(size int64) error {
	return fmt.Errorf("is cut off or damaged: its headers name more than its %d bytes", size)
}
