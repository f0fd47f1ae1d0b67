package connect

import (
	"errors"
	"io"
	"sync"
)

// endWith returns a stream that also ends normally when a channel is closed. So a watch ends without an error.
func endWith(ending <-chan struct{}, stream io.ReadCloser) io.ReadCloser {
	closed := make(chan struct{})
	// Close once: on each close, HTTP/2 returns the window of unread data to its connection.
	s := &endingStream{stream, ending, sync.OnceValue(func() error {
		close(closed)
		return stream.Close()
	})}
	go func() {
		select {
		case <-ending:
			_ = s.end() // unblocks a waiting read
		case <-closed:
		}
	}()
	return s
}

type endingStream struct {
	io.ReadCloser
	ending <-chan struct{}
	end    func() error
}

func (s *endingStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		select {
		case <-s.ending:
			err = io.EOF
		default:
		}
	}
	return n, err
}

func (s *endingStream) Close() error { return s.end() }
