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

// ignored differs from messageSync, zig-zag encoded, by the bits that make it a type that nobody knows: such a message is skipped.
const ignored = (messageSync << 1) ^ (9 << 1)

// errMalformed ends a link on which something else than the protocol is spoken.
var errMalformed = errors.New("the other side does not speak the protocol of the tunnel")

// Inspector reads along what the other side of a session sends, as it comes in: frames of WebSocket, and within them the heads of
// messages. It keeps nothing but where it is.
type Inspector struct {
	// Data is told of every byte that came for a connection, in portions.
	Data func(connection int64, n int)
	// Closing is told of a connection that the other side ends, before anybody else sees the message.
	Closing func(connection int64)

	// frame
	head      []byte // of the frame that begins; nil within its payload
	remaining uint64 // of the payload
	masked    bool
	mask      [4]byte
	at        int // position in the payload, modulo 4
	control   bool

	// message
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

// longestHead is the longest head of a frame: two bytes, eight of length, four of mask.
const longestHead = 14

// Inspect reads the next bytes. It changes them where they announce which connections there are, so that nobody acts on that. An error
// means that the other side sends what it must not.
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

// frame takes bytes of a frame's head, and returns how many.
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

// headLength is how long a head is, by its first two bytes.
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

// payload takes bytes of a message.
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

// number takes a number of the head, whose last byte is given.
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

// message judges the message whose type is known now.
func (i *Inspector) message(last *byte) error {
	switch i.kind {
	case messageConnect:
		return errors.New("the other side wants to dial")
	case messageAddClient, messageRemoveClient:
		return fmt.Errorf("the other side announces others (type %d)", i.kind)
	case messageSync:
		*last ^= ignored
	case messageError:
		i.Closing(i.connection)
	}
	return nil
}
