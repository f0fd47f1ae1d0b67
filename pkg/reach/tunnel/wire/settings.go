package wire

import (
	"encoding/binary"
	"fmt"
	"net"
)

// LimitFrames returns a connection over HTTP/2 whose reads fail when the other side asks for frames of more than
// frameSize. HTTP/2 of net/http has a buffer of that size, up to 512 KiB, for each request with a body of unknown
// length: for each exec and port-forward, even without data. No agent of Drover asks for more.
func LimitFrames(conn net.Conn) net.Conn { return &limitedFrames{Conn: conn} }

// limitedFrames reads frames. The parts of a head or a setting may come with different reads.
type limitedFrames struct {
	net.Conn
	part     []byte // begun head, or begun setting
	skip     int    // bytes of a frame that do not matter
	settings int    // bytes of settings that follow
}

// Parts of a frame (RFC 9113, sections 4.1, 6.5 and 6.5.2).
const (
	frameHead        = 9
	frameOfSettings  = 4
	settingLength    = 6
	settingFrameSize = 5
)

// Read implements net.Conn.
func (l *limitedFrames) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if refused := l.inspect(p[:n]); refused != nil {
		return 0, refused
	}
	return n, err
}

func (l *limitedFrames) inspect(p []byte) error {
	for len(p) > 0 {
		if l.skip > 0 {
			n := min(l.skip, len(p))
			l.skip -= n
			p = p[n:]
			continue
		}
		whole := frameHead
		if l.settings > 0 {
			whole = min(settingLength, l.settings)
		}
		n := min(whole-len(l.part), len(p))
		l.part = append(l.part, p[:n]...)
		p = p[n:]
		if len(l.part) < whole {
			return nil
		}
		if err := l.take(); err != nil {
			return err
		}
	}
	return nil
}

// take evaluates a complete head or setting.
func (l *limitedFrames) take() error {
	part := l.part
	l.part = l.part[:0]
	if l.settings == 0 {
		length := int(part[0])<<16 | int(part[1])<<8 | int(part[2])
		if part[3] == frameOfSettings {
			l.settings = length
		} else {
			l.skip = length
		}
		return nil
	}
	l.settings -= len(part)
	if len(part) < settingLength || binary.BigEndian.Uint16(part) != settingFrameSize {
		return nil
	}
	if size := binary.BigEndian.Uint32(part[2:]); size > frameSize {
		return fmt.Errorf("the agent asks for frames of %d bytes, more than %d", size, frameSize)
	}
	return nil
}
