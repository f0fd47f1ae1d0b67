package cmd

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// releasePages gives back the memory with those parts of the program's file that only its beginning needed. The program is large, and each of its packages
// is set up at the start of each of its commands; one that stays needs little of it. What is needed again is read again, from the file or what the
// system has kept of it. It is an attempt: what cannot be found out is left alone.
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

// unchangedAreas are those parts of a process's memory, by the text of its /proc/PID/smaps, that show a file as it is. A part with anything of the process's
// own in it is none of them: that would be lost. Nor is one that could be written.
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

// unwritable is the area that the first line about it describes, if it shows the file and cannot be written.
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
