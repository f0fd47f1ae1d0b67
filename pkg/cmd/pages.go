package cmd

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// releasePages releases the memory of those parts of the program's file that only the start needed. The program is
// large, and every command initializes all of its packages. A long-running command needs little of it. The system reads
// released parts again when they are needed, from the file or its page cache. On errors it does nothing.
func releasePages() {
	program, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return
	}
	for _, area := range unchangedAreas(string(maps), program) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, area.start, area.end-area.start, syscall.MADV_DONTNEED)
	}
}

// area is a part of the process's memory.
type area struct{ start, end uintptr }

// unchangedAreas returns the read-only areas of a process that map the file without changes. smaps is the text of its
// /proc/PID/smaps. It excludes areas with private pages, because their content would be lost.
func unchangedAreas(smaps, file string) []area {
	var found []area
	var candidate *area
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if !strings.HasSuffix(fields[0], ":") {
			candidate = unwritable(fields, file)
		}
		if candidate != nil && fields[0] == "Anonymous:" && len(fields) > 1 && fields[1] == "0" {
			found = append(found, *candidate)
		}
	}
	return found
}

// unwritable returns the area that the header line of an smaps entry describes. It returns nil if the area is writable
// or maps another file.
func unwritable(fields []string, file string) *area {
	const permissions, path = 1, 5
	if len(fields) != path+1 || fields[path] != file || strings.Contains(fields[permissions], "w") {
		return nil
	}
	from, to, _ := strings.Cut(fields[0], "-")
	start, err := strconv.ParseUint(from, 16, strconv.IntSize)
	if err != nil {
		return nil
	}
	end, err := strconv.ParseUint(to, 16, strconv.IntSize)
	if err != nil || end <= start {
		return nil
	}
	return &area{uintptr(start), uintptr(end)}
}
