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
	// Run runs it with its own arguments; args[0] is its name. It returns the exit code.
	Run func(args []string) int
	// Internal programs are started by the others and not offered to people.
	Internal bool
}

// Dispatch runs the program that argv asks for, by the name the file was started under or by the first argument, and
// returns its exit code. When there is none it says on stderr which there are and returns 2.
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
