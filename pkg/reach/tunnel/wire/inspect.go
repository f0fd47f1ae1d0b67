package wire

import (
	"errors"
	"fmt"
)

// Types of messages within a session (docs/wire/endpoints.md#tunnel).
const (
	messageData         = 1
	messageConnect      = 2
	messageError        = 3
	messageAddClient    = 4
	messageRemoveClient = 5
	messageSync         = 8
)

// ignored, applied with XOR to a zig-zag encoded messageSync, gives an unknown type. The library skips such a message.
const ignored = (messageSync << 1) ^ (9 << 1)

// errMalformed ends a link whose other side does not speak the protocol.
var errMalformed = errors.New("the peer does not speak the protocol of the tunnel")

// Inspector inspects incoming bytes of a session: WebSocket frames, and the heads of the messages in them. It stores
// only its position.
type Inspector struct {
	// Data is called with the number of bytes that arrived for a connection, possibly in several calls per message.
	Data func(connection int64, n int)
	// Closing is called when the other side ends a connection, before the library sees the message.
	Closing func(connection int64)

	// State of the frame.
	head      []byte // of the frame that begins; empty within its payload
	remaining uint64 // bytes of the payload
	masked    bool
	mask      [4]byte
	at        int // position in the payload, for the mask
	control   bool

	// State of the message.
	field      int // 0 to 3 are numbers of the head, 4 is the body
	value      uint64
	shift      uint
	connection int64
	kind       int64
}

// Fields of a message's head.
const (
	fieldID = iota
	fieldConnection
	fieldType
	fieldDeadline
	fieldBody
)

// longestHead is the longest head of a frame: two bytes, eight bytes of length, four bytes of mask.
const longestHead = 14

// Inspect inspects the next bytes. It changes the type of lists of connections in place, so that the library ignores
// them. An error means that the other side violates the protocol.
func (i *Inspector) Inspect(p []byte) error {
	for len(p) > 0 {
		if i.remaining == 0 {
			n, err := i.frame(p)
			if err != nil {
				return err
			}
			p = p[n:]
			continue
		}
		n := int(min(uint64(len(p)), i.remaining))
		if !i.control {
			if err := i.payload(p[:n]); err != nil {
				return err
			}
		}
		i.remaining -= uint64(n)
		p = p[n:]
	}
	return nil
}

// frame consumes bytes of a frame's head and returns their number.
func (i *Inspector) frame(p []byte) (int, error) {
	if i.head == nil {
		i.head = make([]byte, 0, longestHead)
	}
	for n, b := range p {
		i.head = append(i.head, b)
		if len(i.head) >= 2 && len(i.head) == headLength(i.head) {
			return n + 1, i.begin()
		}
	}
	return len(p), nil
}

// headLength is the length of a head, given its first two bytes.
func headLength(head []byte) int {
	n := 2
	switch head[1] & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if head[1]&0x80 != 0 {
		n += 4
	}
	return n
}

// begin starts the payload of the frame whose head is complete.
func (i *Inspector) begin() error {
	head := i.head
	i.head = head[:0]
	i.masked = head[1]&0x80 != 0
	rest := head[2:]
	if i.masked {
		copy(i.mask[:], rest[len(rest)-4:])
		rest = rest[:len(rest)-4]
	}
	i.remaining = uint64(head[1] & 0x7f)
	if len(rest) > 0 {
		i.remaining = 0
		for _, b := range rest {
			i.remaining = i.remaining<<8 | uint64(b)
		}
	}
	i.at = 0
	opcode := head[0] & 0x0f
	i.control = opcode >= 8
	if i.remaining > MaxMessage {
		return errMalformed
	}
	if !i.control && opcode != 0 {
		i.field, i.value, i.shift = fieldID, 0, 0
	}
	return nil
}

// payload consumes bytes of a message.
func (i *Inspector) payload(p []byte) error {
	for n := 0; n < len(p) && i.field != fieldBody; n++ {
		b := p[n]
		if i.masked {
			b ^= i.mask[(i.at+n)&3]
		}
		if i.shift > 63 {
			return errMalformed
		}
		i.value |= uint64(b&0x7f) << i.shift
		i.shift += 7
		if b&0x80 != 0 {
			continue
		}
		if err := i.number(&p[n]); err != nil {
			return err
		}
		if i.field == fieldBody {
			i.at += n + 1
			p = p[n+1:]
			break
		}
	}
	i.at += len(p)
	if i.field == fieldBody && i.kind == messageData && len(p) > 0 {
		i.Data(i.connection, len(p))
	}
	return nil
}

// number handles a complete number of the head. last is its last byte.
func (i *Inspector) number(last *byte) error {
	number := int64(i.value>>1) ^ -int64(i.value&1)
	i.value, i.shift = 0, 0
	i.field++
	switch i.field - 1 {
	case fieldConnection:
		i.connection = number
	case fieldType:
		i.kind = number
		if number != messageData && number != messageConnect {
			i.field = fieldBody
		}
		return i.message(last)
	}
	return nil
}

// message handles a message once its type is known.
func (i *Inspector) message(last *byte) error {
	switch i.kind {
	case messageConnect:
		return errors.New("the peer asked to dial")
	case messageAddClient, messageRemoveClient:
		return fmt.Errorf("the peer sent a list of connections (type %d)", i.kind)
	case messageSync:
		*last ^= ignored
	case messageError:
		i.Closing(i.connection)
	}
	return nil
}
