package processkubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
)

// openLog opens a container's log. It ignores options about time, because lines have no timestamps. over returns true
// when the log is complete, which ends a follow.
func openLog(ctx context.Context, path string, options api.ContainerLogOpts, over func() bool) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil // the container has written nothing yet
	}
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if options.Tail > 0 {
		from, err := lastLines(file, options.Tail)
		if err == nil {
			_, err = file.Seek(from, io.SeekStart)
		}
		if err != nil {
			file.Close()
			return nil, fmt.Errorf("read log: %w", err)
		}
	}
	var reader io.Reader = file
	if options.Follow {
		reader = &follower{ctx: ctx, file: file, over: over}
	}
	if options.LimitBytes > 0 {
		reader = io.LimitReader(reader, int64(options.LimitBytes))
	}
	return readCloser{reader, file}, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// lastLines returns the offset of the last n lines of a file.
func lastLines(file *os.File, n int) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	const block = 32 << 10
	end, found := info.Size(), 0
	buffer := make([]byte, block)
	for position := end; position > 0; {
		size := min(int64(block), position)
		position -= size
		if _, err := file.ReadAt(buffer[:size], position); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for chunk := buffer[:size]; ; {
			i := bytes.LastIndexByte(chunk, '\n')
			if i < 0 {
				break
			}
			// The line feed at the end of the file starts no line.
			if position+int64(i) != end-1 {
				if found++; found == n {
					return position + int64(i) + 1, nil
				}
			}
			chunk = chunk[:i]
		}
	}
	return 0, nil
}

// follower reads a growing file until it is complete.
type follower struct {
	ctx  context.Context // io.Reader has no context
	file *os.File
	over func() bool
}

func (f *follower) Read(buffer []byte) (int, error) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		last := f.over()
		n, err := f.file.Read(buffer)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		if last {
			return 0, io.EOF
		}
		select {
		case <-f.ctx.Done():
			return 0, io.EOF
		case <-ticker.C:
		}
	}
}
