package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// consoleEnd is the size in bytes of the returned end of a console.
const consoleEnd = 16 << 10

// Console returns the end of a machine's console output, oldest first, including earlier boots.
func (l *Lab) Console(machine string) ([]byte, error) {
	file, err := os.Open(filepath.Join(l.folder(machine), "console.log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, machine)
	}
	if err != nil {
		return nil, fmt.Errorf("open console of %s: %w", machine, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read console of %s: %w", machine, err)
	}
	data, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-consoleEnd), consoleEnd))
	if err != nil {
		return nil, fmt.Errorf("read console of %s: %w", machine, err)
	}
	if info.Size() > consoleEnd {
		_, data, _ = bytes.Cut(data, []byte("\n")) // the first line is incomplete
	}
	return data, nil
}
