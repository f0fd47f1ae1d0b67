// Package multicall runs one of several programs that share a file, as busybox does.
package multicall

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// Program is one of the programs.
type Program struct {
	// Run runs the program and returns its exit code. args[0] is the program's name.
	Run func(args []string) int
	// Internal programs are started by other programs and are not listed for users.
	Internal bool
}

// Dispatch runs the program named by the file or by the first argument, and returns its exit code. If neither names a
// program, it lists the programs on stderr and returns 2.
func Dispatch(programs map[string]Program, argv []string, stderr io.Writer) int {
	if len(argv) > 0 {
		if program, ok := programs[filepath.Base(argv[0])]; ok {
			return program.Run(argv)
		}
	}
	if len(argv) > 1 {
		if program, ok := programs[argv[1]]; ok {
			return program.Run(argv[1:])
		}
	}
	fmt.Fprintf(stderr, "The first argument must be one of %s\n", strings.Join(names(programs), ", "))
	return 2
}

func names(programs map[string]Program) []string {
	out := make([]string, 0, len(programs))
	for name, program := range programs {
		if !program.Internal {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
